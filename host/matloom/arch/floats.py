"""Floating-point rules of the engine, on bit patterns: formats, products, sums, conversions.

The functions use operators only, like those of `numerics`, so they accept Python integers or int64
arrays and return the same. Bit patterns are non-negative. Each result is rounded to nearest, ties
to even; subnormal inputs and results are kept; an fp32 result that is NaN is always `NAN`.
"""

from dataclasses import dataclass
from typing import Any

from matloom.arch.numerics import clamp

#: Bit pattern of NaN in fp32 results: quiet, positive, without payload.
NAN = 0x7FC00000


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """Floating-point format: sign, exponent and fraction, from the highest bit down.

    If `finite`, the largest exponent also holds numbers: only a magnitude of all ones is NaN, and
    there is no infinity (float8_e4m3fn of ml_dtypes and of the OCP's 8-bit formats).
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    finite: bool = False

    @property
    def bits(self) -> int:
        """Width of a number in bits."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bytes(self) -> int:
        """Size of a number in bytes; in memory, the lowest byte comes first."""
        return self.bits // 8

    @property
    def bias(self) -> int:
        """Bias of the exponent: the stored exponent of 1.0."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def largest_exponent(self) -> int:
        """Largest value of the exponent field, all ones."""
        return (1 << self.exponent_bits) - 1

    @property
    def above(self) -> int:
        """Bit pattern of the smallest non-finite magnitude: infinity, or NaN without infinity."""
        ones = (1 << self.fraction_bits) - 1
        return (self.largest_exponent << self.fraction_bits) + ones * self.finite

    @property
    def nan(self) -> int:
        """Bit pattern to which `narrow` converts NaN."""
        quiet = 0 if self.finite else 1 << (self.fraction_bits - 1)
        return self.above | quiet


FP32 = FloatFormat(name="fp32", exponent_bits=8, fraction_bits=23)

#: Formats of operands, by the name of the mode that multiplies them.
FLOAT_FORMATS = {
    item.name: item
    for item in (
        FloatFormat(name="bf16", exponent_bits=8, fraction_bits=7),
        FloatFormat(name="fp16", exponent_bits=5, fraction_bits=10),
        FloatFormat(name="fp8_e4m3", exponent_bits=4, fraction_bits=3, finite=True),
        FloatFormat(name="fp8_e5m2", exponent_bits=5, fraction_bits=2),
    )
}

#: Bit to which the highest one of a significand is shifted before rounding; sums of two
#: significands fit below the next bit.
_LEADING_BIT = 52


def _choose(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Return `if_true` where a condition (0 or 1) is 1, else `if_false`; works for arrays, too."""
    return if_false + (if_true - if_false) * condition


def _split(x: Any, form: FloatFormat) -> tuple[Any, Any, Any, Any, Any]:
    """Return sign, significand, power, "is NaN" and "is infinite" of numbers in a format.

    The magnitude of a finite number is ``significand * 2**power``.
    """
    magnitude = x & ((1 << (form.bits - 1)) - 1)
    exponent = magnitude >> form.fraction_bits
    fraction = magnitude & ((1 << form.fraction_bits) - 1)
    significand = fraction + ((exponent > 0) << form.fraction_bits)
    power = exponent + (exponent == 0) - (form.bias + form.fraction_bits)
    if form.finite:
        return x >> (form.bits - 1), significand, power, magnitude == form.above, magnitude < 0
    sign = x >> (form.bits - 1)
    return sign, significand, power, magnitude > form.above, magnitude == form.above


