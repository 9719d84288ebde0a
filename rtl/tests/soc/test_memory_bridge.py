"""External memory on the processor's bus: words, bytes, lines, cycles, stalls, errors, reset."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.soc import LINE_BYTES, MEMORY_BASE
from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.soc.memory_bridge import MemoryBridge
from matloom_rtl.soc.testing import LINE, BusInitiator, word_at
from matloom_rtl.testing import simulate

BYTES = 512


class Bench:
    def __init__(self, bus_bits=64, **memory):
        self.dut = MemoryBridge(bus_bits)
        self.contents = bytearray(random.Random(3).randbytes(BYTES))
        self.cpu = BusInitiator(self.dut.wishbone)
        self.reset = Signal()
        beats = LINE_BYTES * 8 // bus_bits
        options = {"base": MEMORY_BASE, "latency": 4, "burst_beats": beats, **memory}
        self.read = AxiMemory(self.dut.axi_read, self.contents, **options)
        self.write = AxiMemory(self.dut.axi_write, self.contents, **options)

    def run(self, bench, cycles=6000):
        dut = ResetInserter(self.reset)(self.dut)
        simulate(dut, bench, cycles=cycles, background=[self.read.read, self.write.write])


@pytest.mark.parametrize(("bus_bits", "stall"), [(32, 0.0), (64, 0.5), (128, 0.0), (256, 0.5)])
def test_words_bytes_and_lines(bus_bits, stall):
    bench, chance = Bench(bus_bits, stall=stall), random.Random(11)
    expected = bytearray(bench.contents)

    async def processor(ctx):
        for _ in range(40):
            kind, sel, word = chance.choice("rwl"), chance.randrange(16), chance.getrandbits(32)
            # Cached and uncached addresses are the same memory.
            base = chance.choice((0x4000_0000, 0xC000_0000))
            address = 4 * chance.randrange(BYTES // 4)
            if kind == "w":
                assert not (await bench.cpu.access(ctx, base + address, word, sel))[1]
                for k in range(4):
                    if sel >> k & 1:
                        expected[address + k] = word >> 8 * k & 255
            elif kind == "r":
                right = word_at(expected, address)
                assert await bench.cpu.access(ctx, base + address) == (right, False)
            else:
                address &= -LINE_BYTES
                right = [word_at(expected, address + 4 * k) for k in range(LINE)]
                assert await bench.cpu.line(ctx, base + address) == (right, False)

    bench.run(processor)
    assert bench.contents == expected


@pytest.mark.parametrize("latency", [1, 9])
def test_cycles(latency):
    bench = Bench(latency=latency)

    async def processor(ctx):
        await bench.cpu.line(ctx, 64)
        # Seen, asked, `latency`, kept; then a word each cycle.
        assert bench.cpu.gaps == [latency + 3, *[1] * (LINE - 1)]
        await bench.cpu.access(ctx, 8)
        assert bench.cpu.cycles == latency + 3
        await bench.cpu.access(ctx, 8, 1)
        assert bench.cpu.cycles == latency + 3

    bench.run(processor)
    assert [beats for _, _, beats in bench.read.bursts] == [LINE_BYTES // 8, 1]


def test_half_a_request_is_none():
    bench = Bench()
    before = bytes(bench.contents)

    async def processor(ctx):
        for write in (False, True):
            await bench.cpu.half_requests(ctx, 8, write=write)

    bench.run(processor)
    assert not bench.read.bursts
    assert bench.contents == before


def test_errors():
    bench = Bench(broken=[MEMORY_BASE + 16, MEMORY_BASE + 64])

    async def processor(ctx):
        for wrong in (None, 7):
            for right in (None, 7):
                assert (await bench.cpu.access(ctx, 16, wrong))[1]
                assert not (await bench.cpu.access(ctx, 24, right))[1]
        assert (await bench.cpu.line(ctx, 64))[1]
        assert not (await bench.cpu.line(ctx, 96))[1]

    bench.run(processor)


def test_reset_midway_forgets_the_request():
    bench = Bench()

    async def processor(ctx):
        bus = bench.dut.wishbone
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)
        # It is seen, and nothing is asked yet.
        ctx.set(bench.reset, 1)
        for _ in range(12):
            _, _, ack, err, asks = await ctx.tick().sample(
                bus.ack, bus.err, bench.dut.axi_read.ar.valid
            )
            assert not ack | err | asks
        ctx.set(bench.reset, 0)
        assert await bench.cpu.access(ctx, 4) == (word_at(bench.contents, 4), False)

    bench.run(processor)
