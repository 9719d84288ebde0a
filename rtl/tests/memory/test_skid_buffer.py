"""SkidBuffer: order and cycles, steady and with stalls on either side."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.lib import data

from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.testing import simulate

PAYLOAD = data.StructLayout({"low": 4, "high": 4})

#: Fields that are shown from registers.
REGISTERED = [(), ("low",), ("low", "high")]


def run(items, *, gaps=0.0, refuse=0.0, seed=0, registered=()):
    dut, generator, seen = SkidBuffer(PAYLOAD, registered=registered), random.Random(seed), []

    async def feed(ctx):
        for item in items:
            while generator.random() < gaps:
                await ctx.tick()
            ctx.set(dut.i.payload, {"low": item % 16, "high": item // 16})
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def drain(ctx):
        while len(seen) < len(items):
            ready = generator.random() >= refuse
            ctx.set(dut.o.ready, ready)
            _clk, _rst, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                seen.append(payload.low + 16 * payload.high)

    cycles = simulate(dut, feed, drain, cycles=20 * len(items))
    assert seen == items
    return cycles


def test_an_item_a_cycle(seed):
    assert run(list(range(100))) == 101


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("registered", REGISTERED, ids=["chosen", "registered", "all"])
@pytest.mark.parametrize(("gaps", "refuse"), [(0.6, 0), (0, 0.6), (0.5, 0.5)])
def test_stalls(seed, gaps, refuse, registered):
    draw = random.Random(seed)
    items = [draw.randrange(256) for _ in range(300)]
    run(items, gaps=gaps, refuse=refuse, seed=seed, registered=registered)


@pytest.mark.parametrize("registered", REGISTERED, ids=["chosen", "registered", "all"])
def test_two_items_wait_and_no_third(registered):
    """Cycle by cycle: `i.ready` falls with the second item, and `o` stays the same."""
    dut = SkidBuffer(PAYLOAD, registered=registered)

    async def step(ctx, item, ready):
        """Offer an item; return the outputs of the cycle."""
        ctx.set(dut.i.valid, item is not None)
        ctx.set(dut.i.payload, {"low": (item or 0) % 16, "high": (item or 0) // 16})
        ctx.set(dut.o.ready, ready)
        _clk, _rst, taken, valid, payload = await ctx.tick().sample(
            dut.i.ready, dut.o.valid, dut.o.payload
        )
        return taken, payload.low + 16 * payload.high if valid else None

    async def main(ctx):
        for first in (0x12, 0x91):
            offered = [first, first + 1, first + 2, first + 3, first + 2, None, None, None]
            ready = [0, 0, 0, 0, 1, 1, 1, 1]
            shown = [await step(ctx, *each) for each in zip(offered, ready, strict=True)]
            assert [item for _taken, item in shown] == [None, *[first] * 4, first + 1, None, None]
            assert [taken for taken, _item in shown] == [1, 1, 0, 0, 0, 1, 1, 1]
            # An odd number of items in all: each of the two places comes first once.
            assert await step(ctx, 5, 1) == (1, None)
            assert await step(ctx, None, 1) == (1, 5)

    simulate(dut, main, cycles=50)


def test_reset_forgets_both_items():
    reset = Signal()
    dut = SkidBuffer(PAYLOAD)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        assert ctx.get(dut.i.ready)
        assert not ctx.get(dut.o.valid)

    simulate(ResetInserter(reset)(dut), bench, cycles=20)
