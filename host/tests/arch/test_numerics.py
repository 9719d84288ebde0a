"""Number rules against a transcription of gemmlowp's definitions in exact integers."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from matloom.arch.numerics import (
    LARGEST_LIMBS,
    LIMBS,
    SUPPORTED_ROUNDINGS,
    Rounding,
    add_bias,
    clamp,
    from_limbs,
    high_nibble,
    larger,
    low_nibble,
    multiply_by_quantized_multiplier,
    pack_nibbles,
    quantize_multiplier,
    reciprocal,
    requantize,
    requantize_wide,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
    short_multiplier,
    wrap32,
)

LOW, HIGH = -(2**31), 2**31 - 1
CORNERS = (0, 1, -1, 2, -2, 3, -3, 2**30, -(2**30), 2**30 + 1, HIGH, HIGH - 1, LOW, LOW + 1)


def truncate(numerator, denominator):
    """Divide like C: towards zero."""
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def high_mul(a, b):
    """SaturatingRoundingDoublingHighMul as gemmlowp states it: nudge, then divide by 2**31."""
    if a == b == LOW:
        return HIGH
    product = a * b
    return truncate(product + (2**30 if product >= 0 else 1 - 2**30), 2**31)


def divide_by_pot(x, exponent):
    """RoundingDivideByPOT as gemmlowp states it: remainder above a threshold rounds up."""
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    return (x >> exponent) + ((x & mask) > threshold)


def numbers(seed, count):
    generator = random.Random(seed)
    return [*CORNERS, *(generator.randint(LOW, HIGH) for _ in range(count))]


def test_high_mul(seed):
    for a in numbers(seed, 300):
        for b in (0, 1, 2**30, 2**30 + 7, HIGH, *numbers(seed + 1, 5)):
            if b >= 0:
                assert saturating_rounding_doubling_high_mul(a, b) == high_mul(a, b), (a, b)


def test_divide_by_power_of_two(seed):
    for x in numbers(seed, 500):
        for exponent in range(32):
            assert rounding_divide_by_pot(x, exponent) == divide_by_pot(x, exponent), (x, exponent)


def test_multiply_by_quantized_multiplier(seed):
    for x in numbers(seed, 200):
        for shift in range(-31, 31):
            shifted = wrap32(x << max(shift, 0))
            wanted = divide_by_pot(high_mul(shifted, 2**30 + 98765), max(-shift, 0))
            assert multiply_by_quantized_multiplier(x, 2**30 + 98765, shift) == wanted


def test_single_rounding(seed):
    """Without overflow, the exact quotient is rounded half up."""
    generator = random.Random(seed)
    for _number in range(3000):
        x, multiplier = generator.randint(-(2**24), 2**24), generator.randint(2**30, HIGH)
        shift = generator.randint(-31, 0)
        exact = Fraction(x * multiplier, 2 ** (31 - shift))
        assert requantize(x, multiplier, shift, Rounding.SINGLE) == math.floor(
            exact + Fraction(1, 2)
        )


@pytest.mark.parametrize(
    ("reach", "counts"),
    [
        (128, (*range(1, 1025), 4096, 99999, 2**20 - 1)),
        (2**15, (*range(1, 513), 4096, 8191, 16383, 16385, 23169, 23170)),
    ],
    ids=["bytes", "words"],
)
def test_reciprocal_divides_exactly(reach, counts, seed):
    """TensorFlow Lite Micro's average: half the count added away from zero, then truncated."""
    generator = random.Random(seed)
    for count in counts:
        multiplier, shift = reciprocal(count)
        assert 0 < multiplier <= HIGH
        assert -31 <= shift <= 30
        half = count // 2
        least, most = -reach * count, (reach - 1) * count
        sums = {least, most, half, -half, count - half, half - count, 0, 1, -1}
        sums |= {generator.randint(least, most) for _ in range(20)}
        # Next to a multiple of the count a reciprocal that is too small or large would show.
        near = generator.randint(-reach, reach - 1) * count
        sums |= {near + half - 1, near + half, near - half, near - half - 1}
        for total in sums:
            wanted = truncate(total + (half if total > 0 else -half), count)
            biased = add_bias(total, half, Rounding.AVERAGE)
            found = requantize(biased, multiplier, shift, Rounding.AVERAGE)
            assert found == wanted, (total, count)


def test_average_cuts_towards_zero(seed):
    """Also if the left shift wraps, for the most negative number, and for small multipliers."""
    generator = random.Random(seed)
    values = [
        -(2**31),
        2**31 - 1,
        -1,
        0,
        1,
        *(generator.randint(-(2**31), HIGH) for _ in range(50)),
    ]
    for x in values:
        for shift in (-31, -7, 0, 1, 30):
            multiplier = generator.choice((1, 2**30, HIGH, generator.randint(0, HIGH)))
            wrapped = (x << max(shift, 0)) % 2**32
            exact = Fraction((wrapped - 2**32 * (wrapped >> 31)) * multiplier, 2**31)
            expected = math.trunc(exact / 2 ** max(-shift, 0))
            assert requantize(x, multiplier, shift, Rounding.AVERAGE) == expected


def test_reciprocal_limits():
    with pytest.raises(ValueError, match="must have 1 to"):
        reciprocal(0)


