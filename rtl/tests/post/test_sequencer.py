"""Sequencer: each state of a command, cycle by cycle, and a reset in each of them."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS
from matloom.testing.configs import WIDEST
from matloom_rtl.post.sequencer import Sequencer
from matloom_rtl.testing import simulate

CONFIG = PRESETS["nano"]


async def begin(ctx, dut, command, idle=3):
    """Offer a command; its parameters are being fetched after some cycles. Return after it."""
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


async def execute(ctx, dut, command, generator, written_first):
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
    ctx.set(dut.waiting, command["oc_blocks"] == 1)
    if written_first:
        await pulse(ctx, dut.finished)
    for block in range(command["oc_blocks"]):
        assert not ctx.get(dut.streaming)
        assert not ctx.get(dut.unit.done)
        await pause(ctx, generator.randint(0, 2))
        if block == command["oc_blocks"] - 1:
            ctx.set(dut.waiting, 1)
        await pulse(ctx, dut.block_left)
    if not written_first:
        await pause(ctx, generator.randint(0, 3))
        await pulse(ctx, dut.finished)
    await pause(ctx, generator.randint(0, 3))
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
            await execute(ctx, dut, command, generator, written_first=number % 3 == 1)

    simulate(dut, bench, cycles=1000)


def test_as_many_blocks_as_the_field_counts():
    dut, blocks = Sequencer(WIDEST), 4095

    async def bench(ctx):
        await begin(ctx, dut, {"timestamp": 5, "oc_blocks": blocks})
        await pause(ctx, 2)
        await pulse(ctx, dut.finished)
        ctx.set(dut.block_left, 1)
        await ctx.tick().repeat(blocks - 1)
        ctx.set(dut.block_left, 0)
        for _cycle in range(2 * WIDEST.acc_update_latency):
            assert ctx.get(dut.unit.busy)
            assert not ctx.get(dut.unit.done)
            await ctx.tick()
        await pulse(ctx, dut.block_left)
        await pause(ctx, WIDEST.acc_update_latency)
        assert ctx.get(dut.unit.done)

    simulate(dut, bench, cycles=blocks + 100)


@pytest.mark.parametrize("cycles", range(12))
def test_reset_midway(seed, cycles):
    generator, dut, reset = random.Random(seed), Sequencer(CONFIG), Signal()

    async def bench(ctx):
        await begin(ctx, dut, {"timestamp": 1, "oc_blocks": 1})
        for cycle in range(cycles):
            ctx.set(dut.block_left, cycle == 3)
            ctx.set(dut.finished, cycle == 5)
            await ctx.tick()
        for each in (dut.block_left, dut.finished, dut.unit.command.valid):
            ctx.set(each, 0)
        await pulse(ctx, reset)
        assert not ctx.get(dut.unit.busy)
        assert not ctx.get(dut.streaming)
        await execute(ctx, dut, {"timestamp": 7, "oc_blocks": 2}, generator, written_first=False)

    simulate(ResetInserter(reset)(dut), bench, cycles=200)
