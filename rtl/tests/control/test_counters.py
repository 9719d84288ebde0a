"""Counters: each counts its own event, from start to the end of the run."""

import random

from matloom.arch.csr import COUNTERS, EXEC_CAUSES
from matloom_rtl.control.counters import Counters
from matloom_rtl.testing import simulate

#: The input behind each counter that is no cause.
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


def test_events_are_counted_while_running_and_cleared_by_start(seed):
    dut, chance = Counters(), random.Random(seed)
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
        found = ctx.get(dut.values)
        values = {name: found >> 32 * place & 2**32 - 1 for place, (name, _) in enumerate(COUNTERS)}
        assert values == expected

    async def main(ctx):
        for length in (50, 1, 200):
            expected = {name: 0 for name, _doc in COUNTERS}
            ctx.set(dut.start, 1)
            await events(ctx, expected, 0)
            ctx.set(dut.start, 0)
            ctx.set(dut.running, 1)
            for _cycle in range(length):
                await events(ctx, expected, 1)
            ctx.set(dut.running, 0)
            for _cycle in range(10):
                await events(ctx, expected, 0)
            assert expected["cycles"] == length
            await check(ctx, expected)

    simulate(dut, main, cycles=400)


def test_every_counter_has_a_source():
    assert {name for name, _doc in COUNTERS} == {"cycles", *INPUTS, *(n for n, _ in EXEC_CAUSES)}
