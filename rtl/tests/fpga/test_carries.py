"""Ends of carry chains behave as before, whatever an unconnected input is."""

import itertools
import random

from matloom_rtl.fpga.carries import simplify_chain_ends

from .test_absorb import CARRY, INPUTS, OUT, SUM, carry_cell, shown, value_of

#: What a module shows of a carry cell: both sums and the carry.
SHOWN = {"out": {"bits": [OUT, OUT + 1, OUT + 2]}}

#: Tables of Yosys' adders, subtractors and comparators, and what absorbing makes of them.
TABLES = (SUM, SUM ^ 0xFFFF, 0b1001011010101010, 0b0110011001101010, 0xCA0C, 0x8000, 0x0006)


def beginning(init, inputs, carry):
    """Return the cells of a chain of one cell with a constant carry-in."""
    cell = carry_cell(init, inputs)
    cell["connections"]["CIN"] = [carry]
    return {"adder": cell}


def outcomes(cells, carry):
    """Return sums and carry for all inputs, with a given carry input."""
    found = []
    for bits in itertools.product((0, 1), repeat=len(INPUTS)):
        values = dict(zip(INPUTS, bits, strict=True)) | {CARRY: carry}
        (low, high), out = shown(cells, values)
        if "adder$first_sum" in cells:
            low = value_of(OUT, values, cells)
        found.append((low, high, out))
    return found


def test_chains_begin_in_their_first_cell(seed):
    """Random tables: a carry that depends on two wires needs no carry input."""
    chance, freed = random.Random(seed), 0
    for _case in range(200):
        init = chance.choice((*TABLES, chance.randrange(1 << 16)))
        inputs = [chance.choice((*INPUTS, "0", "1")) for _ in range(2)]
        inputs += chance.choices([chance.choice(INPUTS), "0", "1"], k=2)
        carry = chance.choice("01")
        cells = beginning(init, inputs, carry)
        before = outcomes(cells, int(carry))
        simplify_chain_ends(cells, SHOWN)
        if cells["adder"]["connections"]["CIN"] == ["x"]:
            freed += 1
            assert outcomes(cells, 0) == outcomes(cells, 1) == before
        else:
            assert list(cells) == ["adder"]
            assert outcomes(cells, int(carry)) == before
    assert 100 < freed < 200


def test_unread_sums_take_no_table():
    cells = beginning(SUM, (2, 3, "0", "1"), "1")
    simplify_chain_ends(cells, {"out": {"bits": [OUT + 1]}})
    assert list(cells) == ["adder"]
    assert [cells["adder"]["connections"][name] for name in ("CIN", "COUT")] == [["x"], ["x"]]


def test_ends_that_something_uses_stay():
    """A chain stays if its carry comes from a wire, or if its first half has no carry input."""
    cells = beginning(SUM, (2, 3, "0", "1"), CARRY)
    simplify_chain_ends(cells, SHOWN)
    assert cells == beginning(SUM, (2, 3, "0", "1"), CARRY)
    cells = beginning(SUM, (2, 3, "0", "1"), "0")
    cells["adder"]["parameters"]["INJECT1_0"] = "YES"
    simplify_chain_ends(cells, SHOWN)
    assert cells["adder"]["connections"]["CIN"] == ["0"]