def _round(sign: Any, significand: Any, power: Any, form: FloatFormat) -> Any:
    """Return the pattern nearest to ``significand * 2**power``; the significand is below 2**53.

    Overflow gives infinity, or NaN in a format without infinity. `sign` is 1 for a negative number.
    """
    for step in (32, 16, 8, 4, 2, 1):
        small = significand < 1 << (_LEADING_BIT + 1 - step)
        significand = significand << step * small
        power = power - step * small
    exponent = power + _LEADING_BIT + form.bias
    tiny = exponent < 1
    places = clamp(_LEADING_BIT - form.fraction_bits + (1 - exponent) * tiny, 1, _LEADING_BIT + 2)
    kept_bits = significand >> places
    lost, half = significand - (kept_bits << places), 1 << (places - 1)
    kept_bits = kept_bits + ((lost > half) | ((lost == half) & (kept_bits & 1 == 1)))
    # The leading bit of `kept`, or a carry of the rounding, goes into the exponent.
    magnitude = (((exponent - 1) * (exponent > 1)) << form.fraction_bits) + kept_bits
    magnitude = clamp(magnitude * (significand > 0), 0, form.above)
    return magnitude + (sign << (form.bits - 1))


def widen(x: Any, form: FloatFormat) -> Any:
    """Convert numbers of a format to fp32, exactly; NaN becomes `NAN`."""
    sign, significand, power, is_nan, infinite = _split(x, form)
    finite = _round(sign, significand, power, FP32)
    return _choose(is_nan, NAN, _choose(infinite, FP32.above + (sign << 31), finite))


def narrow(x: Any, form: FloatFormat) -> Any:
    """Convert fp32 numbers to a format, rounded to nearest; overflow gives infinity.

    In `fp8_e4m3`, which has no infinity, overflow gives NaN with the number's sign, as in
    ml_dtypes.
    """
    sign, significand, power, is_nan, infinite = _split(x, FP32)
    finite = _round(sign, significand, power, form)
    above = form.above + (sign << (form.bits - 1))
    return _choose(is_nan, form.nan, _choose(infinite, above, finite))


def multiply(a: Any, b: Any, form: FloatFormat) -> Any:
    """Return the fp32 products of numbers of a format.

    Products are exact, except that bf16 products may overflow fp32 or be subnormal; they are then
    rounded.
    """
    sign_a, significand_a, power_a, nan_a, infinite_a = _split(a, form)
    sign_b, significand_b, power_b, nan_b, infinite_b = _split(b, form)
    sign = sign_a ^ sign_b
    finite = _round(sign, significand_a * significand_b, power_a + power_b, FP32)
    infinite = infinite_a | infinite_b
    zero = (significand_a == 0) | (significand_b == 0)
    is_nan = nan_a | nan_b | (infinite & zero)
    return _choose(is_nan, NAN, _choose(infinite, FP32.above + (sign << 31), finite))


def add(a: Any, b: Any) -> Any:
    """Return the sums of fp32 numbers; exact cancellation gives +0."""
    swap = (a & 0x7FFFFFFF) < (b & 0x7FFFFFFF)
    larger, smaller = _choose(swap, b, a), _choose(swap, a, b)
    sign, significand, power, nan_large, infinite = _split(larger, FP32)
    sign_small, small, power_small, nan_small, infinite_small = _split(smaller, FP32)
    subtract = sign ^ sign_small
    # Keep 24 bits below the larger one's last bit, and a sticky bit for the others.
    places = clamp(power - power_small, 0, 60)
    aligned = (small << 24) >> places
    aligned = aligned | (aligned << places != small << 24)
    total = (significand << 24) + aligned * (1 - 2 * subtract)
    finite = _round(
        sign * (total > 0) + (sign & sign_small) * (total == 0), total, power - 24, FP32
    )
    is_nan = nan_large | nan_small | (infinite & infinite_small & (subtract == 1))
    return _choose(is_nan, NAN, _choose(infinite, FP32.above + (sign << 31), finite))


def limit(x: Any, low: Any, high: Any) -> Any:
    """Return fp32 numbers limited to ``low .. high``; -0 is less than +0, and NaN becomes `NAN`."""

    def ordered(pattern: Any) -> Any:
        """Return integers in the order of the numbers that the patterns represent."""
        return _choose(pattern >> 31, 2**31 - 1 - pattern, pattern)

    limited = clamp(ordered(x), ordered(low), ordered(high))
    pattern = _choose(limited < 0, 2**31 - 1 - limited, limited)
    return _choose((x & 0x7FFFFFFF) > FP32.above, NAN, pattern)
