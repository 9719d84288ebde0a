"""Tries the claims of `matloom_rtl.formal` on mutants of the chip's netlist.

A claim elaborates a unit of the chip again, with some registers as additional ports. Apart from the
numbers in names, its Verilog equals the chip's, so a mutated cell can be found in it by its type,
lines and parameters. If there is no such cell, or a different number of them, the claim is not
tried. Claims are prepared once for a chip.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import Fragment
from mutant_yosys import module_of, run_yosys

from matloom.arch.config import Config
from matloom.toolchain import simulated
from matloom_rtl.formal.engine import FAILED, NOT_PROVEN, PROVEN, digest_of, prove
from matloom_rtl.formal.proof import Proof
from matloom_rtl.formal.table import proofs_of

#: Share of a module's lines that a claim's module must have, to be the same unit.
_MIN_COMMON_SHARE = 0.6

_CELL = re.compile(
    r'(?:^  attribute \\src "(?P<src>[^"]*)"\n)?(?:^  attribute .*\n)*'
    r"^  cell (?P<type>\$\S+) (?P<name>\S+)\n(?P<body>(?:^    .*\n)*?)^  end$",
    re.MULTILINE,
)
_MODULE = re.compile(r"^module (\S+)\n(.*?)^end$", re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r"^module \\?(\S+?) ?\(.*?^endmodule$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ClaimFiles:
    """A formal claim as files: its Verilog, and its netlist in Yosys' format."""

    proof: Proof
    folder: Path

    @property
    def verilog(self) -> str:
        """Return the claim's Verilog, in which cells are located by line."""
        return (self.folder / "chip.v").read_text()


def prepare(config: Config, folder: Path) -> list[ClaimFiles]:
    """Write each claim of a configuration's quick set into a folder; return the files."""
    return write_claims([proof for proof in proofs_of(config) if proof.quick], folder)


def write_claims(proofs: list[Proof], folder: Path) -> list[ClaimFiles]:
    """Write the claims into folders, unless they exist; return the files."""
    made = []
    for proof in proofs:
        text = proof.build().text()
        place = folder / digest_of(proof, text)
        place.mkdir(parents=True, exist_ok=True)
        if not (place / "claim.il").is_file():
            (place / "chip.v").write_text(simulated.for_simulation(_verilog(proof)))
            run_yosys(
                "read_verilog -formal chip.v\nhierarchy -top top\nproc\nopt_clean\n"
                "write_rtlil claim.il\n",
                place,
            )
        made.append(ClaimFiles(proof=proof, folder=place))
    return made


def _verilog(proof: Proof) -> str:
    """Return the Verilog of a proof's claim, as a module `top`."""
    claim = proof.build()
    ports = [port for port in claim.ports if len(port)]
    return verilog.convert(
        Fragment.get(claim.module, None),
        name="top",
        ports=ports,
        emit_src=False,
        strip_internal_attrs=True,
    )


def _lines(text: str) -> list[str]:
    """Return lines of Verilog without the parts that differ between a chip and a claim."""
    text = re.sub(r"\b\w+_reset\b|\breset\b", "rst", text)
    text = re.sub(r"^(  reg .*?) = \d+'h[0-9a-f]+;", r"\1;", text, flags=re.MULTILINE)
    return re.sub(r"\$\d+", "$", text).splitlines()


@cache
def _modules(text: str) -> dict[str, tuple[int, list[str]]]:
    """Return the first line number and the lines of each module."""
    return {
        found[1]: (text.count("\n", 0, found.start()) + 1, _lines(found[0]))
        for found in _TEXT.finditer(text)
    }


@cache
def _cells(path: Path) -> dict[str, list[re.Match[str]]]:
    """Return the cells of each module that Yosys wrote."""
    return {
        found[1].removeprefix("\\"): list(_CELL.finditer(found[2]))
        for found in _MODULE.finditer(path.read_text())
    }


def _similarity(lines: list[str], others: list[str]) -> float:
    """Return the share of lines that two modules have in common, from 0 to 1."""
    return (Counter(lines) & Counter(others)).total() / max(len(lines), len(others))


