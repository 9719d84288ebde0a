"""Moves logic and registers into ECP5 cells that have room for them, which Yosys does not do.

Each step replaces a few cells by equivalent ones: the carry cells of an adder have two free table
inputs, and blocks have output registers.
"""

from itertools import permutations

from matloom_rtl.fpga.carries import simplify_chain_ends
from matloom_rtl.fpga.functions import Table, read_table, users_of

__all__ = ["absorb"]

_INPUTS = "ABCD"

#: Output registers of each type of block. For each port: the prefix of its outputs, its clock, and
#: for each register, in the order of use, a parameter with its values without and with it.
_OUTPUTS = {
    "DP16KD": (
        ("DOA", "CLKA", (("REGMODE_A", "NOREG", "OUTREG"),)),
        ("DOB", "CLKB", (("REGMODE_B", "NOREG", "OUTREG"),)),
    ),
    "MULT18X18D": (
        (
            "P",
            "CLK0",
            (("REG_OUTPUT_CLK", "NONE", "CLK0"), ("REG_PIPELINE_CLK", "NONE", "CLK0")),
        ),
    ),
}

#: Width of words that use the outputs of both ports, so that their registers are not merged.
_WIDE_WORD_BITS = 36


def absorb(cells: dict, ports: dict) -> None:
    """Merge cells of a flat ECP5 netlist, in place, into others that have room for them.

    Parameters
    ----------
    cells
        Cells by name, in the form of Yosys' `write_json`.
    ports
        Ports of the module, whose wires are kept.
    """
    simplify_chain_ends(cells, ports)
    _absorb_tables(cells, ports)
    _absorb_registers(cells, ports)


def _absorb_tables(cells: dict, ports: dict) -> None:
    """Merge tables into the carry cells that they feed."""
    users = users_of(cells, ports)
    tables = {
        cell["connections"]["Z"][0]: name
        for name, cell in cells.items()
        if cell["type"] == "LUT4" and len(users[cell["connections"]["Z"][0]]) == 1
    }
    for cell in [each for each in cells.values() if each["type"] == "CCU2C"]:
        for half in "01":
            while name := _absorb_table(cell, half, cells, tables):
                del cells[name]


def _absorb_table(cell: dict, half: str, cells: dict, tables: dict) -> str | None:
    """Merge a table into half of a carry cell; return the table's name, or None if none fits.

    `half` is "0" or "1". The half adds the carry in to the output of its own table. If that output
    is zero, the carry out is given by the lowest four bits of the table, as a function of inputs A
    and B.
    """
    if cell["parameters"][f"INJECT1_{half}"] != "NO":
        return None
    wires = [cell["connections"][name + half][0] for name in _INPUTS]
    init = int(cell["parameters"][f"INIT{half}"], 2)
    added, carry = read_table(wires, init), read_table([*wires[:2], "0", "0"], init)
    for wire in added.wires:
        name = tables.get(wire)
        if name is None:
            continue
        before = cells[name]
        inputs = [before["connections"][each][0] for each in _INPUTS]
        joined = _join(added, carry, wire, read_table(inputs, int(before["parameters"]["INIT"], 2)))
        if joined is not None:
            order, bits = joined
            cell["parameters"][f"INIT{half}"] = f"{bits:016b}"
            cell["connections"] |= {
                each + half: [new] for each, new in zip(_INPUTS, order, strict=True)
            }
            return name
    return None


def _join(added: Table, carry: Table, wire: int, inner: Table) -> tuple[tuple, int] | None:
    """Return inputs and contents of half a carry cell in which `inner` replaces `wire`.

    Returns None if there would be more than four inputs, or if no order of them preserves `carry`.
    """
    outer = (each for each in (*added.wires, *carry.wires) if each != wire)
    wires = list(dict.fromkeys((*outer, *inner.wires)))
    places = len(_INPUTS)
    if len(wires) > places:
        return None
    cases = []
    for number in range(1 << len(wires)):
        values: dict[int | str, int] = {each: number >> at & 1 for at, each in enumerate(wires)}
        values[wire] = inner(values)
        cases.append((values, added(values), carry(values)))
    together: list[int | str] = [*wires, *["0"] * (places - len(wires))]
    for order in permutations(together):
        table: dict[int, int] = {}
        for values, bit, _carried in cases:
            table[sum(values.get(each, 0) << at for at, each in enumerate(order))] = bit
        low = [
            (sum(values.get(each, 0) << at for at, each in enumerate(order[:2])), carried)
            for values, bit, carried in cases
            if not bit
        ]
        if all(table[place] == carried for place, carried in low):
            return order, sum(bit << place for place, bit in table.items())
    return None


def _absorb_registers(cells: dict, ports: dict) -> None:
    """Merge the registers that blocks drive into the blocks."""
    users = users_of(cells, ports)
    for cell in [each for each in cells.values() if each["type"] in _OUTPUTS]:
        if int(cell["parameters"].get("DATA_WIDTH_A", "0"), 2) == _WIDE_WORD_BITS:
            continue
        for prefix, clock, stages in _OUTPUTS[cell["type"]]:
            for name, free, taken in stages:
                if cell["parameters"].get(name, free) == free:
                    _absorb_stage(cell, (prefix, clock), (name, taken), cells, users)


def _absorb_stage(cell: dict, port: tuple, parameter: tuple, cells: dict, users: dict) -> None:
    """Merge the registers at a block's outputs, if each output in use feeds one plain register."""
    prefix, clock = port
    connections = cell["connections"]
    outputs = [
        name
        for name, wires in connections.items()
        if name.startswith(prefix) and name[len(prefix) :].isdigit() and users[wires[0]]
    ]
    followers = [users[connections[name][0]] for name in outputs]
    if not outputs or not all(len(each) == 1 and each[0] for each in followers):
        return
    registers = [cells[each[0][0]] for each in followers]
    wanted = connections.get(clock) or registers[0]["connections"].get("CLK")
    if not all(_is_plain_register(each, wanted) for each in registers):
        return
    if clock not in connections:
        _connect_clock(cell, wanted)
    cell["parameters"][parameter[0]] = parameter[1]
    for name, ((register, _input),) in zip(outputs, followers, strict=True):
        connections[name] = cells.pop(register)["connections"]["Q"]


def _connect_clock(cell: dict, clock: list) -> None:
    """Connect a clock to a multiplier that had none, for the registers merged into it."""
    cell["connections"] |= {"CLK0": clock, "CE0": ["1"], "RST0": ["0"]}
    cell["port_directions"] |= dict.fromkeys(("CLK0", "CE0", "RST0"), "input")
    cell["parameters"] |= {"REG_OUTPUT_CE": "CE0", "REG_OUTPUT_RST": "RST0"}
    cell["parameters"] |= {"GSR": "DISABLED", "RESETMODE": "SYNC"}


def _is_plain_register(cell: dict, clock: list | None) -> bool:
    """Return whether a cell is a flip-flop on this clock without enable or reset, initially zero.

    `clock` is the list of the clock's one wire, or None, which no flip-flop has.
    """
    return (
        cell["type"] == "TRELLIS_FF"
        and cell["parameters"]["CEMUX"].strip() == "1"
        and cell["parameters"]["CLKMUX"] == "CLK"
        and cell["parameters"]["REGSET"] == "RESET"
        and cell["connections"]["LSR"] == ["0"]
        and cell["connections"]["CLK"] == clock
    )
