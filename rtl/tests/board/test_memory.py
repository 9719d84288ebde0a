# amaranth: UnusedElaboratable=no
"""Block RAM on AXI: data under stalls, errors outside, throughput, order, resets."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom_rtl.board.memory import BurstMemory
from matloom_rtl.testing import simulate

BASE, WORDS, BANKS, WIDTH = 0x8000_0000, 64, 3, 4
SIZE = WORDS * BANKS * WIDTH


class Bench:
    """Bench with a bus initiator that tracks the expected contents of the memory."""

    def __init__(self, *, stall=0.0, seed=0, banks=BANKS, bits=8 * WIDTH):
        self.width = bits // 8
        self.size = WORDS * banks * self.width
        self.dut = BurstMemory(bus_bits=bits, base=BASE, size=self.size, bank_words=WORDS)
        self.random, self.stall = random.Random(seed), stall
        self.contents = bytearray(self.size)
        self.reset = Signal()
        self.cycle = 0

    async def pause(self, ctx):
        while self.random.random() < self.stall:
            await ctx.tick()

    async def offer(self, ctx, channel, payload):
        await self.pause(ctx)
        ctx.set(channel.payload, payload)
        ctx.set(channel.valid, 1)
        await ctx.tick().until(channel.ready)
        ctx.set(channel.valid, 0)

    async def take(self, ctx, channel):
        await self.pause(ctx)
        ctx.set(channel.ready, 1)
        (payload,) = await ctx.tick().sample(channel.payload).until(channel.valid)
        ctx.set(channel.ready, 0)
        return payload

    async def write(self, ctx, place, words, id_=0):
        """Write words, each a pair of data and strobes; return the response."""
        bus = self.dut.axi_write
        await self.offer(ctx, bus.aw, {"id": id_, "addr": BASE + place, "len": len(words) - 1})
        for index, (data, strb) in enumerate(words):
            last = index == len(words) - 1
            await self.offer(ctx, bus.w, {"data": data, "strb": strb, "last": last})
            start = place + index * self.width
            for byte in range(self.width):
                if strb >> byte & 1 and 0 <= place < self.size:
                    self.contents[start + byte] = data >> 8 * byte & 255
        answer = await self.take(ctx, bus.b)
        assert answer.id == id_
        return answer.resp

    async def read(self, ctx, place, beats, id_=0):
        bus = self.dut.axi_read
        await self.offer(ctx, bus.ar, {"id": id_, "addr": BASE + place, "len": beats - 1})
        return [await self.take(ctx, bus.r) for _ in range(beats)]

    def word(self, place):
        return int.from_bytes(self.contents[place : place + self.width], "little")

    def check(self, place, beats, id_=0):
        for index, beat in enumerate(beats):
            assert beat.data == self.word(place + index * self.width)
            assert (beat.id, beat.resp, beat.last) == (id_, 0, index == len(beats) - 1)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize(("banks", "bits"), [(1, 32), (3, 32), (2, 64)])
def test_random_bursts(stall, banks, bits):
    bench = Bench(stall=stall, seed=banks, banks=banks, bits=bits)
    draw, width = bench.random, bits // 8

    async def run(ctx):
        for start in range(0, bench.size, 16 * width):
            words = [(draw.getrandbits(bits), (1 << width) - 1) for _ in range(16)]
            assert await bench.write(ctx, start, words) == 0
        for _ in range(60):
            beats = draw.choice([1, 2, 5, 16, 33])
            place = width * draw.randrange(bench.size // width - beats + 1)
            id_ = draw.randrange(2)
            if draw.random() < 0.5:
                words = [(draw.getrandbits(bits), draw.getrandbits(width)) for _ in range(beats)]
                assert await bench.write(ctx, place, words, id_) == 0
            # What was answered is seen at once.
            bench.check(place, await bench.read(ctx, place, beats, id_), id_)

    simulate(bench.dut, run, cycles=40_000)


@pytest.mark.parametrize("place", [-4, SIZE, SIZE + 64 * WIDTH, 0x1000_0000])
def test_outside(place):
    bench = Bench()

    async def run(ctx):
        for start in range(0, SIZE, 16 * WIDTH):
            await bench.write(ctx, start, [(start + k, 15) for k in range(16)])
        assert await bench.write(ctx, place, [(1, 15), (2, 15)]) == 3
        assert [beat.resp for beat in await bench.read(ctx, place, 2)] == [3, 3]
        for start in range(0, SIZE, 16 * WIDTH):
            bench.check(start, await bench.read(ctx, start, 16))

    simulate(bench.dut, run, cycles=2_000)


def test_reads_return_a_beat_per_cycle():
    bench, bursts, arrivals = Bench(), 6, []
    bus = bench.dut.axi_read

    async def ask(ctx):
        for index in range(bursts):
            await bench.offer(ctx, bus.ar, {"addr": BASE + 64 * index, "len": 15})

    async def answer(ctx):
        ctx.set(bus.r.ready, 1)
        cycle = 0
        while len(arrivals) < 16 * bursts:
            _, _, valid = await ctx.tick().sample(bus.r.valid)
            if valid:
                arrivals.append(cycle)
            cycle += 1

    simulate(bench.dut, ask, answer, cycles=200)
    # The address is taken in cycle 0.
    assert arrivals == list(range(7, 7 + 16 * bursts))


def test_writes_take_two_cycles_more_a_burst():
    bench, bursts, answers = Bench(), 6, []
    bus = bench.dut.axi_write

    async def addresses(ctx):
        for index in range(bursts):
            await bench.offer(ctx, bus.aw, {"addr": BASE + 64 * index, "len": 15})

    async def beats(ctx):
        for index in range(16 * bursts):
            await bench.offer(ctx, bus.w, {"data": index, "strb": 15, "last": index % 16 == 15})

    async def answer(ctx):
        ctx.set(bus.b.ready, 1)
        cycle = 0
        while len(answers) < bursts:
            _, _, valid = await ctx.tick().sample(bus.b.valid)
            if valid:
                answers.append(cycle)
            cycle += 1

    simulate(bench.dut, addresses, beats, answer, cycles=200)
    assert answers == [17 + 18 * index for index in range(bursts)]


def test_a_reset_forgets_bursts_and_keeps_words():
    bench = Bench()
    dut = ResetInserter(bench.reset)(bench.dut)
    write, read = bench.dut.axi_write, bench.dut.axi_read

    async def run(ctx):
        await bench.write(ctx, 0, [(7 * k, 15) for k in range(16)])
        await bench.offer(ctx, read.ar, {"addr": BASE, "len": 15})
        await bench.offer(ctx, write.aw, {"addr": BASE + 64, "len": 15})
        await bench.offer(ctx, write.w, {"data": 1, "strb": 15, "last": 0})
        bench.contents[64:68] = b"\1\0\0\0"
        ctx.set(bench.reset, 1)
        await ctx.tick()
        ctx.set(bench.reset, 0)
        for _ in range(20):
            _, _, beat, response = await ctx.tick().sample(read.r.valid, write.b.valid)
            assert not beat
            assert not response
        bench.check(0, await bench.read(ctx, 0, 16))
        assert await bench.write(ctx, 4, [(9, 15)]) == 0
        bench.check(0, await bench.read(ctx, 0, 17))

    simulate(dut, run, cycles=300)


@pytest.mark.parametrize(
    ("size", "base", "message"),
    [
        (100, BASE, "size must be a multiple of 256 bytes, not 100"),
        (0, BASE, "size must be a multiple of 256 bytes, not 0"),
        (512, 256, "base must be a multiple of 0x200, not 0x100"),
    ],
)
def test_rules(size, base, message):
    with pytest.raises(ValueError, match=message):
        BurstMemory(bus_bits=32, base=base, size=size, bank_words=64)


def test_banks_fit_the_size():
    for size, banks in ((1 << 18, 4), (1 << 16, 1), (13 << 12, 13), (1 << 12, 1)):
        assert BurstMemory(bus_bits=32, base=BASE, size=size).banks == banks
    with pytest.raises(ValueError, match="size must be a multiple of 2048 bytes, not 5000"):
        BurstMemory(bus_bits=32, base=BASE, size=5000)
