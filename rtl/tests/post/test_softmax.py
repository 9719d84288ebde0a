"""Softmax with a lane, compared with its definition: results, cycles, stalls, reset."""

import random

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module

from matloom.arch.config import Config
from matloom.arch.numerics import Rounding
from matloom.arch.softmax import BATCH
from matloom.arch.softmax_cycles import PASSES, passes_cycles
from matloom.device.model.softmax import softmax_rows
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.softmax import Softmax
from matloom_rtl.testing import cached_unit, simulate, with_reset

CONFIGS = {
    "4_by_2": Config(rows=4, columns=4, lanes=2, acc_bytes=1024, softmax=1),
    "12_by_1": Config(rows=12, columns=12, lanes=1, acc_bytes=768, softmax=1),
    "8_by_8": Config(rows=8, columns=8, lanes=8, acc_bytes=2048, softmax=8),
    "12_by_6": Config(rows=12, columns=12, lanes=6, acc_bytes=768, softmax=3),
}


class WithLane(Elaboratable):
    """The unit, and the lanes that it borrows."""

    def __init__(self, config):
        self.unit, self.lanes = Softmax(config), [Lane() for _ in range(config.softmax)]

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = self.unit
        for way, lane in enumerate(self.lanes):
            m.submodules[f"lane_{way}"] = lane
            m.d.comb += [
                lane.value.eq(self.unit.values[way]),
                lane.multiplier.eq(self.unit.multiplier),
                lane.shift.eq(self.unit.shift),
                lane.rounding.eq(Rounding.DOUBLE),
                self.unit.products[way].eq(lane.result),
            ]
        return m


def vectors(rows, blocks):
    """Yield row and block of each vector, in batches, and whether it ends a pass over one."""
    for first in range(0, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        for _number in range(PASSES):
            for at, row in enumerate(batch):
                for block in range(blocks):
                    yield row, block, at == len(batch) - 1 and block == blocks - 1


def run(config, table, rows, *, scarce=0.0, full=0.0, reset_at=None, seed=0):
    """Fill the table and compute rows of signed bytes; return results and the last one's cycle."""
    both = cached_unit(WithLane, config)
    wrapped, reset = with_reset(both)
    dut, chance, columns = both.unit, random.Random(seed), config.columns
    size, found = len(rows[0]), []
    blocks = -(-size // columns)
    state = {"live": False, "cycle": 0, "end": 0}
    wanted = blocks * len(rows) * (columns // config.lanes)

    async def begin(ctx):
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)

    async def fill(ctx):
        await begin(ctx)
        for first in range(0, 1024, config.table_row_bytes):
            row = table[first : first + config.table_row_bytes].tobytes()
            ctx.set(dut.rows.payload, int.from_bytes(row, "little"))
            ctx.set(dut.rows.valid, 1)
            await ctx.tick().until(dut.rows.ready)
        ctx.set(dut.rows.valid, 0)
        await ctx.tick().repeat(config.table_row_bytes // 4 + 1)

    async def feed(ctx):
        ctx.set(dut.command.oc_blocks, blocks)
        ctx.set(dut.command.tail, (size - 1) % columns + 1)
        await fill(ctx)
        await begin(ctx)
        ctx.set(dut.active, 1)
        if reset_at is not None:
            ctx.set(dut.place, 1)
            ctx.set(dut.valid, 1)
            await ctx.tick().repeat(reset_at)
            ctx.set(dut.valid, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            await begin(ctx)
        # `collect` counts the tick before the first element, too.
        state.update(live=True, cycle=-1)
        for row, block, ends in vectors(rows, blocks):
            part = row[block * columns : (block + 1) * columns]
            padded = [*part, *(chance.randrange(-128, 128) for _ in range(columns - len(part)))]
            ctx.set(dut.valid, 0)
            while chance.random() < scarce:
                await ctx.tick()
            for index, byte in enumerate(padded):
                ctx.set(dut.bytes[index], byte & 255)
            ctx.set(dut.ends, ends)
            ctx.set(dut.valid, 1)
            await ctx.tick().until(dut.taken)
        ctx.set(dut.valid, 0)
        # Further vectors are not those of a SOFTMAX.
        ctx.set(dut.active, 0)

    async def collect(ctx):
        while len(found) < wanted:
            ctx.set(dut.place, chance.random() >= full)
            emerging = ctx.get(dut.emerging) and state["live"]
            await ctx.tick()
            state["cycle"] += 1
            if emerging:
                found.append([ctx.get(dut.results[lane]) for lane in range(config.lanes)])
                state["end"] = state["cycle"]

    simulate(wrapped, feed, collect, cycles=80_000)
    flat = [byte for beat in found for byte in beat]
    each = blocks * columns
    return [flat[at * each : at * each + size] for at in range(len(rows))], state["end"]


def check(config, rows, seed, *, legal=True, **options):
    noise = np.random.default_rng(seed)
    exponentials = noise.integers(0, 2**32, 256)
    if legal:
        exponentials = np.sort(noise.integers(0, 2**31, 256) >> noise.integers(0, 31, 256))[::-1]
        exponentials[0] = 2**31 - 1
    table = exponentials.astype("<u4").view(np.uint8)
    found, cycles = run(config, table, rows, seed=seed, **options)
    given = np.array(rows, np.int64)[:, None, :][None]
    expected = softmax_rows(given, np.ones(given.shape, bool), table)
    assert found == expected[0, :, 0].tolist()
    return cycles


def draw(generator, count, size):
    near = generator.choice((5, 40, 128))
    return [[generator.randrange(-near, near) for _ in range(size)] for _ in range(count)]


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("count", "size"), [(3, 10), (1, 1), (19, 24), (1, 70)])
def test_rows_take_the_cycles_that_are_predicted(seed, name, count, size):
    """Three passes over each batch, and pauses; the next batch follows at once."""
    config = CONFIGS[name]
    cycles = check(config, draw(random.Random(seed), count, size), seed)
    predicted = passes_cycles(count, -(-size // config.columns), config)
    assert cycles == predicted + Softmax.LATENCY
    assert PASSES == Softmax.PASSES


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("scarce", "full"), [(0.7, 0.0), (0.0, 0.6), (0.5, 0.5)])
def test_stalls(seed, name, scarce, full):
    rows = draw(random.Random(seed), 18, 17)
    check(CONFIGS[name], rows, seed, scarce=scarce, full=full)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_any_table(seed, name):
    """Results are defined for any contents of the table, not only for exponentials."""
    check(CONFIGS[name], draw(random.Random(seed), 3, 9), seed, legal=False)


@pytest.mark.parametrize("size", [1, pytest.param(600, marks=pytest.mark.slow)])
def test_equal_elements(size):
    """The SOFTMAX of a single element is 1; of many equal ones, each result rounds to 0."""
    assert check(CONFIGS["4_by_2"], [[-128] * size, [127] * size], 1)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("reset_at", [1, 9, 30, 100, 140, 160])
@pytest.mark.parametrize("name", ["4_by_2", "8_by_8"])
def test_reset_midway(seed, name, reset_at):
    check(CONFIGS[name], draw(random.Random(seed), 2, 10), seed, reset_at=reset_at)