def test_quantize_multiplier(seed):
    generator = random.Random(seed)
    for _number in range(2000):
        real = (1 + generator.random()) * 2.0 ** generator.randint(-30, 20)
        multiplier, shift = quantize_multiplier(real)
        assert 2**30 <= multiplier <= HIGH
        nearest = math.floor(Fraction(real) * 2**31 / Fraction(2) ** shift + Fraction(1, 2))
        assert multiplier == nearest, real
    assert quantize_multiplier(0.0) == (0, 0)
    assert quantize_multiplier(2.0**-40) == (0, 0)
    assert quantize_multiplier(1 - 2.0**-40) == (2**30, 1)


@pytest.mark.parametrize("real", [2.0**30, 1e300, math.inf, -math.inf, math.nan])
def test_ratios_without_a_multiplier(real):
    with pytest.raises(ValueError, match=r"a scale ratio must be below 2\*\*30, not"):
        quantize_multiplier(real)
    with pytest.raises(ValueError, match="below"):
        quantize_multiplier(2.0**40)


@pytest.mark.parametrize("rounding", SUPPORTED_ROUNDINGS)
def test_arrays_and_integers_agree(seed, rounding):
    values = numbers(seed, 300)
    multiplier, shift = 2**30 + 4711, np.array([-31, -7, 0, 5, 30])
    array = np.array(values, np.int64)
    for one in shift:
        results = requantize(array, multiplier, int(one), rounding, 3)
        for value, result in zip(values, results, strict=True):
            assert requantize(value, multiplier, int(one), rounding, 3) == result
    together = requantize(array[:5], multiplier, shift, rounding)
    assert [int(item) for item in together] == [
        requantize(int(value), multiplier, int(one), rounding)
        for value, one in zip(array[:5], shift, strict=True)
    ]


def test_wide_sums_are_rounded_once(seed):
    """Use a 15-bit multiplier and halves up, checked with fractions; also in a lane of 32 bits."""
    generator = random.Random(seed)
    for _number in range(5000):
        multiplier = generator.choice((2**30, HIGH, generator.randint(2**30, HIGH)))
        shift = generator.randint(-31, 7)
        x = generator.randint(-(2**47), 2**47 - 1) >> generator.randrange(48)
        short = min(math.floor(Fraction(multiplier, 2**16) + Fraction(1, 2)), 2**15 - 1)
        assert short_multiplier(multiplier) == short
        exact = Fraction(x * short, 2**15) * Fraction(2) ** shift
        expected = wrap32(math.floor(exact + Fraction(1, 2)))
        assert requantize_wide(x, multiplier, shift) == expected
        if abs(x) << max(shift, 0) < 2**31:
            assert requantize(x, short << 16, shift, Rounding.SINGLE) == expected
    array = np.array([-(2**47), -3, 0, 5, 2**47 - 1])
    assert requantize_wide(array, 2**30 + 4711, -3).tolist() == [
        requantize_wide(int(x), 2**30 + 4711, -3) for x in array
    ]


def test_wrap_and_clamp():
    assert [wrap32(x) for x in (2**31, -(2**31) - 1, 2**32, 5)] == [LOW, HIGH, 0, 5]
    assert [clamp(x, -3, 4) for x in (-9, -3, 0, 4, 9)] == [-3, -3, 0, 4, 4]
    assert [clamp(x, 2, -2) for x in (-9, -2, 0, 2, 9)] == [2, 2, -2, -2, -2]


def test_larger():
    """Compare numbers of 17 bits; of larger ones, the low 17 bits decide."""
    ends = (-(2**16), -(2**15), -1, 0, 1, 2**15, 2**16 - 1)
    for entry, total in itertools.product(ends, ends):
        assert larger(entry, total) == max(entry, total)
        assert larger(entry + 2**17, total - 2**18) == (
            total - 2**18 if total > entry else entry + 2**17
        )
    entries, totals = np.array(ends), np.array(ends[::-1])
    assert larger(entries, totals).tolist() == np.maximum(entries, totals).tolist()


def test_reserved_rules_are_refused():
    with pytest.raises(ValueError, match="rounding must be one of"):
        requantize(1, 2**30, 0, Rounding.FLOAT32)


@pytest.mark.parametrize("low", range(-8, 8))
@pytest.mark.parametrize("high", range(-8, 8))
def test_two_numbers_in_a_byte(low, high):
    byte = pack_nibbles(low, high)
    assert byte == int(f"{high % 16:x}{low % 16:x}", 16)
    for view in (byte, byte - 256 * (byte > 127), np.uint8(byte).view(np.int8)):
        assert (low_nibble(view), high_nibble(view)) == (low, high)


def test_sums_equal_their_limbs(seed):
    generator = random.Random(seed)
    ends = [LARGEST_LIMBS - 1, -LARGEST_LIMBS + 1, 127, 128, -129, 2**15 - 1, 2**15 - 129, 2**22]
    for x in ends + [generator.randrange(-LARGEST_LIMBS + 1, LARGEST_LIMBS) for _ in range(5000)]:
        limbs = [
            requantize(x, 2**30, shift, Rounding.SINGLE, pre_shift) for pre_shift, shift in LIMBS
        ]
        assert all(-128 <= limb <= 127 for limb in limbs)
        assert from_limbs(limbs) == x
