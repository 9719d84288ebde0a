"""Fetch, compared with memory: every width, read-ahead, restarts, errors, halt."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.dma.fetch import Fetch
from matloom_rtl.testing import simulate

BUSES = [32, 64, 128, 256]
DRAM = random.Random(11).randbytes(0x4000)


def instruction_words(address, size):
    return [
        int.from_bytes(DRAM[at : at + 16], "little") for at in range(address, address + size, 16)
    ]


class Bench:
    """A Fetch on a memory; `run` starts it and compares the delivered words."""

    def __init__(self, bus_bits=64, *, burst_beats=16, stall=0.0, **memory):
        self.dut = Fetch(Config(bus_bits=bus_bits, burst_beats=burst_beats))
        self.memory = AxiMemory(
            self.dut.axi,
            DRAM,
            burst_beats=burst_beats,
            stall=memory.pop("memory_stall", 0.0),
            **memory,
        )
        self.stall = stall
        self.random = random.Random(13)

    async def start(self, ctx, address, size):
        dut = self.dut
        ctx.set(dut.start, 1)
        ctx.set(dut.address, address)
        ctx.set(dut.bytes, size)
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.address, 0)
        ctx.set(dut.bytes, 0)

    async def collect(self, ctx, count):
        o, seen = self.dut.o, []
        while len(seen) < count:
            ready = self.random.random() >= self.stall
            ctx.set(o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(o.valid, o.payload)
            if valid and ready:
                seen.append(payload)
        ctx.set(o.ready, 0)
        return seen

    async def deliver(self, ctx, address, size):
        await self.start(ctx, address, size)
        assert ctx.get(self.dut.exhausted) == (size == 0)
        assert await self.collect(ctx, size // 16) == instruction_words(address, size)
        await ctx.delay(1e-9)
        assert ctx.get(self.dut.exhausted)
        assert not ctx.get(self.dut.o.valid)

    def simulate(self, *benches, cycles=5000, background=()):
        return simulate(
            self.dut, *benches, cycles=cycles, background=(self.memory.read, *background)
        )

    def run(self, address, size):
        async def bench(ctx):
            await self.deliver(ctx, address, size)

        return self.simulate(bench)


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("bus_bits", BUSES)
@pytest.mark.parametrize(("stall", "memory_stall"), [(0, 0), (0.7, 0), (0, 0.4), (0.5, 0.3)])
def test_delivers_every_word(bus_bits, stall, memory_stall):
    bench = Bench(bus_bits, stall=stall, memory_stall=memory_stall)

    async def starts(ctx):
        for address, size in ((0x1000, 16), (0x0FF0, 32), (0x2010, 48), (0, 0), (0xFD0, 16 * 70)):
            await bench.deliver(ctx, address, size)

    bench.simulate(starts)


@pytest.mark.parametrize("burst_beats", [1, 2, 256])
def test_any_length_of_burst(burst_beats):
    Bench(64, burst_beats=burst_beats).run(0x0FD0, 16 * 40)


@pytest.mark.parametrize("bus_bits", BUSES)
def test_sustains_a_burst_for_each_latency(bus_bits):
    size = 16 * 128
    cycles = Bench(bus_bits, burst_beats=8).run(0x1000, size)
    # 32 instruction words ahead: four round trips, or the beats themselves where these take longer.
    assert cycles <= 12 + max(5 * 44, 44 + size // (bus_bits // 8))


def test_reads_at_most_32_words_ahead():
    bench = Bench(64, burst_beats=32)

    async def wait(ctx):
        await bench.start(ctx, 0x1000, 0x2000)
        await ctx.tick().repeat(300)
        assert sum(beats for _, _, beats in bench.memory.bursts) == 32 * 2
        assert await bench.collect(ctx, 512) == instruction_words(0x1000, 0x2000)

    bench.simulate(wait)


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize("bus_bits", BUSES)
@pytest.mark.parametrize("when", [1, 2, 5, 6, 34, 41, 120])
def test_start_clears_old_words(bus_bits, when):
    bench = Bench(bus_bits, memory_stall=0.2, broken=[0x3000])

    async def restart(ctx):
        await bench.start(ctx, 0x2F10, 16 * 60)
        await ctx.tick().repeat(when)
        await bench.deliver(ctx, 0x0410, 16 * 9)

    bench.simulate(restart)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("bus_bits", [32, 64])
def test_start_in_any_cycle_of_a_burst(bus_bits):
    """A start may coincide with the last beat of a burst, and others may be outstanding."""
    bench = Bench(bus_bits)

    async def restart(ctx):
        for cycle in range(17):
            await bench.start(ctx, 0x2F00, 16 * 60)
            await ctx.tick().repeat(60 + cycle)
            assert not ctx.get(bench.dut.quiet)
            await bench.deliver(ctx, 0x0410, 16 * 9)

    bench.simulate(restart)


def test_error_is_reported_with_the_address_of_its_burst():
    bench, seen = Bench(64, broken=[0x1080]), set()

    async def watch(ctx):
        fault = bench.dut.fault
        while True:
            _, _, valid, cause, address = await ctx.tick().sample(
                fault.valid, fault.cause, fault.address
            )
            if valid:
                seen.add((cause, address))

    async def fetch(ctx):
        await bench.deliver(ctx, 0x1010, 16 * 30)

    bench.simulate(fetch, background=(watch,))
    assert seen == {(Fault.AXI_READ, 0x1080)}


@pytest.mark.fast_cases(11)
@pytest.mark.parametrize("bus_bits", BUSES)
@pytest.mark.parametrize("instruction_word", [0, 14, 15, 29])
def test_error_of_any_one_beat_is_reported_a_cycle_after_it(bus_bits, instruction_word):
    """The erroneous beat is in the first, a middle or the last burst of a transfer."""
    place = 0x10F0 + 16 * instruction_word
    longest = 8 * bus_bits // 8
    bench = Bench(bus_bits, burst_beats=8, broken_beats=[place // (bus_bits // 8) * bus_bits // 8])
    first_beat, taken, seen = 0x10F0 * 8 // bus_bits, [], []

    async def watch(ctx):
        fault, r, cycle = bench.dut.fault, bench.dut.axi.r, 0
        while True:
            _, _, beat, valid, cause, address = await ctx.tick().sample(
                r.valid & r.ready, fault.valid, fault.cause, fault.address
            )
            if beat:
                taken.append(cycle)
            if valid:
                seen.append((cycle, cause, address))
            cycle += 1

    async def fetch(ctx):
        await bench.deliver(ctx, 0x10F0, 16 * 30)

    bench.simulate(fetch, background=(watch,))
    beat = place * 8 // bus_bits
    burst = max(place // longest * longest, 0x10F0 // (bus_bits // 8) * (bus_bits // 8))
    assert seen == [(taken[beat - first_beat] + 1, Fault.AXI_READ, burst)]


@pytest.mark.parametrize("when", [5, 34, 35, 41, 60])
def test_errors_of_dropped_bursts_are_no_faults(when):
    """Two bursts with errors are outstanding when the start comes."""
    bench, starts, faults = Bench(64, broken=[0x3000, 0x3080, 0x3100]), [], []

    async def watch(ctx):
        cycle = 0
        while True:
            _, _, start, valid = await ctx.tick().sample(bench.dut.start, bench.dut.fault.valid)
            if start:
                starts.append(cycle)
            if valid:
                faults.append(cycle)
            cycle += 1

    async def restart(ctx):
        await bench.start(ctx, 0x3000, 16 * 60)
        await ctx.tick().repeat(when)
        await bench.deliver(ctx, 0x0410, 16 * 9)

    bench.simulate(restart, background=(watch,))
    # One that comes with the start, as at 34, is dropped, too.
    assert all(cycle <= starts[1] for cycle in faults)
    assert bool(faults) == (when >= 35)


@pytest.mark.parametrize("when", [1, 3, 4, 20, 38, 50])
def test_halt_then_reset_then_again(when):
    bench = Bench(64, memory_stall=0.2)
    reset = Signal()
    dut = bench.dut

    async def stop(ctx):
        await bench.start(ctx, 0x1010, 16 * 60)
        await ctx.tick().repeat(when)
        ctx.set(dut.halt, 1)
        await ctx.delay(1e-9)
        bursts = len(bench.memory.bursts)
        await ctx.tick()
        await ctx.tick().until(dut.quiet)
        assert bench.memory.outstanding == 0
        assert len(bench.memory.bursts) <= bursts + 1
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(dut.halt, 0)
        await ctx.delay(1e-9)
        assert ctx.get(dut.exhausted)
        await bench.deliver(ctx, 0x20, 16 * 40)

    simulate(ResetInserter(reset)(dut), stop, cycles=3000, background=(bench.memory.read,))
