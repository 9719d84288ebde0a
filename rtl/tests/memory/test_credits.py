"""Credits: order, cycles, and room for every item that was started."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.lib import data

from matloom_rtl.memory.credits import CreditQueue
from matloom_rtl.testing import simulate

ITEM = data.StructLayout({"number": 16, "there": 1, "more": 40})
PLACES = 16


def play(*, begins, takes, latency, cycles=400, seed=0, reset_at=None):
    """Start and take items at random; check each cycle; return the numbers taken by cycle."""
    dut = CreditQueue(ITEM, registered=("there", "number"))
    reset = Signal()
    generator = random.Random(seed)
    taken = []

    async def bench(ctx):
        number, used, under_way, held, freed = 0, 0, [None] * latency, [], [0, 0]
        for cycle in range(cycles):
            room = ctx.get(dut.room)
            assert room == (used < PLACES)
            shown = ctx.get(dut.o.payload)
            assert ctx.get(dut.o.valid) == shown.there == bool(held)
            if held:
                assert (shown.number, shown.more) == (held[0], held[0] * 7919)
            start = room and generator.random() < begins
            take = generator.random() < takes
            under_way.append(number if start else None)
            arriving = under_way.pop(0)
            ctx.set(dut.start, start)
            ctx.set(dut.w_en, arriving is not None)
            number += start
            item = arriving or 0
            ctx.set(
                dut.w_data,
                {"number": item, "there": arriving is not None, "more": item * 7919},
            )
            ctx.set(dut.o.ready, take)
            ctx.set(reset, cycle == reset_at)
            await ctx.tick()
            freed = [bool(held and take), freed[0]]
            used += start - freed[1]
            if freed[0]:
                taken.append(cycle)
                held.pop(0)
            if arriving is not None:
                held.append(arriving)
            if cycle == reset_at:
                used, under_way, held, freed = 0, [None] * latency, [], [0, 0]

    simulate(ResetInserter(reset)(dut), bench, cycles=cycles + 10)
    return taken


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("latency", [0, 4, 9])
@pytest.mark.parametrize(("begins", "takes"), [(1, 1), (1, 0.4), (0.4, 1), (0.6, 0.6)])
def test_items_in_order(seed, latency, begins, takes):
    assert len(play(begins=begins, takes=takes, latency=latency, seed=seed)) > 100


def test_one_item_a_cycle():
    """One item passes per cycle if the pipeline is three cycles shorter than the queue."""
    for latency in (0, 4, PLACES - 3):
        taken = play(begins=1, takes=1, latency=latency)
        assert taken == list(range(latency + 1, 400))
    assert len(play(begins=1, takes=1, latency=PLACES - 2)) < 399 - PLACES


def test_reset_midway(seed):
    assert len(play(begins=1, takes=0.5, latency=4, seed=seed, reset_at=150)) > 100
