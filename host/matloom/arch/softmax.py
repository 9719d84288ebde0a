"""SOFTMAX of a row of bytes as POST computes it, register by register.

The exponentials of all 256 differences from the largest byte come from a table. Everything uses
operators only, so that the same functions work on Python integers and on int64 arrays.
"""

from typing import Any

from matloom.arch.numerics import (
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
    wrap32,
)

#: Number of entries of the table, one for each difference; fraction bits of an entry (Q0.31); bytes
#: of an entry.
EXPONENTIALS, EXPONENTIAL_BITS, EXPONENTIAL_BYTES = 256, 31, 4

#: Integer bits of the sum of exponentials, which is in Q12.19.
SUM_BITS = 12

#: Number of rows in a batch; the reciprocals of its rows are computed interleaved.
BATCH = 16

#: Bits of a result; its scale is 1/256.
RESULT_BITS = 8

#: Constants of the first estimate of 1/d, 48/17 - 32/17 d, in Q2.29, and the number of
#: Newton-Raphson steps that refine it.
FIRST_ESTIMATE, FIRST_SLOPE, NEWTON_STEPS = 1515870810, -1010580540, 3

#: One in Q2.29.
ONE = 2**29

_MASK = 2**EXPONENTIAL_BITS - 1


def to_sum_format(exponential: Any) -> Any:
    """Convert an exponential from Q0.31 to Q12.19, the format of a row's sum, with rounding."""
    return (exponential + 2 ** (SUM_BITS - 1)) >> SUM_BITS


def reciprocal(total: Any) -> tuple[Any, Any]:
    """Return ``(r, e)`` so that 1/total is r / 2**e, with r in Q0.31 and the total in Q12.19.

    This is the integer arithmetic of gemmlowp's `one_over_one_plus_x_for_x_in_0_1` for totals of
    2**19 and more, which every row has if the exponential of 0 is one. For smaller totals the
    result is defined, but not a reciprocal.
    """
    zeros = total * 0
    for _ in range(SUM_BITS):
        short = total < 2**31
        total, zeros = total << short, zeros + short
    half = total >> 1
    multiply = saturating_rounding_doubling_high_mul
    estimate = (FIRST_ESTIMATE + multiply(FIRST_SLOPE, half)) & _MASK
    for _ in range(NEWTON_STEPS):
        error = wrap32(ONE - multiply(estimate, half))
        estimate = (estimate + (multiply(error, estimate) << 2)) & _MASK
    large = estimate >= 2 ** (EXPONENTIAL_BITS - 1)
    return large * _MASK + (1 - large) * (estimate << 1), SUM_BITS - zeros


def quotient(exponential: Any, scale: Any, exponent: Any) -> Any:
    """Return an exponential times ``scale / 2**exponent``, as a byte with zero point -128.

    `scale` (Q0.31) and `exponent` are those that `reciprocal` returns.
    """
    right = exponent + EXPONENTIAL_BITS - RESULT_BITS
    # Larger shifts all give zero.
    kept = exponential * (right <= EXPONENTIAL_BITS)
    product = saturating_rounding_doubling_high_mul(kept, scale)
    result = rounding_divide_by_pot(product, right)
    # One becomes the largest byte.
    return result - (result >> RESULT_BITS) - 2 ** (RESULT_BITS - 1)
