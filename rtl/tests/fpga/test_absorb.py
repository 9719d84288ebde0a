"""Merging of cells: a cell that takes over another behaves like both, for all inputs."""

import itertools
import random

import pytest

from matloom_rtl.fpga.absorb import absorb

#: Functions of the tables that Yosys puts into carry cells: a sum, and a sum with the inverse.
SUM = 0b1001011010101010

#: Wires of inputs and of what is shown.
INPUTS, CARRY, OUT = range(2, 9), 10, 20


def cell(kind, parameters, inputs, outputs):
    directions = dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output")
    return {
        "type": kind,
        "parameters": parameters,
        "connections": {name: [wire] for name, wire in (inputs | outputs).items()},
        "port_directions": directions,
    }


def table(init, wires, out):
    return cell("LUT4", {"INIT": f"{init:016b}"}, dict(zip("ABCD", wires, strict=True)), {"Z": out})


def carry_cell(init, first, second=("0", "0", "0", "1")):
    inputs = {f"{name}0": wire for name, wire in zip("ABCD", first, strict=True)}
    inputs |= {f"{name}1": wire for name, wire in zip("ABCD", second, strict=True)}
    parameters = {"INIT0": f"{init:016b}", "INIT1": f"{SUM:016b}"}
    parameters |= {"INJECT1_0": "NO", "INJECT1_1": "NO"}
    outputs = {"S0": OUT, "S1": OUT + 1, "COUT": OUT + 2}
    return cell("CCU2C", parameters, {**inputs, "CIN": CARRY}, outputs)


def value_of(wire, values, cells):
    """Return the bit of a wire: given, constant, or computed by a table."""
    if not isinstance(wire, int):
        return int(wire == "1")
    if wire in values:
        return values[wire]
    (driver,) = (
        each
        for each in cells.values()
        if each["type"] == "LUT4" and each["connections"]["Z"] == [wire]
    )
    return look_up(driver, "INIT", ("A", "B", "C", "D"), values, cells)


def look_up(driver, parameter, names, values, cells):
    """Return the bit of a table for its inputs; unconnected inputs count as zero."""
    bits = [value_of(driver["connections"][name][0], values, cells) for name in names]
    place = sum(bit << at for at, bit in enumerate(bits))
    return int(driver["parameters"][parameter][-1 - place])


def shown(cells, values):
    """Return both sums and the carry of a carry cell, as in Yosys' model."""
    adder, carry, bits = cells["adder"], values[CARRY], []
    for half in "01":
        names = [name + half for name in "ABCD"]
        whole = look_up(adder, f"INIT{half}", names, values, cells)
        low = look_up(adder, f"INIT{half}", names[:2], values, cells)
        bits.append(whole ^ carry)
        carry = carry if whole else low
    return bits, carry


def outcomes(cells):
    wires = [*INPUTS, CARRY]
    return [
        shown(cells, dict(zip(wires, bits, strict=True)))
        for bits in itertools.product((0, 1), repeat=len(wires))
    ]


@pytest.mark.slow
def test_tables_before_carry_cells(seed):
    """Random tables; those that leave the carry its two inputs are absorbed."""
    chance, fitted = random.Random(seed), 0
    for _case in range(150):
        select, first, second, third, *_rest = chance.sample(INPUTS, 4)
        inner = chance.choice(
            (
                table(0xCACA, (first, second, select, "0"), 9),
                table(0x6666, (first, select, "0", "1"), 9),
                table(0x8888, (first, select, "x", "x"), 9),
                table(chance.randrange(1 << 16), (first, second, select, third), 9),
                table(chance.randrange(1 << 16), (first, second, select, "1"), 9),
            )
        )
        other = chance.choice((*INPUTS, "0", "1"))
        inputs = [other, 9] if chance.random() < 0.7 else [9, other]
        cells = {
            "adder": carry_cell(SUM, (*inputs, chance.choice("01"), "1")),
            "inner": inner,
        }
        before = outcomes(cells)
        absorb(cells, {})
        fitted += "inner" not in cells
        assert outcomes(cells) == before
    assert 50 < fitted < 140


