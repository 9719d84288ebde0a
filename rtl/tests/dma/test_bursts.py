"""Bursts of rows at every alignment: coverage of the bytes, AXI rules, a burst per cycle."""

import random
from itertools import pairwise

import pytest

from matloom.arch.config import Config
from matloom_rtl.dma.bursts import Bursts
from matloom_rtl.testing import simulate


def config(bus_bytes, burst_beats):
    """Return a configuration with this bus width, whose addresses use every bit."""
    return Config(
        **{"bus_bits": 8 * bus_bytes, "burst_beats": burst_beats},
        **{"spad_bytes": 2**24, "spad_banks": 16, "timestamps": 256},
    )


def run(dut, rows, *, stall=0.0, seed=1, spread=0):
    bursts = []
    chance = random.Random(seed)

    async def feed(ctx):
        for address, size in rows:
            while chance.random() < stall:
                await ctx.tick()
            body = {"address": address, "spad": address % 2**20 + 77, "bytes": size, "last": 1}
            body["spread"] = spread
            ctx.set(dut.i.payload, body)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def collect(ctx):
        ends = 0
        while ends < len(rows):
            ready = chance.random() >= stall
            ctx.set(dut.o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                bursts.append(payload)
                ends += payload.last

    cycles = simulate(dut, feed, collect, cycles=20000)
    return bursts, cycles


def check(rows, bursts, bus_bytes, burst_beats):
    left = list(bursts)
    for address, size in rows:
        covered, end = [], False
        while not end:
            burst = left.pop(0)
            end = burst.last
            assert burst.address % bus_bytes == 0
            assert burst.len < burst_beats
            beats = burst.len + 1
            assert burst.address // 4096 == (burst.address + beats * bus_bytes - 1) // 4096
            assert (burst.spad - burst.address) % 2**24 == (address % 2**20 + 77 - address) % 2**24
            stop = burst.address + (beats - 1) * bus_bytes + burst.final + 1
            covered.append((burst.address + burst.first, stop))
        assert covered[0][0] == address
        assert covered[-1][1] == address + size
        assert all(a[1] == b[0] for a, b in pairwise(covered))
    assert not left


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("bus_bytes", "burst_beats"), [(4, 1), (4, 16), (8, 32), (8, 256), (16, 256), (32, 128)]
)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_rows_of_every_alignment(bus_bytes, burst_beats, stall):
    chance = random.Random(bus_bytes * burst_beats)
    rows = [
        (chance.randrange(2**31), chance.choice((1, 2, 9, bus_bytes, chance.randrange(1, 900))))
        for _ in range(40)
    ]
    rows += [(4096 * 5 - 3, 7), (4096 * 9 - bus_bytes, bus_bytes), (2**31 - 1, 4098)]
    dut = Bursts(config(bus_bytes, burst_beats))
    bursts, _ = run(dut, rows, stall=stall)
    check(rows, bursts, bus_bytes, burst_beats)


@pytest.mark.parametrize("spread", [0, 1, 2, 3])
def test_rows_begin_where_the_first_beat_of_a_spread_would(spread):
    rows = [(0x1000 + 33 * index, 1 + 40 * index) for index in range(20)]
    bursts, _ = run(Bursts(config(8, 4)), rows, spread=spread)
    assert all(burst.spread == spread for burst in bursts)
    begins = [burst for burst in bursts if burst.begin]
    assert [burst.spad for burst in begins] == [
        (address % 2**20 + 77 - (address % 8 << spread)) % 2**24 for address, _ in rows
    ]
    firsts = [0, *(index + 1 for index, burst in enumerate(bursts[:-1]) if burst.last)]
    assert [index for index, burst in enumerate(bursts) if burst.begin] == firsts


@pytest.mark.slow
def test_a_burst_a_cycle_and_a_cycle_between_rows():
    rows = [(0x1000, 8192), *((0x9000 + 16 * index, 9) for index in range(30))]
    bursts, cycles = run(Bursts(config(8, 32)), rows)
    assert len(bursts) == 32 + 30
    assert cycles == len(bursts) + len(rows)


def split(row, bus_bytes, burst_beats):
    """Split a row into bursts: each ends with its row, or before a multiple of the longest."""
    first_beat = row["address"] // bus_bytes
    last_beat = (row["address"] + row["bytes"] - 1) // bus_bytes
    bursts, beats = [], []
    for beat in range(first_beat, last_beat + 1):
        beats.append(beat)
        if beat == last_beat or (beat + 1) % burst_beats == 0:
            bursts.append(beats)
            beats = []
    offset = row["address"] % bus_bytes
    start = row["spad"] - (offset << row["spread"])
    return [
        {
            "address": beats[0] * bus_bytes % 2**32,
            "len": len(beats) - 1,
            # Of a spread row only the first burst has an address that says something.
            "spad": (start + (beats[0] - first_beat) * bus_bytes) % 2**24,
            "first": offset if number == 0 else 0,
            "final": (row["address"] + row["bytes"] - 1) % bus_bytes
            if number == len(bursts) - 1
            else bus_bytes - 1,
            "begin": int(number == 0),
            "last": int(row["last"] and number == len(bursts) - 1),
            **{
                name: row[name]
                for name in ("timestamp", "constant", "fill", "fill_value", "spread")
            },
        }
        for number, beats in enumerate(bursts)
    ]


@pytest.mark.parametrize(("bus_bytes", "burst_beats"), [(4, 16), (8, 32), (32, 16), (16, 256)])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_every_field_of_every_burst(seed, bus_bytes, burst_beats, stall):
    """Rows that end an instruction and others, with all their attributes."""
    dut, chance, seen = (
        Bursts(config(bus_bytes, burst_beats)),
        random.Random(seed),
        [],
    )
    longest = 3 * bus_bytes * burst_beats
    rows = [
        {
            "address": chance.choice((chance.randrange(2**32 - longest), 4096 - bus_bytes + 1, 0)),
            "spad": chance.randrange(2**24),
            "bytes": chance.choice((1, bus_bytes, chance.randrange(1, longest))),
            "last": chance.randrange(2),
            "timestamp": chance.randrange(256),
            "constant": chance.randrange(2),
            "fill": chance.randrange(2),
            "fill_value": chance.randrange(256),
            "spread": chance.randrange(4),
        }
        for _number in range(25)
    ]
    rows += [rows[0] | {"address": 2**32 - longest, "bytes": longest}]
    wanted = [burst for row in rows for burst in split(row, bus_bytes, burst_beats)]

    async def feed(ctx):
        for row in rows:
            ctx.set(dut.i.payload, row)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)
            # What is offered while it is not valid is nothing.
            ctx.set(dut.i.payload, dict.fromkeys(row, 1))
            while chance.random() < stall:
                await ctx.tick()

    async def collect(ctx):
        while len(seen) < len(wanted):
            ready = chance.random() >= stall
            ctx.set(dut.o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                seen.append({name: payload[name] for name in wanted[0]})

    cycles = simulate(dut, feed, collect, cycles=2000)
    assert seen == wanted
    if not stall:
        # A burst a cycle, and one between rows.
        assert cycles == len(wanted) + len(rows)
