"""Bounds, compared with `isa.extent_end`: random extents, limits, large products, cycles."""

import dataclasses
import random

import pytest
from amaranth.hdl import Array, Module

from matloom.arch.config import PRESETS
from matloom.arch.csr import Fault
from matloom.arch.instruction import Instruction, extent_end, pack
from matloom.arch.isa import FORMATS, AddressSpace, Opcode, Region
from matloom_rtl.control.bounds import Bounds
from matloom_rtl.testing import simulate

CONFIG = dataclasses.replace(PRESETS["reference"], mac_modes=("i8xi8", "i8xi4", "i4xi4"))
REGION_BYTES = [1 << 20, 100_000, 0xFFFF_FFFF, 1 << 31]
OPCODES = [opcode for opcode in FORMATS if FORMATS[opcode].extents]
CAUSES = {
    AddressSpace.SPAD: Fault.SPAD_RANGE,
    AddressSpace.ACC: Fault.ACC_RANGE,
    AddressSpace.DRAM: Fault.DRAM_RANGE,
}


def capacity(extent, instruction):
    return {
        AddressSpace.SPAD: CONFIG.spad_bytes,
        AddressSpace.ACC: CONFIG.acc_entries,
        AddressSpace.DRAM: REGION_BYTES[instruction.region]
        if extent.memory == AddressSpace.DRAM
        else 0,
    }[extent.memory]


def verdict(instruction, config=CONFIG):
    for extent in FORMATS[instruction.opcode].extents:
        if not config.checks and extent.memory is not AddressSpace.DRAM:
            continue
        end = extent_end(extent, instruction, CONFIG)
        if end is not None and end > capacity(extent, instruction):
            return int(CAUSES[extent.memory]), end % 2**32
    return 0, None


def random_field(item, chance):
    """Return a legal value; small, round and huge ones are frequent."""
    low, high = item.limits(CONFIG)
    if item.allowed_values(CONFIG) is not None:
        return int(chance.choice(item.allowed_values(CONFIG)))
    values = (low, high, chance.randint(low, high), min(high, max(low, 1 << chance.randrange(32))))
    return chance.choice(
        (*values, *(max(low, min(high, chance.randrange(1, 9))) for _ in "123456"))
    )


def random_instruction(chance):
    opcode = chance.choice(OPCODES)
    values = {item.name: random_field(item, chance) for item in FORMATS[opcode].all_fields}
    del values["opcode"]
    instruction = Instruction(opcode, values)
    extent = chance.choice(FORMATS[opcode].extents)
    end = extent_end(extent, instruction, CONFIG)
    if end is not None and chance.random() < 0.7:
        # Move the extent's end to the edge, where that is possible.
        base = values[extent.base] + capacity(extent, instruction) - end + chance.choice((0, 0, 1))
        item = next(item for item in FORMATS[opcode].fields if item.name == extent.base)
        low, high = item.limits(CONFIG)
        if low <= base <= high:
            values[extent.base] = base
    return Instruction(opcode, values)


def check(instructions, config=CONFIG, cycles=100):
    """Check that Bounds agrees with the definition; return the cycles of each check."""
    dut, took = Bounds(config), []

    async def bench(ctx):
        for instruction in instructions:
            ctx.set(dut.word, int.from_bytes(pack(instruction), "little"))
            ctx.set(dut.opcode, instruction.opcode)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            took.append(1)
            while not ctx.get(dut.done):
                await ctx.tick()
                took[-1] += 1
            cause, end = verdict(instruction, config)
            assert ctx.get(dut.fault) == cause, instruction
            if cause:
                assert ctx.get(dut.address) == end, instruction

    m = Module()
    m.submodules.dut = dut
    m.d.comb += dut.region_bytes.eq(Array(REGION_BYTES)[dut.region])
    simulate(m, bench, cycles=cycles * len(instructions))
    return took


