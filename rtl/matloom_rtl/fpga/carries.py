"""Simplifies the ends of ECP5 carry chains that would need extra cells.

nextpnr adds a carry cell (two tables) before each chain with a constant carry-in, and another after
each chain whose carry-out has a name, even if it is unused. An 8-bit chain has four cells, so this
makes it half as large again.
"""

from typing import Any

from matloom_rtl.fpga.functions import lookup_table, mux, read_table, tabulate, users_of

__all__ = ["simplify_chain_ends"]

#: Marks an unconnected port in a netlist.
_UNCONNECTED = ["x"]


def simplify_chain_ends(cells: dict, ports: dict) -> None:
    """Change the ends of carry chains, in place, so that nextpnr adds no cells where possible.

    Parameters
    ----------
    cells, ports
        As in `absorb`.
    """
    users = users_of(cells, ports)
    for name in [name for name, cell in cells.items() if cell["type"] == "CCU2C"]:
        connections = cells[name]["connections"]
        if not users[connections["COUT"][0]]:
            connections["COUT"] = _UNCONNECTED
        if connections["CIN"][0] in ("0", "1") and cells[name]["parameters"]["INJECT1_0"] == "NO":
            added = _remove_carry_in(cells[name], needs_sum=bool(users[connections["S0"][0]]))
            cells |= {f"{name}${key}": cell for key, cell in added.items()}


def _remove_carry_in(cell: dict, needs_sum: bool) -> dict[str, dict[str, Any]]:
    """Change the first cell of a carry chain so that it needs no carry-in, if possible.

    Returns new cells to add, by suffix of their name: a table for the sum if `needs_sum`.

    If the table of a half outputs zero, the carry out is given by the lowest four bits of the
    table, as a function of inputs A and B, whatever the carry in. So with C and D tied to one, and
    zeros in the rest of the table, the carry out can be any function of two wires. The sum, if
    needed, then comes from a table next to the chain. A carry out that depends on more than two
    wires leaves the cell unchanged.
    """
    connections = cell["connections"]
    wires = [connections[f"{each}0"][0] for each in "ABCD"]
    init, carry = int(cell["parameters"]["INIT0"], 2), int(connections["CIN"][0])
    added, low = read_table(wires, init), read_table([*wires[:2], "0", "0"], init)
    together = tuple(dict.fromkeys((*added.wires, *low.wires)))
    out = tabulate(together, lambda cases: mux(added.evaluate(cases), low.evaluate(cases), -carry))
    if len(out.wires) > len("AB"):
        return {}
    inputs = dict(zip(("A0", "B0", "C0", "D0"), (*out.wires, "0", "0"), strict=False))
    inputs |= {"C0": "1", "D0": "1"}
    made = connections["S0"]
    connections |= {port: [wire] for port, wire in inputs.items()}
    connections |= {"CIN": _UNCONNECTED, "S0": _UNCONNECTED}
    cell["parameters"]["INIT0"] = f"{out.init(4):016b}"
    total = tabulate(added.wires, lambda cases: added.evaluate(cases) ^ -carry)
    return {"first_sum": lookup_table(total, made)} if needs_sum else {}
