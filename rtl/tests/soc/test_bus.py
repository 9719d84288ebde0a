# amaranth: UnusedElaboratable=no
"""Arbiter, decoder and block RAM of the processor's bus together: values, cycles, errors."""

import random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib.wiring import connect

from matloom.arch.soc import SocRegion
from matloom_rtl.soc.block_memory import BlockMemory
from matloom_rtl.soc.bus_arbiter import BusArbiter
from matloom_rtl.soc.bus_decoder import BusDecoder
from matloom_rtl.soc.testing import LINE, BusInitiator, word_at
from matloom_rtl.testing import simulate

RAM, ROM = 0x1000_0000, 0x2000_0000


def _region(base, size):
    return SocRegion(name="", base=base, bytes=size, cached=True, doc="")


#: The second region of RAM is three quarters of a power of two, and repeats it.
REGIONS = ((_region(RAM, 256), _region(0x3000_0000, 768)), (_region(ROM, 128),))


class Bench:
    def __init__(self):
        self.contents = random.Random(2).randbytes(90)
        self.turns, self.decoder = BusArbiter(), BusDecoder(REGIONS)
        ram, rom = BlockMemory(256, writable=True), BlockMemory(128, self.contents, writable=False)
        self.reset = Signal()
        m = Module()
        m.submodules.turns, m.submodules.decoder = self.turns, self.decoder
        m.submodules.ram, m.submodules.rom = ram, rom
        connect(m, self.turns.bus, self.decoder.bus)
        connect(m, self.decoder.target_0, ram.wishbone)
        connect(m, self.decoder.target_1, rom.wishbone)
        self.module = m
        self.data, self.code = BusInitiator(self.turns.first), BusInitiator(self.turns.second)

    def run(self, *benches, cycles=4000):
        simulate(ResetInserter(self.reset)(self.module), *benches, cycles=cycles)


def test_words_bytes_and_errors():
    bench, expected, chance = Bench(), bytearray(256), random.Random(8)

    async def data(ctx):
        for address in range(0, 256, 4):
            await bench.data.access(ctx, RAM + address, 0)
        for _ in range(100):
            address, sel = 4 * chance.randrange(64), chance.randrange(16)
            word = chance.getrandbits(32)
            assert not (await bench.data.access(ctx, RAM + address, word, sel))[1]
            for k in range(4):
                if sel >> k & 1:
                    expected[address + k] = word >> 8 * k & 255
            address = 4 * chance.randrange(64)
            right = word_at(expected, address)
            assert await bench.data.access(ctx, 0x3000_0200 + address) == (right, False)
        assert (await bench.data.access(ctx, 0x3000_0300))[1], "past the end of a region"
        assert (await bench.data.access(ctx, 0x4000_0000, 1))[1]
        assert (await bench.data.access(ctx, ROM, 1))[1], "the ROM cannot be written"
        assert await bench.data.access(ctx, ROM) == (word_at(bench.contents, 0), False)

    bench.run(data)


def test_only_the_target_of_an_address_sees_a_cycle():
    bench, seen = Bench(), []
    targets = bench.decoder.target_0, bench.decoder.target_1

    async def data(ctx):
        for address in (RAM, ROM, 0x3000_0000, 0):
            await bench.data.access(ctx, address)
        await ctx.tick().repeat(3)

    async def watch(ctx):
        while True:
            _, _, *found = await ctx.tick().sample(*(target.cyc for target in targets))
            seen.append(tuple(found))

    simulate(bench.module, data, cycles=100, background=[watch])
    ram, rom, none = (1, 0), (0, 1), (0, 0)
    order = [each for at, each in enumerate(seen) if not at or each != seen[at - 1]]
    assert [each for each in order if each != none] == [ram, rom, ram]
    assert set(seen) == {ram, rom, none}


def test_half_a_request_is_none():
    bench = Bench()

    async def data(ctx):
        await bench.data.access(ctx, RAM, 5)
        for address in (RAM, ROM, 0):
            await bench.data.half_requests(ctx, address, write=True)
        assert await bench.data.access(ctx, RAM) == (5, False)

    bench.run(data)


def test_cycles():
    bench = Bench()

    async def data(ctx):
        await bench.data.line(ctx, ROM + 32)
        assert bench.data.gaps == [2, *[1] * (LINE - 1)]
        await bench.data.access(ctx, RAM, 5)
        assert bench.data.cycles == 2
        await bench.data.access(ctx, 0)
        assert bench.data.cycles == 2

    bench.run(data)


def test_an_access_takes_as_long_after_any_pause():
    bench = Bench()

    async def data(ctx):
        for pause in range(5):
            await ctx.tick().repeat(pause + 1)
            address = ROM + 4 * pause
            right = word_at(bench.contents, 4 * pause)
            assert await bench.data.access(ctx, address) == (right, False)
            assert bench.data.cycles == 2

    bench.run(data)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("seed", range(3))
def test_both_take_turns(seed):
    bench, chance, order = Bench(), random.Random(seed), []
    expected = bytearray(bench.contents.ljust(128, b"\0"))

    async def code(ctx):
        for _ in range(60):
            start = 32 * chance.randrange(4)
            right = [word_at(expected, start + 4 * k) for k in range(LINE)]
            assert await bench.code.line(ctx, ROM + start) == (right, False)
            order.append("c")

    async def data(ctx):
        for index in range(60):
            await bench.data.access(ctx, RAM + 4 * index, index)
            assert await bench.data.access(ctx, RAM + 4 * index) == (index, False)
            order.append("d")

    bench.run(code, data)
    # Who asks all the time waits for one burst of the other at most.
    assert "ccc" not in "".join(order[: order.index("d") + 40])


def test_reset_midway():
    bench = Bench()

    async def data(ctx):
        bus = bench.turns.first
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)
        ctx.set(bus.adr, ROM >> 2)
        await ctx.tick()
        ctx.set(bench.reset, 1)
        await ctx.tick()
        ctx.set(bus.adr, ROM + 4 >> 2)
        ctx.set(bench.reset, 0)
        assert await bench.data.access(ctx, ROM + 4) == (word_at(bench.contents, 4), False)
        assert bench.data.cycles == 2

    bench.run(data)


def test_contents_that_do_not_fit():
    with pytest.raises(ValueError, match="contents must fit"):
        BlockMemory(64, bytes(65), writable=False)
