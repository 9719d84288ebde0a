"""The processor's bus: values against a dictionary of bytes, cycles, stalls, errors, reset."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom_rtl.bus.testing import AxiMemory
from matloom_rtl.soc.wishbone import WishboneBridge
from matloom_rtl.testing import simulate

REGISTERS = 1 << 31


class Bench:
    def __init__(self, bus_bits=64, **memory):
        self.dut, self.contents = (
            WishboneBridge(bus_bits),
            bytearray(random.Random(3).randbytes(256)),
        )
        self.reset, self.cycles, self.registers = Signal(), 0, {}
        self.memories = [
            AxiMemory(bus, self.contents, burst_beats=1, **{"latency": 4, **memory})
            for bus in (self.dut.axi_read, self.dut.axi_write)
        ]

    async def access(self, ctx, address, word=None, sel=15):
        """Return (word, failed) of one access, and count its cycles."""
        bus = self.dut.wishbone
        ctx.set(bus.adr, address >> 2)
        ctx.set(bus.sel, sel)
        ctx.set(bus.we, word is not None)
        ctx.set(bus.dat_w, word or 0)
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)
        self.cycles = 0
        while True:
            _, _, ack, err, value = await ctx.tick().sample(bus.ack, bus.err, bus.dat_r)
            self.cycles += 1
            assert ack + err < 2
            if ack or err:
                ctx.set(bus.cyc, 0)
                ctx.set(bus.stb, 0)
                return value, bool(err)

    async def serve_registers(self, ctx):
        """Take addresses and words at once; answer in the next cycle."""
        lite = self.dut.axi_lite
        for channel in (lite.ar, lite.aw, lite.w):
            ctx.set(channel.ready, 1)
        while True:
            _, _, ar, asked, aw, named, word = await ctx.tick().sample(
                lite.ar.valid, lite.ar.payload, lite.aw.valid, lite.aw.payload, lite.w.payload.data
            )
            if aw:
                self.registers[named] = word
            ctx.set(lite.r.valid, ar)
            ctx.set(lite.b.valid, aw)
            ctx.set(lite.r.payload, {"data": self.registers.get(asked, 0), "resp": 0})

    def run(self, bench, cycles=4000):
        background = [self.serve_registers, *(m.read for m in self.memories[:1])]
        background.append(self.memories[1].write)
        dut = ResetInserter(self.reset)(self.dut)
        simulate(dut, bench, cycles=cycles, background=background)


@pytest.mark.parametrize("bus_bits", [32, 64])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_words_and_bytes_of_memory(bus_bits, stall):
    bench, chance = Bench(bus_bits, stall=stall), random.Random(11)
    expected = bytearray(bench.contents)

    async def processor(ctx):
        for _ in range(40):
            address, sel = 4 * chance.randrange(64), chance.randrange(16)
            word = chance.getrandbits(32)
            if chance.random() < 0.5:
                assert not (await bench.access(ctx, address, word, sel))[1]
                for k in range(4):
                    if sel >> k & 1:
                        expected[address + k] = word >> 8 * k & 255
            else:
                right = int.from_bytes(expected[address : address + 4], "little")
                assert await bench.access(ctx, address) == (right, False)

    bench.run(processor)
    assert bench.contents == expected


def test_registers_are_where_bit_31_is_set():
    bench = Bench()
    before = bytes(bench.contents)

    async def processor(ctx):
        await bench.access(ctx, REGISTERS + 0x24, 0x12345678)
        assert bench.cycles == 4
        assert await bench.access(ctx, REGISTERS + 0x24) == (0x12345678, False)
        assert bench.cycles == 4
        assert (await bench.access(ctx, REGISTERS + 0x1000))[1], "outside the window"
        assert bench.cycles == 2

    bench.run(processor)
    assert (bench.registers, bench.contents) == ({0x24: 0x12345678}, before)


@pytest.mark.parametrize("latency", [1, 4, 9])
def test_cycles_of_a_read(latency):
    bench = Bench(latency=latency)

    async def processor(ctx):
        await bench.access(ctx, 8)
        # Seen, asked, `latency`, answered.
        assert bench.cycles == latency + 3

    bench.run(processor)


def test_errors_of_memory():
    bench = Bench(broken=[16])

    async def processor(ctx):
        for word in (None, 7):
            assert (await bench.access(ctx, 16, word))[1]
            assert not (await bench.access(ctx, 24, word))[1]

    bench.run(processor)


def test_reset_midway_forgets_the_request():
    bench = Bench()

    async def processor(ctx):
        bus = bench.dut.wishbone
        # A register outside the window: without the reset, its answer comes in the next cycle.
        ctx.set(bus.adr, (REGISTERS + 0x1000) >> 2)
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)
        ctx.set(bench.reset, 1)
        for _ in range(4):
            _, _, ack, err = await ctx.tick().sample(bus.ack, bus.err)
            assert not ack
            assert not err
        ctx.set(bench.reset, 0)
        right = int.from_bytes(bench.contents[4:8], "little")
        assert await bench.access(ctx, 4) == (right, False)

    bench.run(processor)