def test_without_checks_only_external_memory_is_checked():
    config, chance = dataclasses.replace(CONFIG, checks=0), random.Random(2)
    instructions = [random_instruction(chance) for _ in range(1000)]
    full = [verdict(instruction)[0] for instruction in instructions]
    causes = [verdict(instruction, config)[0] for instruction in instructions]
    assert set(causes) == {0, Fault.DRAM_RANGE}
    assert causes.count(Fault.DRAM_RANGE) > 50
    # Some leave both memories: on chip first, which nobody sees here.
    assert causes.count(Fault.DRAM_RANGE) > full.count(Fault.DRAM_RANGE)
    took = check(instructions, config)
    touches = [each.opcode in (Opcode.LOAD, Opcode.STORE) for each in instructions]
    for instruction, cycles, transfer in zip(instructions, took, touches, strict=True):
        assert cycles == (7 + 7 if transfer and not instruction.values["fill"] else 3)


@pytest.mark.parametrize("count", [400, pytest.param(1200, marks=pytest.mark.slow)])
def test_random_extents(count):
    chance = random.Random(1)
    instructions = [random_instruction(chance) for _ in range(count)]
    causes = [verdict(instruction)[0] for instruction in instructions]
    assert all(causes.count(cause) > count // 60 for cause in (0, *map(int, CAUSES.values())))
    check(instructions)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("region", Region)
def test_last_byte_of_each_region(region, beyond):
    rest = {"region": region, "row_bytes": 1, "rows": 1, "planes": 1}
    offset = REGION_BYTES[region] - 1 + beyond
    check([Instruction(opcode, {"dram_offset": offset, **rest}) for opcode in (1, 4) if opcode])


def huge(**values):
    plain = dict.fromkeys(
        ("input_rows", "input_row_bytes", "width", "height", "kernel_rows", "kernel_cols"), 1
    )
    return Instruction(Opcode.EXEC, {"blocks": 1, "oc_blocks": 1} | plain | values)


def test_products_that_wrap():
    """Ends beyond memory are refused, even if they are legal modulo a power of two up to 2**48."""
    steps = ("oc_blocks", "kernel_rows", "kernel_cols", "blocks")
    shapes = [
        {"oc_blocks": 2048, "kernel_rows": 128, "kernel_cols": 128, "blocks": 2048},
        {"oc_blocks": 1024, "kernel_rows": 128, "kernel_cols": 128, "blocks": 1},
        {"oc_blocks": 4095, "kernel_rows": 255, "kernel_cols": 255, "blocks": 4095},
    ]
    exact = [huge(weights_fixed=0, **shape) for shape in shapes]
    ends = [extent_end(FORMATS[Opcode.EXEC].extents[1], each, CONFIG) for each in exact]
    assert [end % 2**32 for end in ends[:2]] == [0, 0]
    assert all(getattr(exact[0], name) for name in steps)
    transfers = [
        Instruction(
            Opcode.LOAD,
            {
                "region": 2,
                "dram_offset": 2**32 - 1,
                "row_bytes": 1,
                "rows": rows,
                "planes": planes,
                "dram_row_step": step,
                "dram_plane_step": step,
            },
        )
        for rows, planes, step in ((2, 1, 1), (1, 2, 2**23), (4095, 4095, 2**24 - 1), (1, 1, 0))
    ]
    check([*exact, *transfers])


def test_a_large_product_times_zero_is_zero():
    fields = {"width": 1, "height": 1, "tail": 1, "source": 0, "destination": 0}
    one = Instruction(Opcode.POST, {**fields, "oc_blocks": 64, "channel_bias": 0})
    assert verdict(one) == (0, None)
    check([one])


def test_cycles():
    """One cycle for the first factor of a term, two for each other factor, and six more.

    Bases are free, unless an extent has no other factor to wait for.
    """
    row = {"row_bytes": 1, "rows": 1, "planes": 1}
    plain = {"width": 1, "height": 1, "tail": 1, "oc_blocks": 1}
    assert check(
        [
            Instruction(Opcode.LOAD, {"fill": 1, **row}),
            Instruction(Opcode.LOAD, row),
            Instruction(Opcode.LOAD, {"fill": 1, "spread": 2, **row}),
            Instruction(Opcode.STORE, {"region": 3, **row}),
            huge(weights_fixed=0),
            huge(weights_fixed=1),
            Instruction(Opcode.POST, {"source": 0, "destination": 0, **plain}),
            Instruction(Opcode.POST, {"source": 1, "destination": 2, **plain}),
        ]
    ) == [7 + 7, 14 + 7, 10 + 7, 14 + 7, 18 + 7, 11 + 7, 25 + 7, 25 + 7]
