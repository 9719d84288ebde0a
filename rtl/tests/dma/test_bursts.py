"""Rows of every alignment, cut: coverage of the bytes, the AXI rules, a burst a cycle."""

import random
from itertools import pairwise

import pytest

from matloom_rtl.dma.bursts import Bursts
from matloom_rtl.testing import simulate


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
    dut = Bursts(bus_bytes=bus_bytes, burst_beats=burst_beats)
    bursts, _ = run(dut, rows, stall=stall)
    check(rows, bursts, bus_bytes, burst_beats)


@pytest.mark.parametrize("spread", [0, 1, 2, 3])
def test_rows_begin_where_the_first_beat_of_a_spread_would(spread):
    rows = [(0x1000 + 33 * index, 1 + 40 * index) for index in range(20)]
    bursts, _ = run(Bursts(bus_bytes=8, burst_beats=4), rows, spread=spread)
    assert all(burst.spread == spread for burst in bursts)
    begins = [burst for burst in bursts if burst.begin]
    assert [burst.spad for burst in begins] == [
        (address % 2**20 + 77 - (address % 8 << spread)) % 2**24 for address, _ in rows
    ]
    firsts = [0, *(index + 1 for index, burst in enumerate(bursts[:-1]) if burst.last)]
    assert [index for index, burst in enumerate(bursts) if burst.begin] == firsts


def test_a_burst_a_cycle_and_a_cycle_between_rows():
    rows = [(0x1000, 8192), *((0x9000 + 16 * index, 9) for index in range(30))]
    bursts, cycles = run(Bursts(bus_bytes=8, burst_beats=32), rows)
    assert len(bursts) == 32 + 30
    assert cycles == len(bursts) + len(rows)
