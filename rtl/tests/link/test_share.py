"""Engine and link on one memory: data, AXI rules, bursts, and the link alone."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import PRESETS
from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.link.share import Share
from matloom_rtl.testing import simulate

CONFIG = PRESETS["nano"]
BYTES = 4096


class Bench:
    """Bench of engine and link: bursts in the lower half of memory, words in the upper half."""

    def __init__(self, *, stall=0.0, seed=0, order="any", pause=0.0):
        self.dut, self.random = Share(CONFIG), random.Random(seed)
        self.contents = bytearray(random.Random(5).randbytes(BYTES))
        self.before = bytes(self.contents)
        self.reset = Signal()
        self.read, self.write = (
            AxiMemory(bus, self.contents, burst_beats=16, stall=stall, latency=9, seed=seed)
            for bus in (self.dut.axi_read, self.dut.axi_write)
        )
        self.order, self.pause, self.link_cycles = order, pause, []
        #: Bursts of the engine that have their last beat, or their response.
        self.ended = 0
        #: Bursts of the engine whose address, whose data were taken.
        self.done = {"aw": 0, "w": 0}

    async def _pass(self, ctx, channel, payload):
        while self.random.random() < self.pause:
            await ctx.tick()
        ctx.set(channel.payload, payload)
        ctx.set(channel.valid, 1)
        await ctx.tick().until(channel.ready)
        ctx.set(channel.valid, 0)

    async def engine_asks(self, ctx):
        for index, address in enumerate(range(0, 2048, 64)):
            while index - self.ended >= CONFIG.outstanding:
                await ctx.tick()
            await self._pass(ctx, self.dut.engine_read.ar, {"id": 1, "addr": address, "len": 15})

    async def engine_reads(self, ctx):
        ctx.set(self.dut.engine_read.r.ready, 1)
        for address in range(0, 2048, 4):
            (beat,) = (
                await ctx.tick()
                .sample(self.dut.engine_read.r.payload)
                .until(self.dut.engine_read.r.valid)
            )
            assert beat.data == int.from_bytes(self.before[address : address + 4], "little")
            assert (beat.id, beat.last) == (1, address % 64 == 60)
            self.ended += beat.last

    def engine_offers(self, which):
        """Return benches that write bursts: address first, data first, or in any order."""
        bus, done = self.dut.engine_write, self.done

        def may(name):
            other = "w" if name == "aw" else "aw"
            if done[name] - self.ended >= CONFIG.outstanding:
                return False
            return self.order != other or done[other] > done[name]

        async def addresses(ctx):
            for index in range(16):
                while not may("aw"):
                    await ctx.tick()
                await self._pass(ctx, bus.aw, {"addr": 64 * index, "len": 15})
                done["aw"] += 1

        async def beats(ctx):
            for index in range(16):
                while not may("w"):
                    await ctx.tick()
                for beat in range(16):
                    payload = {"data": 1000 * index + beat, "strb": 15, "last": beat == 15}
                    await self._pass(ctx, bus.w, payload)
                done["w"] += 1

        async def answers(ctx):
            ctx.set(bus.b.ready, 1)
            for _ in range(16):
                await ctx.tick().until(bus.b.valid)
                self.ended += 1

        return {"aw": addresses, "w": beats, "b": answers}[which]

    async def link_reads(self, ctx):
        bus = self.dut.link_read
        ctx.set(bus.r.ready, 1)
        for address in range(2048, 2048 + 160, 4):
            await ctx.tick().repeat(self.random.randrange(1, 9))
            started = self.read.cycle
            await self._pass(ctx, bus.ar, {"addr": address})
            (beat,) = await ctx.tick().sample(bus.r.payload).until(bus.r.valid)
            assert beat.data == int.from_bytes(self.before[address : address + 4], "little")
            self.link_cycles.append(self.read.cycle - started)

    async def link_writes(self, ctx):
        bus = self.dut.link_write
        ctx.set(bus.b.ready, 1)
        for address in range(3072, 3072 + 160, 4):
            await ctx.tick().repeat(self.random.randrange(1, 9))
            ctx.set(bus.aw.payload.addr, address)
            ctx.set(bus.w.payload, {"data": address, "strb": 15, "last": 1})
            open_channels = {"aw", "w"}
            while open_channels:
                for name in ("aw", "w"):
                    ctx.set(getattr(bus, name).valid, name in open_channels)
                _, _, address_taken, beat_taken = await ctx.tick().sample(bus.aw.ready, bus.w.ready)
                open_channels -= {"aw"} if address_taken else set()
                open_channels -= {"w"} if beat_taken else set()
            for name in ("aw", "w"):
                ctx.set(getattr(bus, name).valid, 0)
            await ctx.tick().until(bus.b.valid)

    def run(self, *benches):
        dut = ResetInserter(self.reset)(self.dut)
        background = [self.read.read, self.write.write]
        return simulate(dut, *benches, cycles=20_000, background=background)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_reads(stall, seed):
    bench = Bench(stall=stall, seed=seed, pause=stall)
    bench.run(bench.engine_asks, bench.engine_reads, bench.link_reads)
    assert len(bench.read.bursts) == 32 + 40


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("order", ["any", "aw", "w"])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_writes(order, stall, seed):
    bench = Bench(stall=stall, seed=seed, order=order, pause=stall)
    offers = [bench.engine_offers(name) for name in ("aw", "w", "b")]
    bench.run(*offers, bench.link_writes)
    words = [int.from_bytes(bench.contents[k : k + 4], "little") for k in range(0, BYTES, 4)]
    assert words[:256] == [1000 * index + beat for index in range(16) for beat in range(16)]
    assert words[768 : 768 + 40] == list(range(3072, 3072 + 160, 4))
    assert bench.contents[1024:3072] == bench.before[1024:3072]


def test_the_engine_alone_loses_no_cycle():
    bench = Bench()
    # Nine cycles from the first address to its first beat, and 512 beats.
    assert bench.run(bench.engine_asks, bench.engine_reads) == 9 + 512


def test_the_link_alone_waits_a_cycle():
    bench = Bench()
    bench.run(bench.link_reads)
    # Granted, nine cycles from the address to the beat, the beat.
    assert set(bench.link_cycles) == {1 + 9 + 1}


def test_a_reset_midway():
    bench = Bench()

    async def play(ctx):
        ctx.set(bench.dut.link_read.ar.valid, 1)
        await ctx.tick().repeat(3)
        ctx.set(bench.dut.link_read.ar.valid, 0)
        ctx.set(bench.reset, 1)
        await ctx.tick()
        ctx.set(bench.reset, 0)
        ctx.set(bench.dut.engine_read.ar.valid, 1)
        await ctx.tick()
        assert ctx.get(bench.dut.axi_read.ar.valid)

    dut = ResetInserter(bench.reset)(bench.dut)
    simulate(dut, play, cycles=100)
