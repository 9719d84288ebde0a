"""Fixed-point exponential and reciprocal, as gemmlowp computes them (fixedpoint/fixedpoint.h).

A number in format Qm.n is an integer divided by 2**n, with m + n = 31. All functions take and
return int64 arrays of 32-bit values.
"""

import numpy as np

from matloom.arch.numerics import (
    clamp,
    rounding_divide_by_pot,
    wrap32,
)
from matloom.arch.numerics import saturating_rounding_doubling_high_mul as multiply
from matloom.ir.graph import Array

__all__ = ["exp_of_negative", "log_of_sum", "logistic", "multiply", "reciprocal_of_sum", "tanh"]

ONE = 2**31 - 1
#: exp(-2**k) in Q0.31 for k from -2 to 4.
EXPONENTIALS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def _shift_left(x: Array, bits: int | Array) -> Array:
    """Return numbers shifted left, limited to int32."""
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


def exp_of_negative(a: Array, integer_bits: int = 5) -> Array:
    """Return exp(a), Q0.31, for a <= 0 in a format with `integer_bits` integer bits, at most 5."""
    quarter = 2 ** (29 - integer_bits)
    fraction = (a & (quarter - 1)) - quarter
    result = _exp_of_quarter(_shift_left(fraction, integer_bits))
    remainder = fraction - a
    factors = EXPONENTIALS[: integer_bits + 2]
    for bit, factor in enumerate(factors, start=29 - integer_bits):
        result = np.where(remainder & (1 << bit), multiply(result, factor), result)
    return np.where(a == 0, ONE, result)


def _reciprocal(x: Array) -> Array:
    """Return 2/(1 + x), Q2.29, for x of Q0.31 in [0, 1]."""
    # Newton and Raphson find 1/d for half the denominator, d = (1 + x) / 2.
    half = (x + ONE + 1) >> 1
    estimate = 1515870810 + multiply(half, -1010580540)
    for _ in range(3):
        error = 2**29 - multiply(half, estimate)
        estimate = estimate + _shift_left(multiply(estimate, error), 2)
    result: Array = estimate
    return result


def reciprocal_of_sum(x: Array, integer_bits: int) -> tuple[Array, Array]:
    """Return ``(r, e)``, r in Q0.31, so that 1/x is ``r / 2**e``, for x > 0 with `integer_bits`."""
    leading_zeros = 32 - _bit_length(x)
    fraction = wrap32((x << leading_zeros) - 2**31)
    return _shift_left(_reciprocal(fraction), 1), integer_bits - leading_zeros


def log_of_sum(x: Array, integer_bits: int) -> Array:
    """Return log(x), Q5.26, for x >= 1 in a format with `integer_bits` integer bits.

    With x = 2**e * m, it is (e + 1/4) * log(2) plus the logarithm of m * sqrt(sqrt(1/2)), or the
    same with x * sqrt(1/2) and e - 1/4, so that this logarithm, a quotient of polynomials of m, is
    near 0.
    """
    root, half_root, half, quarter = 1805811301, 1518500250, 1488522236, 2**23
    zeros = 32 - _bit_length(x)
    even = _shift_left(multiply(_shift_left(x, zeros - 1), half_root), 1)
    zeros_of_odd = 31 - _bit_length(multiply(x, half_root))
    odd = _shift_left(x, zeros_of_odd)
    exponent = np.maximum(
        ((integer_bits - zeros) << 25) + quarter, ((integer_bits - zeros_of_odd) << 25) - quarter
    )
    mantissa = np.minimum(even, odd)
    mean, twice = (mantissa + root + 1) >> 1, 2 * (mantissa - root)
    square = multiply(twice, twice)
    above = multiply(twice, mantissa) + multiply(multiply(twice, square), 117049297)
    below = multiply(mean, 1057819769 + twice + multiply(square, 127690142))
    below += multiply(twice, 638450708)
    inverse = _shift_left(_reciprocal(below), 1)
    total = multiply(exponent, half) + multiply(rounding_divide_by_pot(above, 6), inverse)
    return _shift_left(total, 1)


def _bit_length(x: Array) -> Array:
    """Return the number of bits of each of some positive integers."""
    result: Array = np.frexp(x.astype(np.float64))[1].astype(np.int64)
    return result


def logistic(a: Array) -> Array:
    """Return 1/(1 + exp(-a)), Q0.31, for a in Q4.27."""
    positive = _shift_left(_reciprocal(exp_of_negative(-np.abs(a), 4)), 1)
    return np.where(a == 0, 2**30, np.where(a > 0, positive, ONE - positive))


def tanh(a: Array) -> Array:
    """Return tanh(a), Q0.31, for a in Q4.27."""
    # The same integers, taken for Q5.26, are 2a.
    magnitude = _shift_left(_reciprocal(exp_of_negative(-np.abs(a), 5)) - 2**29, 2)
    return np.where(a == 0, 0, np.sign(a) * magnitude)
