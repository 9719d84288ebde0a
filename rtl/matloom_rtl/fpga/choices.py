"""Merges lookup tables into the multiplexers behind them, on an ECP5.

A slice has a multiplexer behind its two tables (PFUMX), and another behind those of two slices
(L6MUX21); using them is free. ABC9 uses them only for functions of five to seven inputs: a 4:1
multiplexer, which has six inputs, comes out as three tables although two and a PFUMX suffice.
"""

from matloom_rtl.fpga.functions import Table, lookup_table, mux, read_table, tabulate, users_of

__all__ = ["join_choices"]

#: Inputs of a table.
_INPUTS = "ABCD"

#: Maximum number of wires in the cone of a cell (`_Design._cone`).
_MAX_CONE_WIRES = 8

#: Data inputs of a PFUMX; the first is selected by 0, the second by 1.
_SIDES = ("BLUT", "ALUT")


def join_choices(cells: dict, ports: dict) -> None:
    """Replace tables, in place, by fewer tables with multiplexers, if nothing else reads them.

    Three or more tables that compute one function become two tables and a PFUMX, if a wire selects
    between two functions of at most four other wires. A table that selects between two PFUMX
    becomes an L6MUX21. `cells` and `ports` are as in `absorb.absorb`, without combinational loops.
    """
    design = _Design(cells, ports)
    for name in design.in_dependency_order():
        # Skip cells that have been merged, and the two tables of a multiplexer.
        if design.stands_alone(name) and not design.join_tables(name):
            design.join_pair(name)


