"""Reads Verilator's line and toggle counts, filters them, and sums them by unit."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from matloom.errors import UserError

#: A line of Verilator's coverage file: keys and values, each after a separator, then a count.
_RECORD = re.compile(r"C '(?P<keys>.*)' (?P<count>\d+)$")

#: Reasons why points are left out of the figures, by the key under which they are counted.
EXCLUSIONS = {
    "idiom": "a branch that Yosys writes into each `always @*` and that is never taken",
    "constant": "a signal to which the Verilog assigns a constant",
    "probe": "a line or register of the probes, which are not part of the chip",
}

_MODULE = re.compile(r"^module (\S+) ?\(")
_CONSTANT = re.compile(r"^  assign (\S+) ?(?:\[[\d:]+\])? *= \d+'[hbd][0-9a-f]+;")


@dataclass(kw_only=True)
class UnitFigures:
    """Number of lines and toggles of a unit, and number of those that were reached.

    Members
    -------
    excluded:
        Number of points left out, by key of `EXCLUSIONS`.
    missing_lines:
        Text of each line that never ran.
    missing_toggles:
        Number of toggles that never happened, by module and signal.
    """

    lines: int = 0
    lines_reached: int = 0
    toggles: int = 0
    toggles_reached: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    missing_lines: list[str] = field(default_factory=list)
    missing_toggles: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class _VerilogText:
    """The simulated Verilog: its lines, and the pairs of module and signal that are constant."""

    lines: tuple[str, ...]
    constants: frozenset[tuple[str, str]]


def read_counts(path: Path) -> Counter[str]:
    """Return the counts in a coverage file of Verilator, by the keys of the record.

    Counts of records with equal keys are summed. Raises `ValueError` if it is not such a file.
    """
    counts: Counter[str] = Counter()
    with path.open() as file:
        if not next(file, "").startswith("# SystemC::Coverage-3"):
            raise UserError(
                f"{str(path)!r} is not a coverage file of Verilator",
                hint="Verilator writes such files",
            )
        for line in file:
            record = _RECORD.match(line)
            if record is None:
                raise ValueError(f"{str(path)!r} has a line that is not a record: {line[:40]!r}")
            counts[record["keys"]] += int(record["count"])
    return counts


def by_unit(counts: Mapping[str, int], verilog: str) -> dict[str, UnitFigures]:
    """Return line and toggle coverage of each unit of a chip, by name, from counts by record.

    A line counts as reached if any block or branch that contains it was reached. Each direction of
    each bit of a signal counts as one toggle.
    """
    text = _parse_verilog(verilog)
    units: dict[str, UnitFigures] = {}
    reached: dict[tuple[str, int], bool] = {}
    for record, count in counts.items():
        keys = dict(part.split("\2", 1) for part in record.split("\1")[1:])
        module = keys["page"].split("/", 1)[1]
        if keys["t"] == "toggle":
            _add_toggle(
                units.setdefault(_unit_name(module), UnitFigures()), keys, count, module, text
            )
            continue
        for line in _line_numbers(keys.get("S", "")):
            reached[module, line] = reached.get((module, line), False) or count > 0
    for (module, line), ran in sorted(reached.items()):
        _add_line(units.setdefault(_unit_name(module), UnitFigures()), text.lines[line - 1], ran)
    return dict(sorted(units.items()))


def _unit_name(module: str) -> str:
    """Return the third part of a module's name, or the last of fewer: `post` for `a.b.post.c`."""
    parts = module.split("$")[0].split(".")
    return parts[:3][-1]


def _parse_verilog(verilog: str) -> _VerilogText:
    """Return the lines of a Verilog text, and the signals that are assigned constants."""
    lines = tuple(verilog.splitlines())
    constants, module = set(), ""
    for line in lines:
        if begun := _MODULE.match(line):
            module = begun[1].removeprefix("\\")
        elif constant := _CONSTANT.match(line):
            constants.add((module, constant[1].removeprefix("\\")))
    return _VerilogText(lines=lines, constants=frozenset(constants))


def _line_numbers(text: str) -> Iterator[int]:
    """Yield the line numbers in a list of ranges: 3, 5, 6 and 7 for "3,5-7"."""
    for part in filter(None, text.split(",")):
        first, _dash, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _add_line(figures: UnitFigures, text: str, ran: bool) -> None:
    """Count a line of Verilog in its unit's figures: reached if it `ran`, or excluded."""
    if "dump_module" in text:
        figures.excluded["idiom"] += 1
    elif "probe" in text:
        figures.excluded["probe"] += 1
    else:
        figures.lines += 1
        figures.lines_reached += ran
        if not ran:
            figures.missing_lines.append(" ".join(text.split()))


def _add_toggle(
    figures: UnitFigures, keys: Mapping[str, str], count: int, module: str, text: _VerilogText
) -> None:
    """Count a toggle of a signal's bit in its unit's figures: reached if `count`, or excluded."""
    signal = _decoded_name(re.split(r"\[\d+\]:|:(?=[01]->)", keys["o"])[0])
    if signal == "probe_cycle":
        figures.excluded["probe"] += 1
    elif "dump_module" in signal:
        figures.excluded["idiom"] += 1
    elif (module, signal) in text.constants:
        figures.excluded["constant"] += 1
    else:
        figures.toggles += 1
        figures.toggles_reached += count > 0
        if not count:
            figures.missing_toggles[f"{module} {signal}"] += 1


def _decoded_name(name: str) -> str:
    """Return a name as in the Verilog, with special characters that Verilator encodes decoded."""
    return re.sub(r"__0([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), name)
