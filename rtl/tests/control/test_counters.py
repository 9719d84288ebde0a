"""Counters: each counts its own event, from start to the end of the run."""

import dataclasses
import random

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.csr import COUNTERS, EXEC_CAUSES
from matloom_rtl.control.counters import Counters
from matloom_rtl.testing import simulate

CONFIG = PRESETS["nano"]

#: The input of each counter that is no cause.
INPUTS = {
    "instructions": "dispatched",
    "load_busy": "load_busy",
    "post_busy": "post_busy",
    "store_busy": "store_busy",
    "read_bursts": "read_burst",
    "read_beats": "read_beat",
    "write_bursts": "write_burst",
    "write_beats": "write_beat",
}


async def values_of(ctx, dut):
    """Read every counter, in a different order than the scan."""
    values = {"cycles": ctx.get(dut.cycles)}
    for number, (name, _doc) in reversed(list(enumerate(COUNTERS))[1:]):
        ctx.set(dut.slot, number)
        waited = 0
        while not ctx.get(dut.shown):
            await ctx.tick()
            waited += 1
        assert waited <= 11
        values[name] = ctx.get(dut.value)
    return values


@pytest.mark.parametrize("counters", [0, 1])
def test_missing_registers_read_as_zero(counters):
    dut = Counters(dataclasses.replace(CONFIG, counters=counters, timestamps=0))

    async def main(ctx):
        ctx.set(dut.running, 1)
        ctx.set(dut.dispatched, 1)
        await ctx.tick().repeat(30)
        ctx.set(dut.running, 0)
        await ctx.tick().repeat(4)
        expected = dict.fromkeys((name for name, _doc in COUNTERS), 0)
        assert await values_of(ctx, dut) == expected | {"cycles": 30 * counters}

    simulate(dut, main, cycles=100)


def test_events_are_counted_while_running_and_cleared_by_start(seed):
    dut, chance = Counters(CONFIG), random.Random(seed)
    causes = [name for name, _doc in EXEC_CAUSES]

    async def events(ctx, expected, running):
        cause = chance.randrange(len(causes))
        ctx.set(dut.exec_cause, 1 << cause)
        expected["cycles"] += running
        expected[causes[cause]] += running
        for name, port in INPUTS.items():
            event = chance.randrange(2)
            ctx.set(getattr(dut, port), event)
            expected[name] += event & running
        await ctx.tick()

    async def check(ctx, expected):
        assert await values_of(ctx, dut) == expected

    async def main(ctx):
        for length in (50, 1, 200, 0, 19, 20, 21):
            expected = {name: 0 for name, _doc in COUNTERS}
            ctx.set(dut.start, 1)
            await events(ctx, expected, 0)
            ctx.set(dut.start, 0)
            ctx.set(dut.running, 1)
            for _cycle in range(length):
                await events(ctx, expected, 1)
            ctx.set(dut.running, 0)
            for _cycle in range(4):
                await events(ctx, expected, 0)
            assert expected["cycles"] == length
            await check(ctx, expected)

    simulate(dut, main, cycles=4000)


def test_every_counter_has_a_source():
    assert {name for name, _doc in COUNTERS} == {"cycles", *INPUTS, *(n for n, _ in EXEC_CAUSES)}
