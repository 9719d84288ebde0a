"""Queues: instructions of all units pass through intact while others overtake them."""

import dataclasses

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction, pack
from matloom.arch.isa import UNITS, Opcode
from matloom_rtl.control.layouts import count_bits, max_issued_before_read
from matloom_rtl.control.queues import Queues
from matloom_rtl.testing import simulate

CONFIG = PRESETS["nano"]
#: A number below `rows` of every unit's bodies, so that a body is known again.
FIRST = {"load": "rows", "exec": "height", "post": "height", "store": "rows"}


async def give(ctx, dut, unit, *, target):
    """Add an instruction that waits for completion `target` + 1 of LOAD, and pass its check."""
    data = pack(Instruction(unit, {FIRST[unit.name.lower()]: 3}))
    for start in range(0, len(data), 16):
        ctx.set(dut.i.payload, int.from_bytes(data[start : start + 16], "little"))
        ctx.set(dut.i.valid, 1)
        await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
    notes = {"waits": 1, "targets": [target, 0, 0, 0]}
    for each in UNITS:
        ctx.set(getattr(dut, each.name.lower()).payload, notes)
    queue = getattr(dut, unit.name.lower())
    ctx.set(queue.valid, 1)
    await ctx.tick().until(queue.ready)
    ctx.set(queue.valid, 0)
    ctx.set(dut.issue, 1 << UNITS.index(unit))
    await ctx.tick()
    ctx.set(dut.issue, 0)


@pytest.mark.parametrize("unit", UNITS)
def test_a_stalled_instruction_passes_unchanged(unit):
    dut = Queues(CONFIG)
    name = unit.name.lower()
    out = getattr(dut, f"o_{name}")
    others = ((1 << len(UNITS)) - 1) & ~(1 << UNITS.index(unit))

    async def main(ctx):
        await give(ctx, dut, unit, target=0)
        await ctx.tick().repeat(10)
        ctx.set(dut.issue, others & -others)
        for _number in range(50):
            await ctx.tick()
            # EXEC gates itself.
            assert ctx.get(out.valid) == (unit is Opcode.EXEC)
            assert ctx.get(dut.met[UNITS.index(unit)]) == 0b1110
        ctx.set(dut.issue, 0)
        # Its dependency is met: it leaves as it came.
        ctx.set(dut.completed[0], 1)
        await ctx.tick()
        assert ctx.get(dut.met[UNITS.index(unit)]) == 0b1111
        ctx.set(out.ready, 1)
        (payload,) = await ctx.tick().sample(out.payload).until(out.valid)
        assert getattr(payload, FIRST[name]) == 3

    simulate(dut, main, cycles=200)


@pytest.mark.parametrize(
    ("depth", "unread", "bits"), [(1, 7, 8), (2, 7, 8), (4, 15, 8), (8, 31, 8), (32, 127, 9)]
)
def test_numbers_are_wide_enough_for_what_the_memory_holds(depth, unread, bits):
    """Counts are wide enough for all instructions issued before one of two words is read."""
    config = dataclasses.replace(CONFIG, queue_depth=depth)
    assert max_issued_before_read(config, 2) == unread
    assert count_bits(config) == bits
