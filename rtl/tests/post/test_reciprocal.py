"""Reciprocal: sums of exponentials and their reciprocals, with a lane's products; cycles, reset."""

import random

import pytest

from matloom.arch.numerics import saturating_rounding_doubling_high_mul
from matloom.arch.softmax import reciprocal, term
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.reciprocal import Reciprocal
from matloom_rtl.testing import kept, simulate, with_reset

ONE = 2**31 - 1


def run(sums, *, gaps=0.0, reset_at=None, seed=0):
    """Return scale, shift and whether results vanish for each sum, with the cycles it took."""
    dut, chance = kept(Reciprocal), random.Random(seed)
    wrapped, reset = with_reset(dut)
    operands = [0] * Lane.MULTIPLIER_DELAY
    products = [0] * (Lane.LATENCY - Lane.MULTIPLIER_DELAY)
    found = []

    async def lane(ctx):
        """Multiply as a lane does: the multiplier is due some cycles after the operand."""
        while True:
            operands.append(ctx.get(dut.operand))
            multiplier = ctx.get(dut.multiplier)
            products.append(saturating_rounding_doubling_high_mul(operands.pop(0), multiplier))
            ctx.set(dut.product, products.pop(0))
            await ctx.tick()

    async def add(ctx, exponentials):
        for number, (exponential, counts) in enumerate(exponentials):
            while chance.random() < gaps:
                await ctx.tick()
            ctx.set(dut.exponential, exponential)
            ctx.set(dut.adds, counts)
            ctx.set(dut.first, number == 0)
            ctx.set(dut.last, number == len(exponentials) - 1)
            await ctx.tick()
            for name in ("adds", "first", "last"):
                ctx.set(getattr(dut, name), 0)

    async def bench(ctx):
        if reset_at is not None:
            await add(ctx, sums[-1])
            await ctx.tick().repeat(reset_at)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
        for exponentials in sums:
            await add(ctx, exponentials)
            cycles = 1
            while not ctx.get(dut.done):
                await ctx.tick()
                cycles += 1
            await ctx.tick()
            names = ("multiplier", "shift", "vanishes")
            found.append((*(ctx.get(getattr(dut, name)) for name in names), cycles))

    simulate(wrapped, bench, background=[lane], cycles=400 * (len(sums) + 1))
    return found


def check(sums, **options):
    for exponentials, (scale, shift, vanishes, cycles) in zip(
        sums, run(sums, **options), strict=True
    ):
        total = sum(term(each) for each, counts in exponentials if counts) % 2**32
        wanted, exponent = reciprocal(total)
        right = exponent + 23
        assert scale == wanted
        assert vanishes == (right > 31)
        assert vanishes or shift == -right
        assert cycles == Reciprocal.CYCLES


def draw(generator, count):
    """Return exponentials, and which count: the first does, and one is that of 0."""
    found = [(generator.randrange(2**31) >> generator.randrange(31), 1) for _ in range(count)]
    found = [(value, generator.randrange(4) > 0) for value, _counts in found]
    return [(ONE, 1), *found]


@pytest.mark.parametrize("gaps", [0.0, 0.5])
def test_sums_of_exponentials(seed, gaps):
    generator = random.Random(seed)
    sums = [draw(generator, generator.choice((0, 1, 5, 40))) for _ in range(6)]
    check([*sums, [(ONE, 1)] * 4, [(ONE, 1)] * 700], gaps=gaps, seed=seed)


def test_sums_that_no_row_has(seed):
    generator = random.Random(seed)
    check([[(0, 1)], [(5000, 1), (9, 1)], [(generator.randrange(2**30), 1)] * 3])


@pytest.mark.parametrize("reset_at", [1, 5, 20, 60, 111])
def test_reset_midway(seed, reset_at):
    generator = random.Random(seed)
    check([draw(generator, 3) for _ in range(2)], reset_at=reset_at)
