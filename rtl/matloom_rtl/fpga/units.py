"""Attributes the area of a chip to its units, from Yosys' flattened netlist."""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

__all__ = ["COUNTED", "area_by_unit", "is_top", "read_cells", "total"]

#: Amount of each resource, a column of the breakdown, that a cell takes, by type of the cell. COMB
#: is nextpnr's TRELLIS_COMB: one for a table, two for a carry cell, four for a distributed RAM of
#: 16 x 4 bits. On a Gowin a carry cell counts as one, and a block multiplies 18 bits once or 9 bits
#: twice.
COUNTED: dict[str, dict[str, float]] = {
    "LUT4": {"COMB": 1},
    "CCU2C": {"COMB": 2},
    "TRELLIS_DPR16X4": {"COMB": 4},
    "TRELLIS_FF": {"FF": 1},
    "MULT18X18D": {"DSP": 1},
    "DP16KD": {"BRAM": 1},
    **{table: {"COMB": 1} for table in ("LUT1", "LUT2", "LUT3", "ALU")},
    **{f"RAM16SDP{bits}": {"COMB": bits} for bits in (1, 2, 4)},
    **{f"DFF{kind}{enable}": {"FF": 1} for kind in ("", *"RSPC") for enable in ("", "E")},
    **{"MULT9X9": {"DSP": 0.5}, "MULT18X18": {"DSP": 1}},
    **{memory: {"BRAM": 1} for memory in ("SDPB", "SDPX9B", "DPB", "DPX9B", "SP", "SPX9")},
}

#: Types of logic cells, whose names do not tell their unit: they count for the cells they drive.
_LOGIC = (
    *("LUT4", "CCU2C", "PFUMX", "L6MUX21"),
    *("LUT1", "LUT2", "LUT3", "ALU", "MUX2_LUT5", "MUX2_LUT6", "MUX2_LUT7", "MUX2_LUT8"),
)

#: Levels of the hierarchy below the core in the breakdown.
_DEPTH = 2

_CORE = "core"
_OTHER = "other"


def read_cells(netlist: Path) -> dict:
    """Return the top module's cells by name, from a netlist of Yosys' `write_json`."""
    modules = json.loads(netlist.read_text())["modules"]
    (top,) = filter(is_top, modules.values())
    return top["cells"]


def is_top(module: dict) -> bool:
    """Return whether a module is marked as the top module by Yosys."""
    return bool(int(module["attributes"].get("top", "0"), 2))


def unit_of(name: str) -> str:
    """Return the unit of a register, memory or multiplier, at most `_DEPTH` levels below the core.

    Names of flattened cells start with the path of their module; Yosys appends ``$`` and a number
    to duplicate names.
    """
    *path, _own = re.sub(r"\$\d+", "", name).split(".")
    if _CORE not in path:
        return _OTHER
    return ".".join(path[path.index(_CORE) + 1 :][:_DEPTH]) or _CORE


def area_by_unit(cells: dict) -> dict[str, dict[str, float]]:
    """Return the tables, flip-flops, multipliers and block RAMs of each unit.

    Registers, memories and multipliers keep their unit's path through synthesis; logic cells do
    not. So the area of a logic cell is divided among the units of the cells that it drives,
    directly or through other logic, in equal shares per pin. Totals are exact, apart from rounding.
    """
    area: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    shares = _shares(cells)
    for name, cell in cells.items():
        for unit, share in shares[name].items():
            for column, count in COUNTED.get(cell["type"], {}).items():
                area[unit][column] += count * share
    columns = list(dict.fromkeys(column for each in COUNTED.values() for column in each))
    rows = sorted(area.items(), key=lambda item: -item[1]["COMB"])
    return {unit: {column: round(row[column], 1) for column in columns} for unit, row in rows}


def total(area: dict[str, dict[str, float]]) -> dict[str, int]:
    """Return the sum of each column over all units, as integers."""
    sums: Counter[str] = Counter()
    for row in area.values():
        sums.update(row)
    return {column: round(count) for column, count in sums.items()}


def _bits(cell: dict, direction: str) -> list[int]:
    """Return the wires at a cell's pins of a direction, once per pin, without constants."""
    return [
        bit
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == direction
        for bit in bits
        if isinstance(bit, int)
    ]


def _shares(cells: dict) -> dict[str, dict[str, float]]:
    """Return, for each cell, the share of its area that belongs to each unit."""
    users = defaultdict(list)
    for name, cell in cells.items():
        for bit in _bits(cell, "input"):
            users[bit].append(name)
    shares = {
        name: {unit_of(name): 1.0} for name, cell in cells.items() if cell["type"] not in _LOGIC
    }
    for name in cells:
        # Depth first, driven cells before their drivers; there are no combinational loops.
        path = [name]
        while path:
            last = path[-1]
            driven = [user for bit in _bits(cells[last], "output") for user in users[bit]]
            missing = [user for user in driven if user not in shares] if last not in shares else []
            if missing:
                path.extend(missing)
                continue
            path.pop()
            if last not in shares:
                shares[last] = _average([shares[user] for user in driven])
    return shares


def _average(parts: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of shares by unit; all for other logic if there are none."""
    if not parts:
        return {_OTHER: 1.0}
    mean: dict[str, float] = defaultdict(float)
    for part in parts:
        for unit, share in part.items():
            mean[unit] += share / len(parts)
    return dict(mean)
