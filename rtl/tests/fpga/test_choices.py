"""Merging tables into multiplexers preserves their function."""

import itertools
import random

import pytest

from matloom_rtl.fpga.choices import join_choices

#: Functions of tables: a choice by input C, and what ABC9 makes of a choice between four wires.
CHOICE, SHOWN = 0xCACA, 90

INPUTS = range(2, 9)


def cell(kind, inputs, out, **parameters):
    directions = dict.fromkeys(inputs, "input") | {"Z": "output"}
    connections = {name: [wire] for name, wire in inputs.items()} | {"Z": [out]}
    return {
        "type": kind,
        "parameters": parameters,
        "connections": connections,
        "port_directions": directions,
    }


def table(init, wires, out):
    padded = (*wires, *"0000")[:4]
    return cell("LUT4", dict(zip("ABCD", padded, strict=True)), out, INIT=f"{init:016b}")


def choice(low, high, select, out):
    return cell("PFUMX", {"BLUT": low, "ALUT": high, "C0": select}, out)


def value_of(wire, values, cells):
    """Return the bit of a wire by Yosys' model of its single driver."""
    if not isinstance(wire, int):
        return int(wire == "1")
    if wire in values:
        return values[wire]
    (driver,) = (each for each in cells.values() if each["connections"]["Z"] == [wire])
    bits = {
        name: value_of(wires[0], values, cells)
        for name, wires in driver["connections"].items()
        if name != "Z"
    }
    if driver["type"] == "LUT4":
        place = sum(bits[name] << at for at, name in enumerate("ABCD"))
        return int(driver["parameters"]["INIT"][-1 - place])
    low, high, select = {"PFUMX": ("BLUT", "ALUT", "C0"), "L6MUX21": ("D0", "D1", "SD")}[
        driver["type"]
    ]
    return bits[high] if bits[select] else bits[low]


def outcomes(cells, outputs=(SHOWN,)):
    return [
        [value_of(wire, dict(zip(INPUTS, bits, strict=True)), cells) for wire in outputs]
        for bits in itertools.product((0, 1), repeat=len(INPUTS))
    ]


def kinds(cells):
    return sorted(each["type"] for each in cells.values())


def joined(cells, outputs=(SHOWN,)):
    """Return the cells after merging, checked for equal outputs; each PFUMX has its own tables."""
    before = outcomes(cells, outputs)
    join_choices(cells, {"shown": {"bits": list(outputs)}})
    assert outcomes(cells, outputs) == before
    readers = [
        wire for each in cells.values() for wires in each["connections"].values() for wire in wires
    ]
    for each in cells.values():
        if each["type"] == "PFUMX":
            for side in ("ALUT", "BLUT"):
                (wire,) = each["connections"][side]
                (driver,) = (one for one in cells.values() if one["connections"]["Z"] == [wire])
                assert driver["type"] == "LUT4"
                assert readers.count(wire) == 2
    return cells


def choice_of_four():
    return {
        "low": table(CHOICE, (2, 3, 6), 20),
        "high": table(CHOICE, (4, 5, 6), 21),
        "root": table(CHOICE, (20, 21, 7), SHOWN),
    }


def test_a_choice_between_four_wires_takes_two_tables():
    assert kinds(joined(choice_of_four())) == ["LUT4", "LUT4", "PFUMX"]


def test_a_choice_that_is_made_of_another_takes_two_tables():
    """As ABC9 writes it: a table of five inputs selects by three wires, another by the fourth."""
    cells = {
        "first": table(CHOICE, (3, 4, 6), 20),
        "second": table(0xAAAA, (5,), 21),
        "inner": choice(20, 21, 7, 22),
        # Wire 2 where neither of 6 and 7 is set.
        "root": table(0xFE02, (2, 6, 7, 22), SHOWN),
    }
    before = outcomes(cells)
    assert len({tuple(each) for each in before}) == 2
    assert kinds(joined(cells)) == ["LUT4", "LUT4", "PFUMX"]


@pytest.mark.parametrize("inverted", [False, True])
def test_a_choice_between_choices_takes_no_table(inverted):
    cells = {
        f"{kind}_{which}": {**each}
        for which in range(2)
        for kind, each in {
            "low": table(CHOICE, (2, 3, 6), 20 + 10 * which),
            "high": table(CHOICE, (4, 5 + 3 * which, 6), 21 + 10 * which),
            "both": choice(20 + 10 * which, 21 + 10 * which, 7, 22 + 10 * which),
        }.items()
    }
    # Of the second the inverse, where asked.
    cells["root"] = table(0x3A3A if inverted else CHOICE, (22, 32, 5), SHOWN)
    assert kinds(joined(cells)) == [*["L6MUX21"], *["LUT4"] * 4, *["PFUMX"] * 2]


def test_wires_with_other_readers_stay():
    """A table's output, or the wire between two tables, is also a port and is kept."""
    assert kinds(joined(choice_of_four(), (SHOWN, 20))) == ["LUT4"] * 3
    assert kinds(joined(choice_of_four(), (SHOWN, 20, 21))) == ["LUT4"] * 3


@pytest.mark.slow
def test_tables_of_random_functions(seed):
    """Trees and shared tables, with and without multiplexers: the function is the same."""
    chance, saved = random.Random(seed), 0
    for _case in range(60):
        wires, cells = list(INPUTS), {}
        for number in range(chance.randrange(3, 9)):
            out = 20 + number
            inputs = chance.sample(wires[-7:], chance.randrange(2, 5))
            init = chance.choice((chance.randrange(1 << 16), CHOICE, 0x8888, 0xF888))
            cells[f"table_{number}"] = table(init, inputs, out)
            wires.append(out)
            if chance.random() < 0.3:
                for side in range(2):
                    init = chance.choice((chance.randrange(1 << 16), CHOICE))
                    inputs = chance.sample(wires[-7:], 3)
                    cells[f"side_{number}_{side}"] = table(init, inputs, 40 + 2 * number + side)
                inputs = (40 + 2 * number, 41 + 2 * number, chance.choice(wires))
                cells[f"choice_{number}"] = choice(*inputs, 60 + number)
                wires.append(60 + number)
        outputs = tuple(dict.fromkeys((wires[-1], chance.choice(wires[-3:]))))
        before = kinds(cells).count("LUT4")
        after = kinds(joined(cells, outputs)).count("LUT4")
        assert after <= before
        saved += before - after
    assert saved > 30
