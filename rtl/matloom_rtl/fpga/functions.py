"""Boolean functions of wires, as stored in the tables of a netlist."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Table", "lookup_table", "mux", "read_table", "tabulate", "users_of"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A Boolean function of wires: bit n of an index into `bits` is the value of `wires[n]`."""

    wires: tuple[int, ...]
    bits: tuple[int, ...]

    def __call__(self, values: dict) -> int:
        return self.bits[sum(values[wire] << place for place, wire in enumerate(self.wires))]

    def evaluate(self, cases: dict[int, int]) -> int:
        """Return the function's values in many cases at once: bit n of the result is for case n.

        Bit n of `cases[wire]` is the value of a wire in case n. Constants are 0 and -1; bits beyond
        the cases are undefined.
        """
        values = [-bit for bit in self.bits]
        for wire in self.wires:
            high = cases[wire]
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [mux(high, *pair) for pair in pairs]
        return values[0]

    def init(self, size: int) -> int:
        """Return the contents of a lookup table of `size` bits; its first inputs are the wires."""
        return sum(self.bits[place % len(self.bits)] << place for place in range(size))


def mux(select: int, low: int, high: int) -> int:
    """Return, for each bit, that of `high` if the bit of `select` is 1, else that of `low`."""
    return low ^ (low ^ high) & select


def tabulate(wires: tuple[int, ...], function: Callable[[dict[int, int]], int]) -> Table:
    """Return a function as a table of `wires`, without those that it does not depend on.

    `function` takes and returns all cases at once, like `Table.evaluate`.
    """
    size = 1 << len(wires)
    values = function({wire: _low(at, size) << (1 << at) for at, wire in enumerate(wires)})
    return _drop_unused_wires(wires, tuple(values >> case & 1 for case in range(size)))


def read_table(wires: list, init: int) -> Table:
    """Return the function of a lookup table with contents `init`.

    Its inputs may be constants, "0" or "1", or repeat a wire.
    """
    found = tuple(dict.fromkeys(wire for wire in wires if isinstance(wire, int)))
    places = range(len(wires))
    table = Table(wires=tuple(places), bits=tuple(init >> at & 1 for at in range(1 << len(wires))))

    def look_up(cases: dict[int, int]) -> int:
        """Return the lookup table's outputs for the given values of its wires."""
        inputs = (cases[wire] if isinstance(wire, int) else -(wire == "1") for wire in wires)
        return table.evaluate(dict(zip(places, inputs, strict=True)))

    return tabulate(found, look_up)


def _low(place: int, size: int) -> int:
    """Return a mask of those indices below `size` whose bit `place` is 0."""
    return ((1 << size) - 1) // ((1 << (1 << place)) + 1)


def _drop_unused_wires(wires: tuple[int, ...], bits: tuple[int, ...]) -> Table:
    """Return a function as a table without the wires that it does not depend on."""
    kept: list[int] = []
    for wire in wires:
        # Earlier wires are the lower bits of the index.
        step = 1 << len(kept)
        halves = [
            tuple(bit for case, bit in enumerate(bits) if bool(case & step) == high)
            for high in (False, True)
        ]
        if halves[0] == halves[1]:
            bits = halves[0]
        else:
            kept.append(wire)
    return Table(wires=tuple(kept), bits=bits)


def users_of(cells: dict, ports: dict) -> dict[int, list]:
    """Return the inputs that each wire drives, as pairs of cell and port, by wire.

    None is in the list for each bit of a module's port.
    """
    users: dict[int, list[tuple[str, str] | None]] = defaultdict(list)
    for name, cell in cells.items():
        for port, wires in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for wire in wires:
                    users[wire].append((name, port))
    for port in ports.values():
        for wire in port["bits"]:
            users[wire].append(None)
    return users


def lookup_table(function: Table, output: list) -> dict[str, Any]:
    """Return a LUT4 cell that drives `output` with a function of at most four wires."""
    inputs = dict(zip("ABCD", (*function.wires, *"0000"), strict=False))
    return {
        "hide_name": 0,
        "type": "LUT4",
        "parameters": {"INIT": f"{function.init(16):016b}"},
        "attributes": {},
        "port_directions": dict.fromkeys(inputs, "input") | {"Z": "output"},
        "connections": {port: [wire] for port, wire in inputs.items()} | {"Z": output},
    }
