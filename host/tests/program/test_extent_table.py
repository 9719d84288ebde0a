"""Extents computed for many instructions at once equal those of each instruction alone."""

import random

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction, extent_end, pack
from matloom.arch.isa import FORMATS, AddressSpace, Opcode, Region
from matloom.program.extent_table import beyond_memory, extent_columns
from matloom.program.instruction_table import InstructionTable

SIZES = {Region.INPUT: 3000, Region.OUTPUT: 500}


def drawn(draw):
    """Return an instruction, legal or not: fields small, or at the ends of their bits."""
    opcode = draw.choice(list(Opcode)[1:])
    values = {}
    for item in FORMATS[opcode].all_fields[1:]:
        low, high = item.range
        small = draw.randint(low, min(high, 6))
        values[item.name] = draw.choice((0, small, small, small, low, high))
    return Instruction(opcode, values)


@pytest.fixture
def instructions(seed):
    draw = random.Random(seed)
    return [drawn(draw) for _ in range(600)]


@pytest.fixture
def table(instructions):
    ended = (*instructions, Instruction(Opcode.END))
    return InstructionTable.unpack(b"".join(map(pack, ended)))


@pytest.mark.parametrize("preset", ["nano", "reference"])
def test_table_extents_equal_single_ones(instructions, table, preset):
    config = PRESETS[preset]
    expected = {
        (number, extent, getattr(each, extent.base), extent_end(extent, each, config))
        for number, each in enumerate(instructions)
        for extent in FORMATS[each.opcode].extents
        if extent_end(extent, each, config) is not None
    }
    found = {
        (int(number), column.extent, int(start), int(end))
        for column in extent_columns(table, config)
        for number, start, end in zip(column.numbers, column.starts, column.ends, strict=True)
    }
    exact = {each for each in expected if each[3] < 2**53}
    assert exact <= found
    assert len(expected) == len(found)
    assert len(exact) > 500


@pytest.mark.parametrize("preset", ["nano", "reference"])
def test_accesses_beyond_a_memory_are_found(instructions, table, preset):
    config = PRESETS[preset]
    limits = {AddressSpace.SPAD: config.spad_bytes, AddressSpace.ACC: config.acc_entries}
    expected = []
    for number, each in enumerate(instructions):
        for extent in FORMATS[each.opcode].extents:
            end = extent_end(extent, each, config)
            limit = limits.get(extent.memory)
            if limit is None:
                limit = SIZES.get(each.region, 0)
            if end is not None and end > limit:
                expected.append(number)
    assert beyond_memory(table, config, SIZES).tolist() == sorted(set(expected))
    assert 20 < len(set(expected)) < len(instructions)
