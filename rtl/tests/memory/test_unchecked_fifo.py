"""UncheckedFIFO: order and cycles, full and empty, and a reset."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom_rtl.memory.unchecked_fifo import UncheckedFIFO
from matloom_rtl.testing import simulate


@pytest.mark.parametrize("depth", [1, 2, 5, 16])
@pytest.mark.parametrize(("puts", "takes"), [(1, 1), (0.8, 0.3), (0.3, 0.8), (0.5, 0.5)])
def test_items_in_order(seed, depth, puts, takes):
    dut, generator = UncheckedFIFO(width=8, depth=depth), random.Random(seed)

    async def bench(ctx):
        held = []
        for _cycle in range(300):
            assert ctx.get(dut.r_rdy) == bool(held)
            if held:
                assert ctx.get(dut.r_data) == held[0]
            put = len(held) < depth and generator.random() < puts
            take = bool(held) and generator.random() < takes
            item = generator.randrange(256)
            ctx.set(dut.w_en, put)
            ctx.set(dut.w_data, item)
            ctx.set(dut.r_en, take)
            await ctx.tick()
            held = held[take:] + [item] * put

    simulate(dut, bench, cycles=310)


def test_reset_forgets_the_items():
    reset = Signal()
    dut = UncheckedFIFO(width=8, depth=4)

    async def bench(ctx):
        ctx.set(dut.w_en, 1)
        await ctx.tick().repeat(3)
        ctx.set(dut.w_en, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        assert not ctx.get(dut.r_rdy)
        ctx.set(dut.w_en, 1)
        ctx.set(dut.w_data, 77)
        await ctx.tick()
        ctx.set(dut.w_en, 0)
        assert ctx.get(dut.r_rdy)
        assert ctx.get(dut.r_data) == 77

    simulate(ResetInserter(reset)(dut), bench, cycles=20)