def test_tables_that_something_else_reads_stay():
    for ports in ({}, {"port": {"bits": [9]}}):
        cells = {
            "adder": carry_cell(SUM, (2, 9, "0", "1")),
            "inner": table(0xCACA, (3, 4, 5, "0"), 9),
        }
        if not ports:
            cells["reader"] = table(0xAAAA, (9, "0", "0", "0"), 30)
        absorb(cells, ports)
        assert "inner" in cells
        assert cells["adder"]["parameters"]["INIT0"] == f"{SUM:016b}"


def register(source, out, **changes):
    parameters = {"CEMUX": "1 ", "CLKMUX": "CLK", "REGSET": "RESET"}
    clock, reset = changes.pop("clock", 2), changes.pop("reset", "0")
    inputs = {"CLK": clock, "DI": source, "LSR": reset}
    return cell("TRELLIS_FF", parameters | changes, inputs, {"Q": out})


def memory(width=18):
    parameters = dict.fromkeys(("DATA_WIDTH_A", "DATA_WIDTH_B"), f"{width:b}")
    parameters |= {"REGMODE_A": "NOREG", "REGMODE_B": "NOREG"}
    inputs = {"CLKA": 2, "CLKB": 2, "CEB": 3}
    return cell("DP16KD", parameters, inputs, {"DOA0": 40, "DOB0": 50, "DOB1": 51})


def test_registers_after_a_memory():
    """One port's outputs all have registers, which are absorbed; the other's have none."""
    cells = {"memory": memory(), "low": register(50, 60), "high": register(51, 61)}
    cells["reader"] = table(0xAAAA, (40, 60, 61, "0"), 70)
    absorb(cells, {})
    assert set(cells) == {"memory", "reader"}
    assert cells["memory"]["parameters"]["REGMODE_A"] == "NOREG"
    assert cells["memory"]["parameters"]["REGMODE_B"] == "OUTREG"
    assert [cells["memory"]["connections"][f"DOB{n}"] for n in range(2)] == [[60], [61]]


@pytest.mark.parametrize(
    "other",
    [
        register(51, 61, clock=7),
        register(51, 61, reset=7),
        register(51, 61, CEMUX="CE"),
        register(51, 61, REGSET="SET"),
        table(0xAAAA, (51, "0", "0", "0"), 61),
    ],
)
def test_registers_that_are_no_outputs(other):
    cells = {"memory": memory(), "low": register(50, 60), "high": other}
    absorb(cells, {})
    assert set(cells) == {"memory", "low", "high"}
    assert cells["memory"]["parameters"]["REGMODE_B"] == "NOREG"


def test_registers_of_wide_memories_and_those_shared_stay():
    for kind, ports in ((memory(36), {}), (memory(), {"port": {"bits": [50]}})):
        cells = {"memory": kind, "low": register(50, 60), "high": register(51, 61)}
        absorb(cells, ports)
        assert set(cells) == {"memory", "low", "high"}


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_registers_after_a_product(stages):
    """The first register moves to the outputs, the second inside, together with the clock."""
    cells = {"product": cell("MULT18X18D", {}, {"A0": 3}, {"P0": 40, "P1": 41})}
    for bit, stage in itertools.product(range(2), range(stages)):
        cells[f"bit_{bit}_{stage}"] = register(40 + bit + 2 * stage, 42 + bit + 2 * stage)
    absorb(cells, {})
    block, taken = cells["product"], min(stages, 2)
    assert len(cells) == 1 + 2 * (stages - taken)
    assert [block["connections"][f"P{bit}"] for bit in range(2)] == [
        [40 + 2 * taken],
        [41 + 2 * taken],
    ]
    assert block["connections"]["CLK0"] == [2]
    assert block["parameters"]["REG_OUTPUT_CLK"] == "CLK0"
    assert block["parameters"].get("REG_PIPELINE_CLK") == ("CLK0" if taken == 2 else None)


def test_registers_of_two_clocks_after_a_product_stay():
    cells = {
        "product": cell("MULT18X18D", {}, {"A0": 3}, {"P0": 40, "P1": 41}),
        "low": register(40, 60),
        "high": register(41, 61, clock=7),
    }
    absorb(cells, {})
    assert set(cells) == {"product", "low", "high"}
    assert "CLK0" not in cells["product"]["connections"]
