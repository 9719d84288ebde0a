"""Checks of many instructions at once equal those of each instruction alone."""

import itertools
import random

import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.arch.instruction import Instruction, IsaError, illegal_field, pack, unpack
from matloom.arch.isa import FORMATS, Opcode
from matloom.arch.numerics import Rounding
from matloom.program.instruction_table import InstructionTable, unpack_all
from support.rules_between_fields import posts_of_excluding_fields


def _drawn(draw, opcode):
    """Return an instruction with some random fields, often at the ends of their bits."""
    values = {}
    for item in FORMATS[opcode].all_fields[1:]:
        low, high = item.range
        if draw.random() < 0.7:
            values[item.name] = draw.choice((low, high, 0, draw.randint(low, high)))
    return Instruction(opcode, values)


@pytest.fixture
def drawn(seed):
    draw = random.Random(seed)
    opcodes = [opcode for opcode in Opcode if opcode is not Opcode.END]
    return [_drawn(draw, draw.choice(opcodes)) for _ in range(300)]


def test_packing_many_equals_packing_each(drawn):
    assert InstructionTable(drawn).pack() == b"".join(pack(each) for each in drawn)
    assert InstructionTable([]).pack() == b""


def test_unpacking_many_equals_unpacking_each(drawn):
    data = b"".join(pack(each) for each in (*drawn, Instruction(Opcode.END)))
    offset, expected = 0, []
    while offset < len(data):
        instruction, offset = unpack(data, offset)
        expected.append(instruction)
    found = list(unpack_all(data + b"\xff" * 16))
    assert [(each.opcode, each.values) for each in found] == [
        (each.opcode, each.values) for each in expected
    ]
    assert all(type(value) is int for each in found for value in each.values.values())


def test_a_reserved_bit_stops_after_what_is_before_it(drawn):
    position = next(at for at, each in enumerate(drawn) if at > 3 and each.opcode is Opcode.LOAD)
    parts = [bytearray(pack(each)) for each in drawn]
    assert FORMATS[Opcode.LOAD].used_bits < FORMATS[Opcode.LOAD].bits
    parts[position][-1] |= 0x80
    found = unpack_all(b"".join(parts))
    for each in drawn[:position]:
        assert pack(next(found)) == pack(each)
    with pytest.raises(IsaError, match="reserved bits of LOAD"):
        next(found)


def test_a_value_that_its_bits_do_not_hold_is_refused(drawn):
    large = Instruction(Opcode.LOAD, {"rows": 1 << 40})
    with pytest.raises(IsaError, match=r"LOAD\.rows must be"):
        InstructionTable([*drawn, large]).pack()
    with pytest.raises(IsaError, match="no field 'colour'"):
        InstructionTable([*drawn, Instruction(Opcode.LOAD, {"colour": 1})]).pack()


@pytest.mark.parametrize("preset", ["nano", "reference"])
def test_unsuspected_instructions_are_legal(drawn, preset):
    config = PRESETS[preset]
    draw = random.Random(str(drawn[0]))
    few = []
    for _ in range(600):
        opcode = draw.choice(list(Opcode))
        legal = {}
        for item in FORMATS[opcode].all_fields[1:]:
            choices, (low, high) = item.allowed_values(config), item.limits(config)
            unit = item.unit(config)
            value = draw.choice(choices) if choices else draw.randint(low, high) // unit * unit
            legal[item.name] = value * (draw.random() < 0.3)
        if draw.random() < 0.3 and legal:
            name = draw.choice(list(legal))
            legal[name] = draw.randint(*next(
                item.range for item in FORMATS[opcode].all_fields if item.name == name
            ))  # fmt: skip
        few.append(Instruction(opcode, legal))
    problems = [illegal_field(each, config) for each in few]
    table = InstructionTable(few)
    wrong = {number for number, problem in enumerate(problems) if problem is not None}
    assert wrong, "some must be illegal"
    assert len(wrong) < len(few), "some must be legal"
    assert wrong <= set(table.doubtful_indices(config))
    assert table.first_violation(config) == problems[min(wrong)]


@pytest.mark.parametrize("name", ["nano", "reference+i8xi4+i4xi4+i16xi8+tables=1"])
def test_each_rule_of_a_field_makes_suspects(name):
    """Vary one field at a time around its limits, choices and multiples."""
    config, made = load_config(name), []
    for opcode in Opcode:
        fields = FORMATS[opcode].all_fields[1:]
        legal = {item.name: max(0, item.limits(config)[0]) for item in fields}
        assert illegal_field(Instruction(opcode, legal), config) is None
        for item, mode in itertools.product(fields, range(2 if "mode" in legal else 1)):
            edges = {*item.range, *item.limits(config), *(item.allowed_values(config) or ())}
            near = {edge + more for edge in edges for more in (-2, -1, 0, 1, 2)}
            low, high = item.range
            for value in sorted(each for each in near if low <= each <= high):
                values = {**legal, "mode": mode} if mode else legal
                made.append(Instruction(opcode, {**values, item.name: value}))
    problems = [illegal_field(each, config) for each in made]
    wrong = {number for number, problem in enumerate(problems) if problem is not None}
    assert 100 < len(wrong) < len(made)
    # What must hold of several fields together is looked at wherever it may matter.
    together = {
        number
        for number, each in enumerate(made)
        if each.opcode is Opcode.POST
        and (
            each.values.get("words")
            or each.values.get("pool")
            or each.values.get("rounding") == Rounding.FLOAT
        )
    }
    found = set(InstructionTable(made).doubtful_indices(config))
    assert wrong <= found <= wrong | together


def test_rules_between_fields_make_suspects():
    """Vary three fields of a POST at a time, of those that exclude each other."""
    config = load_config("nano+i16xi8+tables=1+products=4+curves=1+softmax=1+pooling=1")
    made = posts_of_excluding_fields(config)
    problems = [illegal_field(each, config) for each in made]
    wrong = {number for number, problem in enumerate(problems) if problem is not None}
    table = InstructionTable(made)
    assert 100 < len(wrong) < len(made)
    assert wrong <= set(table.doubtful_indices(config))
    for number in wrong:
        assert InstructionTable([made[number]]).first_violation(config) == problems[number]


def test_a_table_of_packed_instructions(drawn):
    data = b"".join(pack(each) for each in (*drawn, Instruction(Opcode.END)))
    table = InstructionTable.unpack(data + b"\xff" * 16)
    assert [(each.opcode, each.values) for each in table] == [
        (each.opcode, each.values) for each in unpack_all(data)
    ]
    assert table.pack() == data
    reserved = bytearray(data)
    reserved[len(data) - 1] |= 0x80
    for wrong in (data[:-16], b"\xff" * 16, bytes(reserved)):
        with pytest.raises(IsaError):
            InstructionTable.unpack(wrong)
