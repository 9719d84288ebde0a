"""Arithmetic of the engine: each rounding, saturation and conversion is defined here once.

The functions use operators only, so that they work on Python integers and on int64 arrays. Results
have the type of the arguments, which is why both are annotated as Any.
"""

import enum
import math
from typing import Any


class Rounding(enum.IntEnum):
    """Rule by which a product of accumulator and multiplier becomes an integer again.

    ``DOUBLE``
        gemmlowp's saturating rounding doubling high multiply, then a rounding divide by a power
        of two, as in TensorFlow Lite Micro's int8 kernels.
    ``SINGLE``
        One rounding, half up, as in LiteRT's reference int8 fully connected kernel; with a
        `short_multiplier`, as in TensorFlow Lite Micro's int16 kernels with 64-bit sums.
    ``FLOAT32``
        Reserved: float32 product, half to even (XNNPACK, onnxruntime).
    ``AVERAGE``
        Quotient rounded half away from zero, by an exact reciprocal, for average pooling. The bias
        contains half the count, so that the quotient is then truncated towards zero.
    ``FLOAT``
        No rounding to an integer, because values are floating-point numbers (`arch.floats`).
    """

    DOUBLE = 0
    SINGLE = 1
    FLOAT32 = 3
    AVERAGE = 4
    FLOAT = 5


#: Rules that the requantising lanes of every engine implement; see `Config.roundings`.
SUPPORTED_ROUNDINGS = (Rounding.DOUBLE, Rounding.SINGLE, Rounding.AVERAGE)


def wrap32(x: Any) -> Any:
    """Return `x` modulo 2**32 as a signed number, as 32-bit registers hold it."""
    return ((x + 2**31) & (2**32 - 1)) - 2**31


#: Left shift of a byte that POST adds to an accumulator.
ADDEND_SHIFT = 19

#: Multiplier, shift and left shift with which DOUBLE is equivalent to a shift by `ADDEND_SHIFT`.
#: TensorFlow Lite scales the operand of ADD with the larger scale this way.
ADDEND_SCALE = (2**30, 0, ADDEND_SHIFT + 1)

#: Left shift of a byte that POST subtracts from an accumulator before it squares the difference.
SQUARE_SHIFT = 6

#: Multiplier, shift and left shift with which DOUBLE is equivalent to a shift by `SQUARE_SHIFT`.
#: TensorFlow Lite scales the operand of SQUARED_DIFFERENCE with the larger scale this way.
SQUARE_SCALE = (2**30, 0, SQUARE_SHIFT + 1)


def squared_difference(total: Any, value: Any) -> Any:
    """Return the square of ``total - (value << SQUARE_SHIFT)``; the difference wraps to int16."""
    difference = ((total - (value << SQUARE_SHIFT) + 2**15) & (2**16 - 1)) - 2**15
    return difference * difference


#: Width in bits of the numbers that `larger` compares: 16 for a word, and one more so that every
#: negated word fits.
LARGER_BITS = 17


def larger(entry: Any, total: Any) -> Any:
    """Return `total` if its `LARGER_BITS` low bits are the larger signed number, else `entry`.

    That is the maximum if both lie in -65536 to 65535, as sums of a single tap of bytes or words
    do.
    """
    sign = 1 << (LARGER_BITS - 1)
    low_entry, low_total = (((each + sign) & (2 * sign - 1)) - sign for each in (entry, total))
    return entry + (total - entry) * (low_total > low_entry)


def low_nibble(byte: Any) -> Any:
    """Return bits 0 to 3 of a byte as a signed number, -8 to 7."""
    return ((byte & 15) ^ 8) - 8


def high_nibble(byte: Any) -> Any:
    """Return bits 4 to 7 of a byte as a signed number, -8 to 7."""
    return low_nibble(byte >> 4)


def pack_nibbles(low: Any, high: Any) -> Any:
    """Return the byte, 0 to 255, whose low and high four bits are those of `low` and `high`."""
    return (low & 15) | (high & 15) << 4


def clamp(x: Any, low: Any, high: Any) -> Any:
    """Return `x` limited to ``low .. high``, using operators only.

    If `low` is above `high`, values above `high` become `high` and all others `low`, as in the
    requantising lanes.
    """
    return x + (high - x) * (x > high) + (low - x) * ((x < low) & (x <= high))


def add_bias(x: Any, bias: Any, rounding: Rounding) -> Any:
    """Return ``x + bias``, wrapped to 32 bits; under ``AVERAGE``, subtract it from negative `x`."""
    if rounding == Rounding.AVERAGE:
        return wrap32(x + bias * (1 - 2 * (x < 0)))
    return wrap32(x + bias)


#: Left shift and power of two with which a lane extracts each limb of a sum, lowest limb first.
LIMBS = ((24, -23), (17, -24), (10, -24), (3, -24))

#: Bound on the magnitude of sums whose limbs are exact.
LARGEST_LIMBS = 2**28

#: Range of shifts in the reference kernels; smaller scale ratios become zero.
_LEAST_SHIFT, _MOST_SHIFT = -31, 30


def from_limbs(limbs: Any) -> Any:
    """Return the sum represented by four limbs, as written by a lane, lowest first.

    The lowest limb has 8 bits and a sign, the others 7 and a sign. With ``SINGLE`` rounding, each
    limb is what remains of the sum above the previous limbs, so all fit a byte.
    """
    return limbs[0] + (limbs[1] << 8) + (limbs[2] << 15) + (limbs[3] << 22)


