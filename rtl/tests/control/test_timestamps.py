"""Timestamps: simultaneous completions, the last one of a slot, clearing, the read port."""

import random

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import UNITS
from matloom_rtl.control.timestamps import Timestamps
from matloom_rtl.testing import simulate

CONFIG = PRESETS["nano"]


class Bench:
    def __init__(self, first_cycle=0):
        self.dut, self.cycle, self.expected = Timestamps(CONFIG), first_cycle, {}

    async def step(self, ctx, completions=(), start=0):
        """Complete (unit, mark) pairs in this cycle."""
        dut = self.dut
        ctx.set(dut.start, start)
        ctx.set(dut.cycle, self.cycle)
        ctx.set(dut.done, sum(1 << unit for unit, _mark in completions))
        for unit, timestamp in completions:
            ctx.set(dut.done_mark[unit], timestamp)
            if timestamp:
                self.expected[timestamp] = self.cycle
        await ctx.tick()
        self.cycle += 1

    async def check(self, ctx):
        for slot in range(1, CONFIG.timestamps):
            ctx.set(self.dut.slot, slot)
            await self.step(ctx)
            assert ctx.get(self.dut.stored) == self.expected.get(slot, 0), slot

    async def start(self, ctx):
        """Begin a run; when clearing begins, the cycle counter still has its old value."""
        self.expected = {}
        await self.step(ctx, start=1)
        await self.step(ctx)
        self.cycle = 0


def test_random_completions(seed):
    bench, chance = Bench(2**32 - 1), random.Random(seed)

    async def main(ctx):
        for _run in range(3):
            await bench.start(ctx)
            for _cycle in range(CONFIG.timestamps + 1):
                await bench.step(ctx)
            bench.cycle = 2**32 - 2000
            for _number in range(40):
                slots = chance.sample(range(CONFIG.timestamps), len(UNITS))
                at_once = chance.randrange(1, len(UNITS) + 1)
                units = chance.sample(range(len(UNITS)), at_once)
                await bench.step(ctx, list(zip(units, slots, strict=False)))
                for _cycle in range(len(UNITS)):
                    await bench.step(ctx)
            await bench.check(ctx)

    simulate(bench.dut, main, cycles=2000)


def test_completion_while_the_table_is_cleared():
    """Early completions wait for the clearing; each unit keeps its latest."""
    bench = Bench()

    async def main(ctx):
        await bench.start(ctx)
        await bench.step(ctx, [(0, 5), (1, 6), (2, 7), (3, 0)])
        for _cycle in range(CONFIG.timestamps + len(UNITS)):
            await bench.step(ctx)
        await bench.check(ctx)

    simulate(bench.dut, main, cycles=300)


def test_every_unit_a_completion_each_four_cycles():
    bench = Bench()

    async def main(ctx):
        await bench.start(ctx)
        for _cycle in range(CONFIG.timestamps):
            await bench.step(ctx)
        slots = iter(range(1, 61))
        for _round in range(15):
            await bench.step(ctx, [(unit, next(slots)) for unit in range(len(UNITS))])
            for _cycle in range(3):
                await bench.step(ctx)
        for _cycle in range(4):
            await bench.step(ctx)
        await bench.check(ctx)

    simulate(bench.dut, main, cycles=400)


@pytest.mark.parametrize("early", range(6))
def test_no_mark_of_the_last_run_survives_a_start(early):
    """All units complete instructions up to the cycle of the start."""
    bench = Bench()

    async def main(ctx):
        await bench.start(ctx)
        for _cycle in range(CONFIG.timestamps):
            await bench.step(ctx)
        await bench.step(ctx, [(0, 8), (1, 20), (2, 40), (3, 63)])
        for _cycle in range(early):
            await bench.step(ctx)
        await bench.start(ctx)
        for _cycle in range(CONFIG.timestamps):
            await bench.step(ctx)
        await bench.step(ctx, [(2, 1)])
        for _cycle in range(3):
            await bench.step(ctx)
        await bench.check(ctx)

    simulate(bench.dut, main, cycles=400)


def test_a_start_while_the_table_is_cleared_begins_again():
    bench = Bench()

    async def main(ctx):
        await bench.start(ctx)
        for _cycle in range(CONFIG.timestamps + 2):
            await bench.step(ctx)
        await bench.step(ctx, [(1, 3)])
        await bench.start(ctx)
        for _cycle in range(CONFIG.timestamps // 2):
            await bench.step(ctx)
        await bench.start(ctx)
        await bench.step(ctx, [(3, 2)])
        for _cycle in range(CONFIG.timestamps + 1):
            await bench.step(ctx)
        await bench.check(ctx)

    simulate(bench.dut, main, cycles=400)
