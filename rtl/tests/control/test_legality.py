"""Legality: the chip's verdict on fields is that of `illegal_field`, between fields, too."""

import random

import pytest

from matloom.arch.config import load_config
from matloom.arch.instruction import Instruction, illegal_field, pack
from matloom.arch.isa import FORMATS, Opcode
from matloom_rtl.control.legality import Legality
from matloom_rtl.testing import simulate
from support.rules_between_fields import posts_of_excluding_fields

#: With every rule between fields; floating point and SOFTMAX apart, as configurations have them.
ROWS = load_config("nano+i16xi8+tables=1+products=4+curves=1+softmax=1+pooling=1")
FLOATS = load_config("nano+i16xi8+fp16+float_rows=2+weight_rows=2+tables=1+products=3")


def drawn(config, seed):
    """Return instructions with fields that are mostly legal."""
    draw, made = random.Random(seed), []
    for _ in range(300):
        opcode = draw.choice(list(Opcode))
        values = {}
        for item in FORMATS[opcode].all_fields[1:]:
            choices, (low, high) = item.allowed_values(config), item.limits(config)
            value = draw.choice(choices) if choices else draw.randint(low, high)
            values[item.name] = max(low, value * (draw.random() < 0.3) // item.unit(config))
            values[item.name] *= item.unit(config)
        if draw.random() < 0.3 and values:
            item = draw.choice(FORMATS[opcode].all_fields[1:])
            values[item.name] = draw.choice(item.range)
        made.append(Instruction(opcode, values))
    return made


def refused(config, instructions):
    """Return the chip's verdict on each instruction, shown for three cycles."""
    dut, found = Legality(config), []

    async def main(ctx):
        for instruction in instructions:
            ctx.set(dut.word, int.from_bytes(pack(instruction), "little"))
            ctx.set(dut.opcode, int(instruction.opcode))
            await ctx.tick().repeat(2)
            found.append(bool(ctx.get(dut.illegal_field)))

    simulate(dut, main, cycles=2 * len(instructions) + 5)
    return found


@pytest.mark.parametrize("config", [ROWS, FLOATS], ids=["rows", "floats"])
def test_rules_between_fields_are_those_of_the_instruction_set(config):
    instructions = posts_of_excluding_fields(config)
    problems = [illegal_field(each, config) for each in instructions]
    assert any(problems)
    assert not all(problems)
    assert refused(config, instructions) == [problem is not None for problem in problems]


@pytest.mark.parametrize("config", [ROWS, FLOATS], ids=["rows", "floats"])
def test_fields_at_random(config, seed):
    instructions = drawn(config, seed)
    problems = [illegal_field(each, config) for each in instructions]
    assert any(problems)
    assert not all(problems)
    assert refused(config, instructions) == [problem is not None for problem in problems]
