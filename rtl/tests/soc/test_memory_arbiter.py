"""Engine and processor on one memory: data, AXI rules, and progress of both."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.soc.memory_arbiter import MemoryArbiter
from matloom_rtl.testing import simulate

BYTES = 4096
BURSTS = 24


class Bench:
    """Each initiator has half of the memory, and sends requests without waiting for answers."""

    def __init__(self, *, stall=0.0, pause=0.0, seed=0):
        self.dut, self.random, self.pause = MemoryArbiter(32, 4), random.Random(seed), pause
        self.contents = bytearray(random.Random(5).randbytes(BYTES))
        self.before = bytes(self.contents)
        self.reset = Signal()
        self.memories = [
            AxiMemory(bus, self.contents, burst_beats=16, stall=stall, latency=9, seed=seed)
            for bus in (self.dut.axi_read, self.dut.axi_write)
        ]
        self.order = []

    def bursts(self, who):
        """Return (address, beats) of an initiator: long for the engine, short for the processor."""
        base, beats = (0, 16) if who == "engine" else (2048, 2)
        return [(base + 64 * k, beats) for k in range(BURSTS)]

    async def _pass(self, ctx, channel, payload):
        while self.random.random() < self.pause:
            await ctx.tick()
        ctx.set(channel.payload, payload)
        ctx.set(channel.valid, 1)
        await ctx.tick().until(channel.ready)
        ctx.set(channel.valid, 0)

    def reader(self, who):
        bus = getattr(self.dut, f"{who}_read")

        async def asks(ctx):
            for address, beats in self.bursts(who):
                await self._pass(ctx, bus.ar, {"id": 0, "addr": address, "len": beats - 1})

        async def reads(ctx):
            for address, beats in self.bursts(who):
                for beat in range(beats):
                    while self.random.random() < self.pause:
                        await ctx.tick()
                    ctx.set(bus.r.ready, 1)
                    (found,) = await ctx.tick().sample(bus.r.payload).until(bus.r.valid)
                    ctx.set(bus.r.ready, 0)
                    start = address + 4 * beat
                    right = int.from_bytes(self.before[start : start + 4], "little")
                    assert (found.data, found.last) == (right, beat == beats - 1)
                self.order.append(who[0])

        return asks, reads

    def writer(self, who, mark):
        bus = getattr(self.dut, f"{who}_write")

        async def asks(ctx):
            for address, beats in self.bursts(who):
                await self._pass(ctx, bus.aw, {"id": 0, "addr": address, "len": beats - 1})

        async def brings(ctx):
            for index, (_, beats) in enumerate(self.bursts(who)):
                for beat in range(beats):
                    data = mark + 256 * index + beat
                    last = beat == beats - 1
                    await self._pass(ctx, bus.w, {"data": data, "strb": 15, "last": last})

        async def hears(ctx):
            ctx.set(bus.b.ready, 1)
            for _ in self.bursts(who):
                await ctx.tick().until(bus.b.valid)

        return asks, brings, hears

    def run(self, *benches, cycles=6000):
        background = [self.memories[0].read, self.memories[1].write]
        dut = ResetInserter(self.reset)(self.dut)
        return simulate(dut, *benches, cycles=cycles, background=background)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("stall", "pause"), [(0.0, 0.0), (0.4, 0.0), (0.0, 0.5), (0.3, 0.3)])
def test_reads(stall, pause):
    bench = Bench(stall=stall, pause=pause)
    bench.run(*bench.reader("engine"), *bench.reader("cpu"))
    if not stall and not pause:
        # In turn, while both ask.
        assert "".join(bench.order[: 2 * BURSTS - 2]).count("ec") >= BURSTS - 2


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(("stall", "pause"), [(0.0, 0.0), (0.4, 0.0), (0.0, 0.5), (0.3, 0.3)])
def test_writes(stall, pause):
    bench = Bench(stall=stall, pause=pause)
    bench.run(*bench.writer("engine", 1 << 20), *bench.writer("cpu", 1 << 24))
    expected = bytearray(bench.before)
    for who, mark in (("engine", 1 << 20), ("cpu", 1 << 24)):
        for index, (address, beats) in enumerate(bench.bursts(who)):
            for beat in range(beats):
                start = address + 4 * beat
                expected[start : start + 4] = (mark + 256 * index + beat).to_bytes(4, "little")
    assert bench.contents == expected


def test_the_engine_alone_reaches_memory_throughput():
    bench = Bench()
    cycles = bench.run(*bench.reader("engine"))
    assert cycles <= 16 * BURSTS + 16


def test_reset_midway_clears_ownership():
    bench = Bench()

    async def processor(ctx):
        ctx.set(bench.dut.cpu_read.ar.valid, 1)
        await ctx.tick().repeat(2)
        ctx.set(bench.dut.cpu_read.ar.valid, 0)
        ctx.set(bench.reset, 1)
        await ctx.tick()
        ctx.set(bench.reset, 0)
        ctx.set(bench.dut.cpu_read.r.ready, 1)
        for _ in range(60):
            _, _, valid = await ctx.tick().sample(bench.dut.cpu_read.r.valid)
            assert not valid

    # Without an owner beats stay where they are.
    bench.run(processor)
