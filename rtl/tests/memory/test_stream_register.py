"""StreamRegister: order and cycles, steady and with stalls on either side, reset midway."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom_rtl.memory.stream_register import StreamRegister
from matloom_rtl.testing import simulate


def run(items, *, gaps=0.0, refuse=0.0, seed=0):
    dut, generator, seen = StreamRegister(8), random.Random(seed), []

    async def feed(ctx):
        for item in items:
            while generator.random() < gaps:
                await ctx.tick()
            ctx.set(dut.i.payload, item)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)
            # What is shown without being valid is no item.
            ctx.set(dut.i.payload, 255 - item)

    async def drain(ctx):
        while len(seen) < len(items):
            ready = generator.random() >= refuse
            ctx.set(dut.o.ready, ready)
            _clk, _rst, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                seen.append(payload)

    cycles = simulate(dut, feed, drain, cycles=20 * len(items))
    assert seen == items
    return cycles


def test_an_item_a_cycle():
    assert run(list(range(100))) == 101


@pytest.mark.parametrize(("gaps", "refuse"), [(0.6, 0), (0, 0.6), (0.5, 0.5)])
def test_stalls(seed, gaps, refuse):
    draw = random.Random(seed)
    run([draw.randrange(256) for _ in range(300)], gaps=gaps, refuse=refuse, seed=seed)


def test_one_item_waits_and_a_reset_forgets_it():
    dut = StreamRegister(8)
    reset = Signal()

    async def main(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.payload, 7)
        await ctx.tick()
        ctx.set(dut.i.payload, 8)
        for _cycle in range(3):
            assert ctx.get(dut.o.valid)
            assert ctx.get(dut.o.payload) == 7
            assert not ctx.get(dut.i.ready)
            await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        assert not ctx.get(dut.o.valid)
        assert ctx.get(dut.i.ready)

    simulate(ResetInserter(reset)(dut), main, cycles=20)
