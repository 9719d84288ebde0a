"""Lane: every rounding rule and shift, compared with the number rules."""

import random

import pytest

from matloom.arch.numerics import SUPPORTED_ROUNDINGS, add_bias, clamp, requantize
from matloom_rtl.post.lane import Lane
from matloom_rtl.testing import simulate

_CORNERS = (0, 1, -1, 2, -2, 127, -128, 2**30, -(2**30), 2**31 - 1, -(2**31), 2**20, 3 << 18)


def draw(generator):
    """Return value, bias, multiplier, shift: corner cases and random values."""
    return (
        generator.choice((*_CORNERS, generator.randint(-(2**31), 2**31 - 1))),
        generator.choice((0, 1, -1, 2**30, generator.randint(-(2**31), 2**31 - 1))),
        generator.choice((0, 1, 2**30, 2**31 - 1, generator.randint(2**30, 2**31 - 1))),
        generator.randint(-31, 30),
    )


def expected(item, rounding, pre_shift, zero, low, high):
    value, bias, multiplier, shift = item
    biased = add_bias(value, bias, rounding)
    result = requantize(biased, multiplier, shift, rounding, pre_shift)
    return clamp(result + zero, low, high)


def run(items, rounding, pre_shift, *, limits=(-128, 127), zero=5, bits=8, limited=1):
    """Return the results (low bits and sign if limited), and the cycles."""
    dut, results, cycles = Lane(bits), [], 0
    sign = 1 << (bits if limited else 32) - 1

    async def bench(ctx):
        nonlocal cycles
        ctx.set(dut.rounding, rounding)
        ctx.set(dut.pre_shift, pre_shift)
        for port, value in ((dut.zero, zero), (dut.low, limits[0]), (dut.high, limits[1])):
            ctx.set(port, value)
        ctx.set(dut.limits, limited)
        # Settings are constant for two cycles before.
        await ctx.tick().repeat(2)
        later = [0] * Lane.MULTIPLIER_DELAY
        for number in range(len(items) + Lane.LATENCY):
            value, bias, multiplier, shift = items[min(number, len(items) - 1)]
            for port, given in ((dut.value, value), (dut.bias, bias), (dut.shift, shift)):
                ctx.set(port, given)
            later.append(multiplier)
            ctx.set(dut.multiplier, later.pop(0))
            if number >= Lane.LATENCY:
                results.append(((ctx.get(dut.result) & 2 * sign - 1) ^ sign) - sign)
            await ctx.tick()
            cycles += 1

    simulate(dut, bench, cycles=len(items) + 100)
    return results, cycles


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("rounding", SUPPORTED_ROUNDINGS)
@pytest.mark.parametrize("pre_shift", [0, 1, 20, 31])
def test_values(seed, rounding, pre_shift):
    generator = random.Random(seed)
    items = [draw(generator) for _ in range(700)]
    items += [(value, 0, 2**30 + 12345, shift) for value in _CORNERS for shift in range(-31, 31, 3)]
    results, cycles = run(items, rounding, pre_shift)
    for item, result in zip(items, results, strict=True):
        assert result == expected(item, rounding, pre_shift, 5, -128, 127), item
    assert cycles == len(items) + Lane.LATENCY
    # Sums have neither zero point nor limits.
    results, _cycles = run(items, rounding, pre_shift, limited=0)
    for item, result in zip(items, results, strict=True):
        assert result == expected(item, rounding, pre_shift, 0, -(2**31), 2**31 - 1), item


def test_ties_and_clamps():
    """Halves of both signs are rounded as defined at every right shift, and clamped."""
    items = [
        (sign * (2 * k + 1) << 1, 0, 2**30, -right)
        for sign in (1, -1)
        for k in range(6)
        for right in range(8)
    ]
    for rounding in SUPPORTED_ROUNDINGS:
        results, _cycles = run(items, rounding, 0, limits=(-2, 3), zero=-1)
        for item, result in zip(items, results, strict=True):
            assert result == expected(item, rounding, 0, -1, -2, 3), (rounding, item)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("rounding", SUPPORTED_ROUNDINGS)
def test_words(seed, rounding):
    """A lane of 16 bits clamps to full and narrower 16-bit limits, and to 8-bit limits."""
    generator = random.Random(seed)
    items = [draw(generator) for _ in range(300)]
    items += [(value, 0, 2**30, shift) for value in _CORNERS for shift in (1, 0, -1, -14, -16)]
    for limits, zero in (((-32768, 32767), 0), ((0, 20007), 0), ((-301, 299), 77), ((-128, 5), -3)):
        results, _cycles = run(items, rounding, 0, limits=limits, zero=zero, bits=16)
        for item, result in zip(items, results, strict=True):
            assert result == expected(item, rounding, 0, zero, *limits), (limits, item)