def _same_lines(module: tuple[int, list[str]], other: tuple[int, list[str]]) -> dict[int, int]:
    """Return a map from line numbers of a module to those of equal lines in another one.

    Modules are pairs of first line number and lines. The map is empty if they differ too much.
    """
    (first, lines), (other_first, others) = module, other
    if _similarity(lines, others) < _MIN_COMMON_SHARE:
        return {}
    blocks = difflib.SequenceMatcher(None, lines, others, autojunk=False).get_matching_blocks()
    return {
        first + block.a + n: other_first + block.b + n
        for block in blocks
        for n in range(block.size)
    }


def _cell_key(cell: re.Match[str]) -> tuple[Any, ...]:
    """Return a key of a cell that is the same in the netlists of chip and claim."""
    numbers = re.findall(r"(\d+)\.\d+-(\d+)\.\d+", cell["src"] or "")
    lines = tuple((int(first), int(last)) for first, last in numbers)
    return lines, cell["type"], tuple(re.findall(r"parameter (.*)", cell["body"]))


def _counterparts(mutant: str, chip: Path, claim: ClaimFiles) -> Iterator[str]:
    """Yield the mutant as arguments of `mutate`, for each unit of a claim that contains it."""
    match = re.search(r"-module (\S+) -cell (\S+)", mutant)
    assert match is not None
    module, name = match.groups()
    cells = _cells(chip / "chip.il")[module]
    cell = next((each for each in cells if each["name"] == name), None)
    if cell is None:
        return
    key = _cell_key(cell)
    same = [each["name"] for each in cells if _cell_key(each) == key]
    own = _modules((chip / "chip.v").read_text())[module]
    for other, text in _modules(claim.verilog).items():
        lines = _same_lines(own, text) if other != "top" else {}
        if not lines or any(line not in lines for pair in key[0] for line in pair):
            continue
        there = (tuple((lines[a], lines[b]) for a, b in key[0]), *key[1:])
        cells = _cells(claim.folder / "claim.il")[other]
        names = [each["name"] for each in cells if _cell_key(each) == there]
        if len(names) == len(same):
            words = re.sub(r" -(?:wire|src) \S+| -wirebit \d+", "", mutant)
            counterpart = names[same.index(name)]
            yield words.replace(f"{module} -cell {name}", f"{other} -cell {counterpart}")


def first_failing_claim(
    mutant: str, chip: Path, claims: list[ClaimFiles], folder: Path, seconds: int
) -> tuple[int, str]:
    """Return how many claims were tried on a mutant, and the message of the first that fails.

    `seconds` limits each claim. A claim notices a mutant if it is proven for the original unit, but
    fails for the mutant or is no longer inductive.
    """
    tried, own = 0, _modules((chip / "chip.v").read_text())[module_of(mutant)][1]

    def distance(claim: ClaimFiles) -> float:
        """Return how different a claim's units are from the mutant's, in lines."""
        return -max(_similarity(own, lines) for _first, lines in _modules(claim.verilog).values())

    # Units with other parameters are alike, too: the mutant's own comes first.
    for claim in sorted(claims, key=distance):
        for counterpart in _counterparts(mutant, chip, claim):
            if _verdict(claim, "", folder, seconds) != PROVEN:
                continue
            tried += 1
            verdict = _verdict(claim, f"mutate {counterpart}\n", folder, seconds)
            if verdict in (FAILED, NOT_PROVEN):
                return tried, f"{claim.proof.kind}, {claim.proof.unit}: {verdict}"
    return tried, ""


@cache
def _verdict(claim: ClaimFiles, change: str, folder: Path, seconds: int) -> str:
    """Return the verdict on a mutated claim; raise if a tool fails."""
    result = prove(claim.proof, _mutate(claim, change), folder, seconds)
    log = (folder / "log").read_text()
    if result.verdict == FAILED and "Assert failed" not in log and "Unreached" not in log:
        raise RuntimeError(f"{claim.proof.unit}: {result.detail}")
    return result.verdict


def _mutate(claim: ClaimFiles, change: str) -> str:
    """Return a mutated claim in Yosys' own format."""
    run_yosys(f"read_rtlil claim.il\n{change}write_rtlil mutant.il\n", claim.folder)
    return (claim.folder / "mutant.il").read_text()
