"""The harness: results, the number of cycles, and its message for a bench that hangs."""

import gc

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
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
    dut = Follow()
    reset = Signal()

    async def check(ctx):
        ctx.set(dut.i, 3)
        await ctx.tick()
        ctx.set(reset, 1)
        await ctx.tick()
        assert ctx.get(dut.o) == 0

    simulate(ResetInserter(reset)(dut), check, cycles=4)


class Count(wiring.Component):
    """Counts in a register, and stores counts in a memory of four words."""

    o: Out(8)
    last: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=8, depth=4, init=[9] * 4)
        write, read = memory.write_port(), memory.read_port()
        m.d.sync += self.o.eq(self.o + 1)
        m.d.comb += [
            write.en.eq(self.o > 1),
            write.data.eq(self.o),
            read.en.eq(1),
            self.last.eq(read.data),
        ]
        return m


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_each_run_begins_with_power_up():
    """Registers, memories, time and benches start afresh, also after an aborted run."""
    dut, seen = Count(), []

    async def watch(ctx):
        for _cycle in range(5):
            await ctx.tick()
            seen.append((ctx.get(dut.o), ctx.get(dut.last)))

    async def longer(ctx):
        await ctx.tick().repeat(7)

    async def broken(ctx):
        await ctx.tick().repeat(3)
        raise ValueError("midway")

    async def endless(ctx):
        await ctx.tick().repeat(1000)

    assert simulate(dut, watch, cycles=20) == 5
    first, seen[:] = list(seen), []
    assert first[-1][1] != 9
    assert simulate(dut, longer, cycles=20, background=[endless]) == 7
    assert simulate(dut, longer, cycles=20) == 7
    with pytest.raises(ValueError, match="midway"):
        simulate(dut, broken, cycles=20)
    assert simulate(dut, watch, cycles=20) == 5
    assert simulate(dut, watch, cycles=20) == 5
    assert seen == first * 2
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_names_who_was_waiting():
    dut = Follow()

    async def patient(ctx):
        await ctx.tick().until(dut.o == 1)

    with pytest.raises(AssertionError, match=r"within 6 cycles; waiting: .*patient at line \d+"):
        simulate(dut, patient, cycles=6)
    gc.collect()
