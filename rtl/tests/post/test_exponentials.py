"""Exponentials: filled row by row, read in any order."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from matloom.arch.config import Config
from matloom_rtl.post.exponentials import Exponentials
from matloom_rtl.testing import simulate

CONFIGS = {
    "4_by_2": Config(rows=4, columns=4, lanes=2, acc_bytes=1024, softmax=1),
    "12_by_3": Config(rows=12, columns=12, lanes=3, acc_bytes=768, softmax=3),
    "16_by_16": Config(softmax=1),
}


async def begin(ctx, dut):
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)


async def fill(ctx, dut, config, contents):
    """Write bytes from the current row on, an entry a cycle."""
    size = config.table_row_bytes
    for first in range(0, len(contents), size):
        assert ctx.get(dut.rows.ready)
        ctx.set(dut.rows.payload, int.from_bytes(contents[first : first + size], "little"))
        ctx.set(dut.rows.valid, 1)
        await ctx.tick()
        ctx.set(dut.rows.valid, 0)
        cycles = 0
        while not ctx.get(dut.rows.ready):
            await ctx.tick()
            cycles += 1
        assert cycles == size // 4


async def check(ctx, dut, contents, generator):
    for first in [0, 255, *(generator.randrange(256) for _ in range(30))]:
        indices = [first, *(generator.randrange(256) for _ in range(len(dut.index) - 1))]
        for way, index in enumerate(indices):
            ctx.set(dut.index[way], index)
        await ctx.tick()
        for way, index in enumerate(indices):
            word = int.from_bytes(contents[4 * index : 4 * index + 4], "little")
            assert ctx.get(dut.value[way]) == word % 2**31


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", CONFIGS)
def test_fills_begin_at_the_first_entry(seed, name):
    config, generator = CONFIGS[name], random.Random(seed)
    dut, whole, part = Exponentials(config), generator.randbytes(1024), generator.randbytes(96)

    async def bench(ctx):
        for contents in (whole, part, part[:48]):
            await begin(ctx, dut)
            await fill(ctx, dut, config, contents)
        await check(ctx, dut, part + whole[96:], generator)

    # The last fill repeats the first entries.
    simulate(dut, bench, cycles=2000)


def test_a_reset_keeps_entries_and_restarts_the_rows(seed):
    config, generator = CONFIGS["4_by_2"], random.Random(seed)
    dut, contents = Exponentials(config), generator.randbytes(1024)
    reset = Signal()

    async def bench(ctx):
        await fill(ctx, dut, config, contents)
        ctx.set(dut.rows.payload, 0)
        ctx.set(dut.rows.valid, 1)
        await ctx.tick()
        ctx.set(dut.rows.valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        # The row that the reset stopped may be there.
        await fill(ctx, dut, config, contents[:8])
        await check(ctx, dut, contents, generator)

    simulate(ResetInserter(reset)(dut), bench, cycles=2000)
