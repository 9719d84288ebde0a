"""Chunks, compared with Python: every start in a chunk, many lengths; cycles; stalls; a reset."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.sdram import load_sdram
from matloom_rtl.sdram.chunks import Chunks
from matloom_rtl.sdram.pins import ControllerPlan
from matloom_rtl.testing import simulate

PART = load_sdram("GW2AR-18")
PLAN = ControllerPlan(part=PART, timing=PART.timing(54_000_000), bus_bits=64, chunk_beats=8)
ROW_BEATS = PART.row_bytes // 8


def reference(address, beats, ident):
    """Return the expected chunks: row, bank, beat, beats, id, last."""
    place, chunks = address // 8, []
    while beats:
        size = min(beats, 8 - place % 8)
        rest, beat = divmod(place, ROW_BEATS)
        row, bank = divmod(rest, PART.banks)
        chunks.append((row % PART.rows, bank, beat, size, ident, size == beats))
        place, beats = place + size, beats - size
    return chunks


def run(bursts, stall=0.0, limit=20000):
    """Pass bursts through; compare them, and return the cycles."""
    dut, chance, found = Chunks(PLAN, write=True), random.Random(3), []
    expected = [chunk for burst in bursts for chunk in reference(*burst)]

    async def send(ctx):
        for address, beats, ident in bursts:
            while chance.random() < stall:
                await ctx.tick()
            ctx.set(dut.i.payload, {"id": ident, "addr": address, "len": beats - 1})
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def receive(ctx):
        while len(found) < len(expected):
            ready = chance.random() >= stall
            ctx.set(dut.o.ready, ready)
            _clk, _rst, valid, chunk = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                place = chunk.place
                assert chunk.write == 1
                found.append(
                    (place.row, place.bank, place.beat, chunk.count + 1, chunk.id, chunk.last)
                )

    cycles = simulate(dut, send, receive, cycles=limit)
    assert found == expected
    return cycles


@pytest.mark.parametrize("stall", [0, 0.5])
def test_every_start_and_many_lengths(stall):
    bursts = [
        (1024 * start + 8 * start, beats, beats & 1)
        for start in range(8)
        for beats in (1, 2, 7, 8, 9, 15, 16, 17, 64)
    ]
    run(bursts, stall)


def test_random_places_of_the_whole_address_space(seed):
    chance = random.Random(seed)
    bursts = []
    for _ in range(100):
        beats = chance.randrange(1, 257)
        start = chance.randrange(0, 512 - beats + 1)
        bursts.append((chance.randrange(1 << 20) * 4096 + 8 * start, beats, chance.randrange(2)))
    run(bursts)


def test_cycles():
    """A burst of one chunk takes 3 cycles, of n chunks 2 * n + 1."""
    assert run([(64 * index, 8, 0) for index in range(50)]) <= 3 * 50 + 2
    assert run([(2048 * index, 256, 0) for index in range(10)]) <= (2 * 32 + 1) * 10 + 2


def test_a_reset_forgets_the_burst():
    dut = Chunks(PLAN, write=False)
    reset = Signal()

    async def bench(ctx):
        ctx.set(dut.i.payload, {"addr": 0, "len": 255})
        ctx.set(dut.i.valid, 1)
        await ctx.tick().repeat(4)
        ctx.set(dut.i.valid, 0)
        assert ctx.get(dut.o.valid)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        for _ in range(10):
            assert not ctx.get(dut.o.valid)
            await ctx.tick()

    simulate(ResetInserter(reset)(dut), bench, cycles=50)
