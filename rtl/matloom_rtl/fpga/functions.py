"""Functions of wires, as the tables of a netlist hold them, and what reads a wire."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Table", "lookup_table", "read", "tabulate", "users_of"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A function of wires: numbers, which come in order in the bits of a place in `bits`."""

    wires: tuple[int, ...]
    bits: tuple[int, ...]

    def __call__(self, values: dict) -> int:
        return self.bits[sum(values[wire] << place for place, wire in enumerate(self.wires))]

    def init(self, size: int) -> int:
        """Return a table of so many bits, whose first inputs are the wires."""
        return sum(self.bits[place % len(self.bits)] << place for place in range(size))


def tabulate(wires: tuple[int, ...], function: Callable[[dict], int]) -> Table:
    """Return a function of the values of wires, without those that it does not depend on."""
    numbers = range(1 << len(wires))
    cases = ({wire: number >> at & 1 for at, wire in enumerate(wires)} for number in numbers)
    return _needed(Table(wires=wires, bits=tuple(function(each) for each in cases)))


def read(wires: list, init: int) -> Table:
    """Return the function of a table whose inputs may be constants, or the same wire."""
    found = tuple(dict.fromkeys(wire for wire in wires if isinstance(wire, int)))

    def look_up(values: dict) -> int:
        inputs = (values[wire] if isinstance(wire, int) else wire == "1" for wire in wires)
        return init >> sum(bit << at for at, bit in enumerate(inputs)) & 1

    return tabulate(found, look_up)


def _needed(table: Table) -> Table:
    """Return the function without the wires that it does not depend on."""
    for at, wire in enumerate(table.wires):
        low = tuple(bit for place, bit in enumerate(table.bits) if not place >> at & 1)
        high = tuple(bit for place, bit in enumerate(table.bits) if place >> at & 1)
        if low == high:
            rest = tuple(each for each in table.wires if each != wire)
            return _needed(Table(wires=rest, bits=low))
    return table


def users_of(cells: dict, ports: dict) -> dict[int, list]:
    """Return for each wire the inputs that it drives; None stands for a port of the module."""
    users = defaultdict(list)
    for name, cell in cells.items():
        for port, wires in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for wire in wires:
                    users[wire].append((name, port))
    for port in ports.values():
        for wire in port["bits"]:
            users[wire].append(None)
    return users


def lookup_table(function: Table, made: list) -> dict[str, Any]:
    """Return a cell that makes a function of at most four wires."""
    inputs = dict(zip("ABCD", (*function.wires, *"0000"), strict=False))
    return {
        "hide_name": 0,
        "type": "LUT4",
        "parameters": {"INIT": f"{function.init(16):016b}"},
        "attributes": {},
        "port_directions": dict.fromkeys(inputs, "input") | {"Z": "output"},
        "connections": {port: [wire] for port, wire in inputs.items()} | {"Z": made},
    }
