"""Finds per-channel parameters of EXEC and POST for the maximum of a byte and its product.

This computes PRELU exactly, as the larger of x and x times a slope.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matloom.arch.numerics import (
    LARGER_BITS,
    Rounding,
    larger,
    quantize_multiplier,
    requantize,
    wrap32,
)
from matloom.ir.graph import Array

#: Rounding rules for results, in the order in which they are tried; limits use the first.
ROUNDINGS = (Rounding.SINGLE, Rounding.DOUBLE)

#: Maximum number of choices tried per channel.
_MAX_TRIED = 96

#: Slope for channels whose products all equal the zero point.
_SCALE = 1 / 64

_SUM_LIMIT = 2 ** (LARGER_BITS - 1)

_ALL_BYTES = np.arange(-128, 128, dtype=np.int64).reshape(-1, 1)


@dataclass(frozen=True, kw_only=True)
class LimitedScales:
    """Parameters that compute the maximum of a byte and its product, for each channel.

    Members
    -------
    rounding:
        Rounding rule for results.
    weights:
        Factors, int8 (channels,); a byte times its factor is a sum.
    limits:
        Bias, multiplier and shift that turn a byte into the value its sum is compared with (3,
        channels).
    results:
        Bias, multiplier and shift that turn the maximum into a result (3, channels).
    """

    rounding: Rounding
    weights: NDArray[np.int8]
    limits: NDArray[np.int64]
    results: NDArray[np.int64]


def limited_scales(products: Array, slopes: Array, zero: int, shift: int) -> LimitedScales | None:
    """Find parameters that compute the maximum of a byte and its product, for each channel.

    Return None if a channel has none. A sum is ``weight * byte``, and a result ``zero + (sum +
    bias) * slope / weight``. The byte that the sum is compared with has the inverse scale. Both
    biases are integers, so different weights are tried, and results compared for all bytes.

    The reference kernel first rounds products to multiples of ``2**shift``. It then rounds a
    product away from the zero point up to half of that too early. The bias includes this
    difference, which has only one sign: only products on one side of the zero point are larger than
    their bytes.

    Parameters
    ----------
    products:
        The product of each byte from -128 on, int8 (256, channels).
    slopes:
        The factors, float64 (channels,).
    zero:
        Zero point of bytes and products.
    shift:
        Shift of the products' scale.
    """
    wanted = np.maximum(products.astype(np.int64), _ALL_BYTES)
    for rounding in ROUNDINGS:
        rule = _Rule(rounding=rounding, zero=zero, shift=shift)
        found = _matching_choices(rule, wanted, slopes)
        if found is not None:
            return LimitedScales(
                rounding=rounding,
                weights=found[0].astype(np.int8),
                limits=found[1:4],
                results=found[4:],
            )
    return None


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """Rounding rule of POST, and the zero point and the shift of the products' scale."""

    rounding: Rounding
    zero: int
    shift: int

    def rounding_lead(self, scale: float) -> float:
        """Return how much earlier than this rule the reference kernel rounds up, in result steps.

        Both round away from the zero point. The kernel rounds twice, so slightly less than a half
        suffices. The same is true of this rule if it rounds twice; `scale` is the scale of the
        second rounding.
        """
        products = 2.0 ** min(self.shift - 1, -1)
        if self.rounding is Rounding.SINGLE:
            return products
        return products - 2.0 ** min(quantize_multiplier(scale)[1] - 1, -1)


def _matching_choices(rule: _Rule, expected: Array, slopes: Array) -> Array | None:
    """Return parameters of POST with the expected results, (7, channels).

    The seven are as in `_parameters_to_try`; `expected` (256, channels) has the result for each
    byte. Return None if no parameters are found for a channel.
    """
    choices = [_parameters_to_try(rule, slope) for slope in slopes]
    found = np.zeros((7, len(slopes)), np.int64)
    left = np.arange(len(slopes))
    for _ in range(_MAX_TRIED):
        drawn = [next(choices[at], None) for at in left]
        if None in drawn:
            return None
        tried = np.array(drawn, np.int64).T
        fits = (_engine_results(rule, tried) == expected[:, left]).all(axis=0)
        found[:, left[fits]] = tried[:, fits]
        left = left[~fits]
        if not len(left):
            return found
    return None


def _engine_results(rule: _Rule, choices: Array) -> Array:
    """Return the engine's result for every byte under given parameters, (256, channels).

    It is 128 where a sum is too large.
    """
    weights, limit_bias, limit_multiplier, limit_shift, bias, multiplier, shift = choices
    limits = requantize(
        wrap32(_ALL_BYTES + limit_bias), limit_multiplier, limit_shift, ROUNDINGS[0]
    )
    kept = wrap32(larger(limits, _ALL_BYTES * weights) + bias)
    scaled = requantize(kept, multiplier, shift, rule.rounding)
    results: Array = np.clip(scaled + rule.zero, -128, 127)
    return np.where(abs(limits) < _SUM_LIMIT, results, 128)


def _parameters_to_try(rule: _Rule, slope: float) -> Iterator[tuple[int, ...]]:
    """Yield tuples of seven parameters to try for a channel with this slope, in order.

    They are a weight, then bias, multiplier and shift of the limit, then those of the result.
    """
    zero = rule.zero
    if not slope:
        yield 0, -zero, *quantize_multiplier(1 / _SCALE), 0, *quantize_multiplier(_SCALE)
        return
    sign = 1 if slope > 1 or slope < 0 else -1
    most = min(127, int((_SUM_LIMIT - 1) * abs(slope) / (129 + abs(zero) + abs(slope * zero))))
    for size in range(most, 0, -1):
        weight, scale = size * (1 if slope > 0 else -1), abs(slope) / size
        for more in (0, 1, -1):
            bias = round(sign * rule.rounding_lead(scale) / scale) + more - weight * zero
            exact = -zero - scale * bias
            for limit_bias in (round(exact), round(exact) + (1 if exact > round(exact) else -1)):
                yield (
                    *(weight, limit_bias, *quantize_multiplier(1 / scale)),
                    *(bias, *quantize_multiplier(scale)),
                )
