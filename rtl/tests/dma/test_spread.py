"""Spread rows, compared with a loop over bytes: spreads, widths, stalls, cycles, reset."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom_rtl.dma.spread import Spread
from matloom_rtl.testing import simulate

WIDTHS = [(4, 2), (8, 3), (16, 3), (32, 3)]


def make_config(width):
    return Config(bus_bits=8 * width, burst_beats=16, timestamps=256)


def rows_of(chance, width, last_spread, count):
    """Return `count` random rows: spread, address of the first beat's byte 0, first byte, bytes."""
    rows = []
    for _ in range(count):
        size = chance.choice((1, 2, width, chance.randrange(1, 5 * width)))
        spread = chance.randint(1, last_spread)
        rows.append((spread, chance.randrange(256, 2**16), chance.randrange(width), size))
    return rows


def beats_of(rows, width, values):
    """Return the fields of every beat, with bytes from an iterator."""
    beats = []
    for timestamp, (spread, address, first, size) in enumerate(rows):
        stop = first + size
        for begin in range(0, stop, width):
            inside = [first <= begin + index < stop for index in range(width)]
            beats.append(
                {
                    "address": address if begin == 0 else 0xDEAD,
                    "begin": begin == 0,
                    "spread": spread,
                    "data": int.from_bytes(bytes(next(values) for _ in range(width)), "little"),
                    "mask": sum(each << index for index, each in enumerate(inside)),
                    "top": min(stop - begin, width) - 1,
                    "last": stop <= begin + width,
                    "timestamp": timestamp % 256,
                }
            )
    return beats


def expected(rows, beats, width):
    """Return the bytes written: a list of (address, value) for each row."""
    left, written = list(beats), []
    for spread, address, first, size in rows:
        count = -(-(first + size) // width)
        row = b"".join(left.pop(0)["data"].to_bytes(width, "little") for _ in range(count))
        written.append(
            [(address + (index << spread), row[index]) for index in range(first, first + size)]
        )
    return written


def pieces_of(rows, width):
    """Return the writes of rows; none follow the last byte."""
    return sum(-(-(first + size) // (width >> spread)) for spread, _address, first, size in rows)


def drive(dut, beats, width, *, stall=0.0):
    """Return benches that feed and collect, and the list of writes of each row."""
    chance = random.Random(2)
    written = [[]]

    async def feed(ctx):
        for beat in beats:
            while chance.random() < stall:
                await ctx.tick()
            ctx.set(dut.i.payload, beat)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def collect(ctx):
        ends = sum(beat["last"] for beat in beats)
        while len(written) <= ends:
            ready = chance.random() >= stall
            ctx.set(dut.o.ready, ready)
            _, _, valid, piece = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                for index in range(width):
                    if piece.mask >> index & 1:
                        byte = piece.data >> 8 * index & 255
                        written[-1].append((piece.address + index, byte))
                if piece.last:
                    assert piece.timestamp == (len(written) - 1) % 256
                    written.append([])

    return feed, collect, written


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(("width", "last_spread"), WIDTHS)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_rows_of_every_kind(width, last_spread, stall):
    chance = random.Random(width)
    rows = rows_of(chance, width, last_spread, 60)
    beats = beats_of(rows, width, iter(chance.randbytes(60 * 7 * width)))
    dut = Spread(make_config(width))
    feed, collect, written = drive(dut, beats, width, stall=stall)
    cycles = simulate(dut, feed, collect, cycles=20000)
    assert written[:-1] == expected(rows, beats, width)
    if not stall:
        assert cycles == pieces_of(rows, width) + 1


@pytest.mark.parametrize("when", [1, 2, 5])
def test_reset_midway(when):
    rows = [(2, 512, 3, 13)]
    beats = beats_of(rows, 8, iter(range(16)))
    dut = Spread(make_config(8))
    reset = Signal()
    feed, collect, written = drive(dut, beats, 8)

    async def bench(ctx):
        ctx.set(dut.i.payload, {**beats[0], "address": 4000, "data": 0})
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(when)
        ctx.set(dut.i.valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        assert not ctx.get(dut.o.valid)
        await feed(ctx)
        await ctx.tick().repeat(10)

    async def late(ctx):
        await ctx.tick().repeat(when + 1)
        await collect(ctx)

    simulate(ResetInserter(reset)(dut), bench, late, cycles=100)
    assert written[:-1] == expected(rows, beats, 8)
