"""The harness: results, the count of cycles, and what it says of a bench that hangs."""

import gc

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.testing import simulate


class Follow(wiring.Component):
    i: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(self.i)
        return m


class Invert(wiring.Component):
    i: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(~self.i)
        return m


def test_counts_cycles_until_the_last_bench_returns():
    dut, seen = Follow(), []

    async def drive(ctx):
        ctx.set(dut.i, 7)
        await ctx.tick()

    async def watch(ctx):
        await ctx.tick().repeat(5)
        seen.append(ctx.get(dut.o))

    assert simulate(dut, drive, watch, cycles=10) == 5
    assert seen == [7]


def test_runs_combinational_units():
    dut = Invert()

    async def check(ctx):
        ctx.set(dut.i, 1)
        await ctx.delay(1e-9)
        assert ctx.get(dut.o) == 0

    simulate(dut, check, cycles=1)


def test_resets_midway():
    dut, reset = Follow(), Signal()

    async def check(ctx):
        ctx.set(dut.i, 3)
        await ctx.tick()
        ctx.set(reset, 1)
        await ctx.tick()
        assert ctx.get(dut.o) == 0

    simulate(ResetInserter(reset)(dut), check, cycles=4)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_names_who_was_waiting():
    dut = Follow()

    async def patient(ctx):
        await ctx.tick().until(dut.o == 1)

    with pytest.raises(AssertionError, match=r"within 6 cycles; waiting: .*patient at line \d+"):
        simulate(dut, patient, cycles=6)
    gc.collect()