class _Design:
    """A netlist, with the readers of each wire, and the table or PFUMX that drives it."""

    def __init__(self, cells: dict, ports: dict):
        self._cells = cells
        self._users = users_of(cells, ports)
        self._drivers = {
            cell["connections"]["Z"][0]: name
            for name, cell in cells.items()
            if cell["type"] == "LUT4"
        }
        # Multiplexers whose two tables nothing else reads.
        self._drivers |= {
            cell["connections"]["Z"][0]: name
            for name, cell in cells.items()
            if cell["type"] == "PFUMX"
            and all(self._is_read_once(cell["connections"][side][0]) for side in _SIDES)
        }
        self._functions: dict[str, Table] = {}

    def in_dependency_order(self) -> list[str]:
        """Return the names of all tables and PFUMX, each after those whose outputs it reads."""
        order: dict[str, None] = {}
        seen: set[str] = set()
        for name in self._drivers.values():
            path = [name]
            while path:
                inputs = self._inputs(path[-1]) if path[-1] not in seen else ()
                seen.add(path[-1])
                before = [self._drivers[wire] for wire in inputs if wire in self._drivers]
                missing = [each for each in before if each not in seen]
                path += missing
                if not missing:
                    order[path.pop()] = None
        return list(order)

    def stands_alone(self, name: str) -> bool:
        """Return whether a cell still exists, and is not one of the two tables of a PFUMX."""
        if name not in self._cells:
            return False
        return not any(user and user[1] in _SIDES for user in self._users[self._output_wire(name)])

    def join_tables(self, name: str) -> bool:
        """Turn a table or PFUMX, with cells that only it reads, into fewer; return the success."""
        table, inner = self._function(name), self._cone(name)
        if not inner:
            return False
        best, most = None, len(_SIDES)
        shared = self._shared_functions(table, inner)
        every = (wire for each in (table, *inner.values(), *shared.values()) for wire in each.wires)
        for select in dict.fromkeys(wire for wire in every if wire not in inner):
            # Wires with other readers remain, but may be functions of the select wire.
            follows = {wire: each for wire, each in shared.items() if select in each.wires}
            sides = [_fuse(table, {select: value}, inner | follows) for value in range(len(_SIDES))]
            if any(len(function.wires) > len(_INPUTS) for function, _wires in sides):
                continue
            gone = self._replaced_cells(name, sides)
            count = sum(len(self._tables(each)) for each in gone)
            if count > most:
                best, most = (select, [function for function, _wires in sides], gone), count
        if best is None:
            return False
        self._choose(name, *best)
        return True

    def _cone(self, name: str) -> dict[int, Table]:
        """Return the functions of the wires in a cell's cone, by wire.

        The cone has up to `_MAX_CONE_WIRES` wires that have one reader, the cell or another cell
        that drives a wire of the cone.
        """
        inner: dict[int, Table] = {}
        border = list(self._function(name).wires)
        while border and len(inner) < _MAX_CONE_WIRES:
            wire = border.pop(0)
            if wire not in inner and self._is_read_once(wire):
                inner[wire] = self._function(self._drivers[wire])
                border += inner[wire].wires
        return inner

    def _shared_functions(self, table: Table, inner: dict[int, Table]) -> dict[int, Table]:
        """Return, by wire, the functions of tables and PFUMX outside a cone that the cone reads."""
        wires = {wire for each in (table, *inner.values()) for wire in each.wires} - inner.keys()
        return {wire: self._function(self._drivers[wire]) for wire in wires & self._drivers.keys()}

    def _replaced_cells(self, name: str, branches: list[tuple[Table, list[int]]]) -> list[str]:
        """Return the cells that are no longer read if a choice between `branches` replaces a cell.

        The first of them is the cell itself.
        """
        # Functions that did not fit into both branches are still read.
        left = {wire for function, _wires in branches for wire in function.wires}
        taken = {wire for _function, wires in branches for wire in wires} - left
        gone = [name]
        for each in gone:
            wires = dict.fromkeys(self._function(each).wires)
            gone += [
                self._drivers[wire] for wire in wires if wire in taken and self._is_read_once(wire)
            ]
        return gone

    def _choose(self, name: str, select: int, functions: list[Table], cells: list[str]) -> None:
        """Replace `cells` by a PFUMX called `name`, which selects between two functions."""
        made = self._output_wire(name)
        gone = [part for each in cells for part in dict.fromkeys((each, *self._tables(each)))]
        free = [wire for wire in map(self._output_wire, gone) if wire != made]
        for part in gone:
            self._remove(part)
        inputs = {"BLUT": free[0], "ALUT": free[1], "C0": select}
        for number, function in enumerate(functions):
            self._add(f"{name}$side_{number}", lookup_table(function, [free[number]]))
        self._add(name, _multiplexer("PFUMX", inputs, made))

    def join_pair(self, name: str) -> None:
        """Turn a table that chooses between two otherwise unused PFUMX into an L6MUX21."""
        if self._cells[name]["type"] != "LUT4":
            return
        table = self._function(name)
        for select in table.wires:
            sides = [_fix_wires(table, {select: value}) for value in range(len(_SIDES))]
            wires = [side.wires[0] for side in sides if len(side.wires) == 1]
            if len(set(wires)) == len(_SIDES) and all(
                self._is_read_once(wire, "PFUMX") for wire in wires
            ):
                for side in sides:
                    if side.bits == (1, 0):
                        self._invert(self._drivers[side.wires[0]])
                made = self._output_wire(name)
                self._remove(name)
                inputs = {"D0": wires[0], "D1": wires[1], "SD": select}
                self._add(name, _multiplexer("L6MUX21", inputs, made))
                return

    def _output_wire(self, name: str) -> int:
        """Return the wire that a cell drives."""
        return self._cells[name]["connections"]["Z"][0]

    def _inputs(self, name: str) -> list[int]:
        """Return the wires that a cell reads."""
        cell = self._cells[name]
        directions = cell["port_directions"]
        return [
            wire
            for port, wires in cell["connections"].items()
            for wire in wires
            if directions[port] == "input"
        ]

    def _tables(self, name: str) -> list[str]:
        """Return the names of the tables of a cell: a table itself, or the two of a PFUMX."""
        if self._cells[name]["type"] == "LUT4":
            return [name]
        connections = self._cells[name]["connections"]
        return [self._drivers[connections[port][0]] for port in _SIDES]

    def _function(self, name: str) -> Table:
        """Return the function of a table, or of a PFUMX with its two tables."""
        if name not in self._functions:
            self._functions[name] = self._read(name)
        return self._functions[name]

    def _read(self, name: str) -> Table:
        """Return the function of a table or PFUMX, read from its netlist cell."""
        cell = self._cells[name]
        if cell["type"] == "LUT4":
            wires = [cell["connections"][each][0] for each in _INPUTS]
            return read_table(wires, int(cell["parameters"]["INIT"], 2))
        low, high = (self._function(each) for each in self._tables(name))
        select = cell["connections"]["C0"][0]
        together = dict.fromkeys((select, *low.wires, *high.wires))
        return tabulate(
            tuple(together),
            lambda cases: mux(cases[select], low.evaluate(cases), high.evaluate(cases)),
        )

    def _is_read_once(self, wire: int, *types: str) -> bool:
        """Return whether a wire has one reader, and is driven by a cell of one of `types`.

        By default, the types are LUT4 and PFUMX.
        """
        name = self._drivers.get(wire)
        if name is None or len(self._users[wire]) != 1:
            return False
        return self._cells[name]["type"] in (types or ("LUT4", "PFUMX"))

    def _invert(self, name: str) -> None:
        """Invert the contents of the tables of a cell, and so its output."""
        del self._functions[name]
        for each in self._tables(name):
            parameters = self._cells[each]["parameters"]
            parameters["INIT"] = f"{int(parameters['INIT'], 2) ^ 0xFFFF:016b}"
            self._functions.pop(each, None)

    def _remove(self, name: str) -> None:
        """Remove a cell from the netlist and from the indexes of drivers and readers."""
        cell = self._cells.pop(name)
        self._functions.pop(name, None)
        self._drivers.pop(cell["connections"]["Z"][0])
        for port, wires in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for wire in wires:
                    self._users[wire].remove((name, port))

    def _add(self, name: str, cell: dict) -> None:
        """Add a cell, and index it by the wires that it drives and reads."""
        self._cells[name] = cell
        for port, wires in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                self._users[wires[0]].append((name, port))
            elif cell["type"] != "L6MUX21":
                self._drivers[wires[0]] = name


