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

#: Entries of the table, one for each difference; bits of an entry in Q0.31, and its bytes.
EXPONENTIALS, EXPONENTIAL_BITS, EXPONENTIAL_BYTES = 256, 31, 4

#: Integer bits of the sum of exponentials, whose format is Q12.19.
SUM_BITS = 12

#: Number of rows per batch, whose reciprocals are computed one after another.
BATCH = 16

#: Bits of a result, whose scale is 1/256.
RESULT_BITS = 8

#: First estimate of 1/d, 48/17 - 32/17 d, in Q2.29, and the Newton-Raphson steps after it.
FIRST_ESTIMATE, FIRST_SLOPE, NEWTON_STEPS = 1515870810, -1010580540, 3

#: One in Q2.29.
ONE = 2**29

_MASK = 2**EXPONENTIAL_BITS - 1


def term(exponential: Any) -> Any:
    """Return the contribution of an exponential, Q0.31, to the sum."""
    return (exponential + 2 ** (SUM_BITS - 1)) >> SUM_BITS


def reciprocal(total: Any) -> tuple[Any, Any]:
    """Return ``(r, e)`` so that 1/total is r in Q0.31 over 2**e, for a sum of `term`, Q12.19.

    That is the integer arithmetic of gemmlowp's `one_over_one_plus_x_for_x_in_0_1` for sums of
    2**19 and more, which every row has if the exponential of 0 is one. For smaller sums it is
    defined, but not a reciprocal.
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
    """Return an exponential times ``scale / 2**exponent``, as a signed byte."""
    right = exponent + EXPONENTIAL_BITS - RESULT_BITS
    # Larger shifts all give zero.
    kept = exponential * (right <= EXPONENTIAL_BITS)
    product = saturating_rounding_doubling_high_mul(kept, scale)
    result = rounding_divide_by_pot(product, right)
    # One becomes the largest byte.
    return result - (result >> RESULT_BITS) - 2 ** (RESULT_BITS - 1)
