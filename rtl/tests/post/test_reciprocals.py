"""Reciprocals of batches of rows, by a lane's products: sums, reciprocals, cycles, reset."""

import random

import pytest

from matloom.arch.numerics import saturating_rounding_doubling_high_mul, wrap32
from matloom.arch.softmax import BATCH, reciprocal, to_sum_format
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.reciprocals import Reciprocals
from matloom_rtl.testing import cached_unit, simulate, with_reset

ONE = 2**31 - 1


def run(batches, ways=1, *, gaps=0.0, reset_at=None, seed=0):
    """Return scale, shift and whether results vanish for each row; check each batch's cycles."""
    dut, chance = cached_unit(Reciprocals, ways), random.Random(seed)
    wrapped, reset = with_reset(dut)
    operands = [0] * Lane.MULTIPLIER_DELAY
    products = [0] * (Lane.LATENCY - Lane.MULTIPLIER_DELAY)
    found = []

    async def lane(ctx):
        """Multiply as a lane does: the multiplier is due some cycles after the operand."""
        while True:
            left = max(0, ctx.get(dut.shift))
            operands.append(wrap32(ctx.get(dut.operand) << left))
            multiplier = ctx.get(dut.multiplier)
            products.append(saturating_rounding_doubling_high_mul(operands.pop(0), multiplier))
            ctx.set(dut.product, products.pop(0))
            await ctx.tick()

    async def add(ctx, rows):
        for row, exponentials in enumerate(rows):
            for number in range(0, len(exponentials), ways):
                while chance.random() < gaps:
                    await ctx.tick()
                some = exponentials[number : number + ways]
                for way, (exponential, counts) in enumerate([*some, *[(5, 0)] * ways][:ways]):
                    ctx.set(dut.exponentials[way], exponential)
                    ctx.set(dut.adds[way], counts)
                ctx.set(dut.row, row)
                ctx.set(dut.sums, 1)
                ctx.set(dut.first, number == 0)
                ends = number + ways >= len(exponentials)
                ctx.set(dut.last, ends and row == len(rows) - 1)
                await ctx.tick()
                for name in ("sums", "first", "last"):
                    ctx.set(getattr(dut, name), 0)

    async def bench(ctx):
        if reset_at is not None:
            await add(ctx, batches[-1])
            await ctx.tick().repeat(reset_at)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
        for rows in batches:
            await add(ctx, rows)
            cycles = 1
            while not ctx.get(dut.done):
                await ctx.tick()
                cycles += 1
            assert cycles == Reciprocals.cycles(len(rows), ways)
            await ctx.tick().repeat(Reciprocals.READY)
            for row in range(len(rows)):
                ctx.set(dut.row, row)
                shift, vanishes = ctx.get(dut.shift), ctx.get(dut.vanishes)
                await ctx.tick().repeat(Lane.MULTIPLIER_DELAY)
                found.append((ctx.get(dut.multiplier), shift, vanishes))

    total = sum(len(row) for rows in batches for row in rows)
    simulate(
        wrapped,
        bench,
        background=[lane],
        cycles=round((len(batches) + 1) * 300 + 2 * total / (1 - gaps)),
    )
    return found


def check(batches, ways=1, **options):
    sums = [row for rows in batches for row in rows]
    for exponentials, (scale, shift, vanishes) in zip(
        sums, run(batches, ways, **options), strict=True
    ):
        total = sum(to_sum_format(each) for each, counts in exponentials if counts) % 2**32
        wanted, exponent = reciprocal(total)
        right = exponent + 23
        assert scale == wanted
        assert vanishes == (right > 31)
        assert vanishes or shift == -right


def draw(generator, count):
    """Return exponentials, and which count: the first does, and one is that of 0."""
    found = [(generator.randrange(2**31) >> generator.randrange(31), 1) for _ in range(count)]
    found = [(value, int(generator.randrange(4) > 0)) for value, _counts in found]
    return [(ONE, 1), *found]


@pytest.mark.parametrize(("ways", "gaps"), [(1, 0.0), (2, 0.5), (5, 0.0)])
def test_batches_of_sums(seed, ways, gaps):
    generator = random.Random(seed)
    sizes = [BATCH, 1, 2, generator.randint(3, BATCH)]
    batches = [[draw(generator, generator.choice((0, 1, 5, 20))) for _ in range(n)] for n in sizes]
    check([*batches, [[(ONE, 1)] * 4, [(ONE, 1)] * 700]], ways, gaps=gaps, seed=seed)


def test_sums_that_no_row_has(seed):
    """Tiny sums, and an odd one of 32 bits, give the defined results."""
    generator = random.Random(seed)
    odd = [(ONE, 1)] * 4200 + [(4096, 1)]
    tiny = [[(0, 1)], [(5000, 1), (9, 1)], [(generator.randrange(2**30), 1)] * 3]
    total = sum(to_sum_format(each) for each, _counts in odd)
    assert total % 2
    assert 2**31 < total < 2**32
    check([tiny, [odd]], 15)


@pytest.mark.parametrize("reset_at", [1, 5, 20, 60, 111, 125])
def test_reset_midway(seed, reset_at):
    generator = random.Random(seed)
    check([[draw(generator, 3) for _ in range(2)] for _ in range(2)], reset_at=reset_at)
