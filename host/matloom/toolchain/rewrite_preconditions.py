"""Checks the preconditions for rewriting generated Verilog for simulation."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

_MODULE = re.compile(r"^module .*?^endmodule", re.MULTILINE | re.DOTALL)
_INITIAL = re.compile(
    r"^ *initial\b(?: begin\n(?P<values>(?: *\S+ ?\[\d+\] = [^;\n]+;\n)*) *end\n)?", re.MULTILINE
)
#: A declaration with an initial value, except of Yosys's own registers.
_VALUE = re.compile(r"^ *(?:output )?(?:reg|integer)\b(?! *\\\$auto)[^;\n]*=.*$", re.MULTILINE)
_WRITE = re.compile(r"^ *(?P<memory>\\\S+|\w+) ?\[(?P<index>.+)\]\s*<=", re.MULTILINE)


def require_one_writer(
    verilog: str, runs: Iterable[Sequence[re.Match[str]]], min_lanes: int
) -> None:
    """Raise ValueError if a memory whose write lanes are to be joined is also written elsewhere.

    Lanes are parts of a word with their own write enables. The joined assignment writes the old
    bytes of a word back, which is right only if nothing else writes the memory at the same clock
    edge.

    Parameters
    ----------
    runs:
        Runs of assignments to consecutive lanes, in the order of the text: matches with groups
        `memory`, `address`, `high` and `low`.
    min_lanes:
        Minimum number of lanes in a run that is to be joined; other memories are not checked.

    Raises
    ------
    ValueError
        A memory has a second writer, a second address, or lanes that overlap.
    """
    modules = list(_MODULE.finditer(verilog))
    lanes: defaultdict[tuple[int, str], list[re.Match[str]]] = defaultdict(list)
    joined, place = set[tuple[int, str]](), 0
    for run in runs:
        while modules[place].end() < run[0].start():
            place += 1
        key = place, run[0]["memory"]
        lanes[key] += run
        if len(run) >= min_lanes:
            joined.add(key)
    for place, memory in sorted(joined):
        _require_lanes_alone(modules[place], memory, lanes[place, memory])


def require_any_state(verilog: str) -> None:
    """Raise ValueError if a register, or a memory that is not a table, has an initial value.

    A simulation randomises only registers without an initial value, and only then shows that
    results do not depend on it. A table is a memory with nonzero contents.

    Raises
    ------
    ValueError
        A declaration has an initial value, or an `initial` block contains more than a table.
    """
    if declared := _VALUE.search(verilog):
        raise ValueError(f"a register must have no initial value: {declared[0].strip()}")
    for block in _INITIAL.finditer(verilog):
        numbers = re.findall(r"= \d+'[hdb](\w+);", block["values"] or "")
        if not any(number.strip("0_") for number in numbers):
            line = verilog[block.start() :].splitlines()[1].strip()
            raise ValueError(f"an initial block must only hold a table's values, not {line}")


def _require_lanes_alone(module: re.Match[str], memory: str, lanes: list[re.Match[str]]) -> None:
    """Raise ValueError unless these lanes alone, in one process, write a memory at one address."""
    text, start = module[0], module.start()
    rule = f"memory {memory.strip()} must be written"
    writes = [write for write in _WRITE.finditer(text) if write["memory"] == memory.strip()]
    if len(writes) != len(lanes):
        raise ValueError(f"{rule} by its {len(lanes)} lanes alone, not by {len(writes)} statements")
    between = text[lanes[0].start() - start : lanes[-1].start() - start]
    processes = 1 + len(re.findall(r"^ *always ", between, re.MULTILINE))
    if processes != 1:
        raise ValueError(f"{rule} by one process, not {processes}")
    addresses = {lane["address"] for lane in lanes}
    if len(addresses) != 1:
        raise ValueError(f"{rule} at one address, not at {', '.join(sorted(addresses))}")
    bits = [bit for lane in lanes for bit in range(int(lane["low"]), int(lane["high"]) + 1)]
    if len(bits) != len(set(bits)):
        raise ValueError(f"{rule} by lanes that do not overlap, not {max(bits, key=bits.count)}")
