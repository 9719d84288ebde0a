"""Sequencer: each state of a command, cycle by cycle, and a reset in each of them."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS
from matloom_rtl.post.sequencer import Sequencer
from matloom_rtl.testing import simulate

CONFIG = PRESETS["nano"]


async def begin(ctx, dut, command, idle=3):
    """Offer a command whose parameters arrive some cycles later; return after it."""
    ctx.set(dut.unit.command.payload, command)
    ctx.set(dut.unit.command.valid, 1)
    for _cycle in range(idle):
        assert not ctx.get(dut.unit.command.ready)
        assert not ctx.get(dut.unit.busy)
        await ctx.tick()
    ctx.set(dut.fetched, 1)
    assert ctx.get(dut.unit.command.ready)
    await ctx.tick()
    ctx.set(dut.fetched, 0)
    # What is offered after it is another one.
    ctx.set(dut.unit.command.payload, {"timestamp": 63, "oc_blocks": 9})


async def pause(ctx, cycles):
    for _cycle in range(cycles):
        await ctx.tick()


async def pulse(ctx, signal):
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


async def execute(ctx, dut, command, generator, waiting):
    """Check a command from its first cycle to `done`."""
    await begin(ctx, dut, command, generator.randint(0, 3))
    for cycle in range(generator.randint(2, 6)):
        assert ctx.get(dut.start) == (cycle == 0)
        assert ctx.get(dut.streaming)
        assert ctx.get(dut.unit.busy)
        assert ctx.get(dut.command.oc_blocks) == command["oc_blocks"]
        await ctx.tick()
    ctx.set(dut.asked_all, 1)
    assert not ctx.get(dut.streaming)
    await ctx.tick()
    ctx.set(dut.asked_all, 0)
    # The last result may leave while others still wait, or nothing may wait before it.
    ctx.set(dut.waiting, waiting)
    for _cycle in range(generator.randint(0, 2 * CONFIG.acc_update_latency)):
        assert not ctx.get(dut.streaming)
        assert not ctx.get(dut.unit.done)
        await ctx.tick()
    ctx.set(dut.waiting, 1)
    await pulse(ctx, dut.finished)
    for _cycle in range(generator.randint(0, 2 * CONFIG.acc_update_latency)):
        assert not ctx.get(dut.unit.done)
        await ctx.tick()
    # The last grant: visible after the latency of the memories.
    ctx.set(dut.waiting, 0)
    for _cycle in range(CONFIG.acc_update_latency):
        assert not ctx.get(dut.unit.done)
        await ctx.tick()
    assert ctx.get(dut.unit.done)
    assert ctx.get(dut.unit.done_mark) == command["timestamp"]
    assert ctx.get(dut.unit.busy)
    ctx.set(dut.unit.command.valid, 0)
    await ctx.tick()
    assert not ctx.get(dut.unit.busy)
    assert not ctx.get(dut.unit.done)


def test_commands_one_after_the_other(seed):
    generator, dut = random.Random(seed), Sequencer(CONFIG)

    async def bench(ctx):
        for number in range(12):
            command = {"timestamp": generator.randrange(63), "oc_blocks": generator.randint(1, 4)}
            await execute(ctx, dut, command, generator, waiting=number % 3 == 1)

    simulate(dut, bench, cycles=1000)


@pytest.mark.parametrize("cycles", range(12))
def test_reset_midway(seed, cycles):
    generator, dut = random.Random(seed), Sequencer(CONFIG)
    reset = Signal()

    async def bench(ctx):
        await begin(ctx, dut, {"timestamp": 1, "oc_blocks": 1})
        for cycle in range(cycles):
            ctx.set(dut.finished, cycle == 5)
            await ctx.tick()
        for each in (dut.finished, dut.unit.command.valid):
            ctx.set(each, 0)
        await pulse(ctx, reset)
        assert not ctx.get(dut.unit.busy)
        assert not ctx.get(dut.streaming)
        await execute(ctx, dut, {"timestamp": 7, "oc_blocks": 2}, generator, waiting=True)

    simulate(ResetInserter(reset)(dut), bench, cycles=200)