def to_limbs(total: Any) -> list[Any]:
    """Return the four limbs of a sum below `LARGEST_LIMBS`, the inverse of `from_limbs`."""
    limbs = []
    for bits in (8, 7, 7):
        sign = 1 << (bits - 1)
        limbs.append(((total + sign) & (2 * sign - 1)) - sign)
        total = (total - limbs[-1]) >> bits
    return [*limbs, total]


def saturating_rounding_doubling_high_mul(x: Any, multiplier: Any) -> Any:
    """Return ``round(x * multiplier / 2**31)``, halves up, for a multiplier of 0 or more.

    gemmlowp adds a nudge of 2**30, or 1 - 2**30 to a negative product, and truncates towards
    zero; for negative products that equals the floor of the product plus 2**30.
    """
    return (x * multiplier + 2**30) >> 31


def rounding_divide_by_pot(x: Any, exponent: Any) -> Any:
    """Return ``x / 2**exponent``, halves away from zero (gemmlowp RoundingDivideByPOT)."""
    half = (1 << exponent) >> 1
    return (x + half - ((x < 0) & (exponent > 0))) >> exponent


def multiply_by_quantized_multiplier(x: Any, multiplier: Any, shift: Any) -> Any:
    """Return `x` times ``multiplier / 2**31 * 2**shift``, rounded twice.

    `x` and the result are 32-bit integers, `multiplier` is 0 to 2**31 - 1, `shift` -31 to 30.
    Source: MultiplyByQuantizedMultiplier of TensorFlow Lite Micro, double-rounding build.
    """
    return requantize(x, multiplier, shift, Rounding.DOUBLE)


def requantize(x: Any, multiplier: Any, shift: Any, rounding: Rounding, pre_shift: int = 0) -> Any:
    """Return `x` scaled by ``2**pre_shift * multiplier / 2**31 * 2**shift`` under `rounding`.

    This is what one requantising lane computes. The left shifts (`pre_shift` and a positive
    `shift`) happen first and wrap at 32 bits, as in the C kernels.

    Parameters
    ----------
    x:
        32-bit integers; under ``AVERAGE`` already offset by half the count, away from zero.
    multiplier, shift:
        As `quantize_multiplier` (or `reciprocal` for ``AVERAGE``) gives them.
    """
    left = shift * (shift > 0) + pre_shift
    right = -shift * (shift < 0)
    x = wrap32(x << left)
    if rounding == Rounding.AVERAGE:
        sign = 1 - 2 * (x < 0)
        return sign * (((x * sign * multiplier) >> 31) >> right)
    if rounding == Rounding.DOUBLE:
        return rounding_divide_by_pot(saturating_rounding_doubling_high_mul(x, multiplier), right)
    if rounding == Rounding.SINGLE:
        # Below 2**31 the product has one rounding bit; above, the bits under it cannot carry.
        high = (x * multiplier + 2**30 * (right == 0)) >> 31
        return (high + ((1 << right) >> 1)) >> right
    raise ValueError(f"rounding must be one of {SUPPORTED_ROUNDINGS}, not {rounding!r}")


def short_multiplier(multiplier: Any) -> Any:
    """Reduce a 31-bit multiplier to 15 bits; the shift must then be reduced by 16."""
    short = (multiplier + 2**15) >> 16
    return short - (short > 2**15 - 1)


def requantize_wide(x: Any, multiplier: Any, shift: Any) -> Any:
    """Return 48-bit `x` times ``multiplier / 2**31 * 2**shift``, rounded once, to 32 bits.

    The multiplier is first reduced to its upper 15 bits. If ``x << shift`` fits 32 bits, this
    equals `requantize` under ``SINGLE`` with ``short_multiplier(multiplier) << 16``, which also
    cuts off the bits below the rounding bit, because they cannot carry. `shift` is -31 to 7.

    Source: MultiplyByQuantizedMultiplier of TensorFlow Lite Micro for int64.
    """
    places = 15 - shift
    return wrap32((x * short_multiplier(multiplier) + (1 << (places - 1))) >> places)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Return ``(multiplier, shift)`` with ``real ~ multiplier / 2**31 * 2**shift``.

    A ratio below 2**-32 becomes zero; one of 2**30 or more raises ValueError. Source:
    QuantizeMultiplier of TensorFlow Lite (tensorflow/lite/kernels/internal/quantization_util.cc).
    """
    if real == 0:
        return 0, 0
    if not abs(real) < 2**31:
        raise ValueError(f"a scale ratio must be below 2**30, not {real!r}")
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier //= 2
        shift += 1
    if shift < _LEAST_SHIFT:
        return 0, 0
    if shift > _MOST_SHIFT:
        raise ValueError(f"a scale ratio must be below 2**30, not {real!r}")
    return multiplier, shift


def reciprocal(count: int) -> tuple[int, int]:
    """Return ``(multiplier, shift)`` that divide exactly by `count` under ``AVERAGE``.

    With s = 30 + floor(log2(count)) and multiplier = ceil(2**s / count), the quotient is exact for
    every dividend below 2**s / count, far above the 129 * count of an int8 sum.
    """
    if not 1 <= count < 2**20:
        raise ValueError(f"a pooling window must have 1 to 2**20 - 1 elements, not {count}")
    exponent = 30 + count.bit_length() - 1
    return -(-(2**exponent) // count), 31 - exponent
