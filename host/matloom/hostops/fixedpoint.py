"""Fixed-point exponential and reciprocal, as gemmlowp computes them (fixedpoint/fixedpoint.h).

A number of format Qm.n is an integer that stands for itself over 2**n, with m + n = 31. All
functions take and give int64 arrays of 32-bit values.
"""

import numpy as np

from matloom.arch.numerics import (
    clamp,
    rounding_divide_by_pot,
    wrap32,
)
from matloom.arch.numerics import saturating_rounding_doubling_high_mul as multiply
from matloom.ir.graph import Array

__all__ = ["exp_of_negative", "multiply", "reciprocal_of_sum"]

ONE = 2**31 - 1
#: exp(-2**k) in Q0.31 for k from -2 to 4.
EXPONENTIALS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def _shift_left(x: Array, bits: int) -> Array:
    result: Array = clamp(x << bits, -(2**31), 2**31 - 1)
    return result


def _exp_of_quarter(a: Array) -> Array:
    """Return exp(a) for a in [-1/4, 0), both Q0.31: a Taylor series around -1/8."""
    exp_of_eighth, third = 1895147668, 715827883
    x = a + 2**28
    square = multiply(x, x)
    cube = multiply(square, x)
    fourth = rounding_divide_by_pot(multiply(square, square), 2)
    tail = rounding_divide_by_pot(multiply(fourth + cube, third) + square, 1)
    result: Array = exp_of_eighth + multiply(exp_of_eighth, x + tail)
    return result


def exp_of_negative(a: Array) -> Array:
    """Return exp(a), Q0.31, for a <= 0 in Q5.26."""
    quarter = 2**24
    fraction = (a & (quarter - 1)) - quarter
    result = _exp_of_quarter(_shift_left(fraction, 5))
    remainder = fraction - a
    for bit, factor in enumerate(EXPONENTIALS, start=24):
        result = np.where(remainder & (1 << bit), multiply(result, factor), result)
    return np.where(a == 0, ONE, result)


def reciprocal_of_sum(x: Array, integer_bits: int) -> tuple[Array, Array]:
    """Return ``(r, e)`` so that 1/x is r in Q0.31 over 2**e, for positive x with `integer_bits`."""
    leading_zeros = 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)
    fraction = wrap32((x << leading_zeros) - 2**31)
    # Newton and Raphson find 1/d in Q2.29 for half the denominator, d = (1 + fraction) / 2.
    half = (fraction + ONE + 1) >> 1
    estimate = 1515870810 + multiply(half, -1010580540)
    for _ in range(3):
        error = 2**29 - multiply(half, estimate)
        estimate = estimate + _shift_left(multiply(estimate, error), 2)
    return _shift_left(estimate, 1), integer_bits - leading_zeros