def _fuse(table: Table, fixed: dict[int, int], inner: dict[int, Table]) -> tuple[Table, list[int]]:
    """Return `table` with the wires in `fixed` constant, and the wires whose functions it absorbed.

    `inner` has functions by wire. One is absorbed if the result has at most four inputs.
    """
    inner = {wire: _fix_wires(each, fixed) for wire, each in inner.items()}
    constants = {wire: each.bits[0] for wire, each in inner.items() if not each.wires}
    side, taken = _fix_wires(table, fixed | constants), list(constants)
    border = [wire for wire in side.wires if wire in inner]
    while border:
        wire = border.pop(0)
        joined = _substitute(side, wire, _fix_wires(inner[wire], constants))
        if joined:
            side = joined
            taken.append(wire)
            border = [each for each in side.wires if each in inner]
    return side, taken


def _fix_wires(table: Table, fixed: dict[int, int]) -> Table:
    """Return a function in which each wire of `fixed` has the given value."""
    if fixed.keys().isdisjoint(table.wires):
        return table
    wires = tuple(wire for wire in table.wires if wire not in fixed)
    constants = {wire: -value for wire, value in fixed.items()}
    return tabulate(wires, lambda cases: table.evaluate({**cases, **constants}))


def _substitute(side: Table, wire: int, inner: Table) -> Table | None:
    """Return `side` with `inner` instead of `wire`; None if the result has too many inputs."""
    others = [each for each in side.wires if each != wire]
    wires = tuple(dict.fromkeys((*others, *inner.wires)))
    # Each function depends on all of its wires; without a common wire, so does their composition.
    if len(wires) == len(others) + len(inner.wires) > len(_INPUTS):
        return None
    joined = tabulate(wires, lambda cases: side.evaluate({**cases, wire: inner.evaluate(cases)}))
    return joined if len(joined.wires) <= len(_INPUTS) else None


def _multiplexer(kind: str, inputs: dict[str, int], output: int) -> dict:
    """Return a multiplexer cell in Yosys' JSON netlist format; `inputs` has wires by port."""
    return {
        "hide_name": 0,
        "type": kind,
        "parameters": {},
        "attributes": {},
        "port_directions": dict.fromkeys(inputs, "input") | {"Z": "output"},
        "connections": {port: [wire] for port, wire in inputs.items()} | {"Z": [output]},
    }
