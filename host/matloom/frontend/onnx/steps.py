"""Finds multipliers with which the engine rounds the sums of a layer as ONNX Runtime does.

ONNX Runtime computes ``rint(float32(sum) * scale)`` of a 32-bit sum, in float32 and with halves to
even (MLAS, `MlasRequantizeOutput`); the engine computes ``floor(sum * multiplier / 2**(31 + right)
+ 1/2)`` (`Rounding.SINGLE`). Both increase with the sum, so each function is defined by its steps:
the smallest sum for each result. If both functions have the same steps, as far as sums can reach
them, all results are equal. If no multiplier gives all steps, one that gives the most is used, and
the sums between different steps are counted.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

#: Smallest and largest multiplier. With 30 bits or more, many multipliers give the same step. A
#: scale that is a power of two has the multiplier 2**30, but may need a slightly smaller one.
_LEAST, _MOST = 2**29, 2**31 - 1
#: Largest right shift of the engine.
_MAX_RIGHT_SHIFT = 31
#: A bound that exceeds any multiplier.
_ABOVE_ANY_MULTIPLIER = 2**32
#: A bound that exceeds the magnitude of any product of a multiplier and a sum.
_PRODUCT_LIMIT = 2**62


@dataclass(frozen=True, kw_only=True)
class Multipliers:
    """A multiplier and a shift for each channel, and how well they match ONNX Runtime.

    Members
    -------
    data:
        int32 (2, channels): multipliers, and shifts, which are negative for shifts to the right.
    differing:
        Number of sums that the engine rounds differently from ONNX Runtime, for each channel.
    repaired:
        Mask of the channels in which no sum differs, although some would with the multiplier
        nearest to the scale.
    absent:
        Indices of the channels whose scale no multiplier and shift can represent, or whose sums
        exceed 32 bits; `data` holds zeros for them.
    """

    data: npt.NDArray[np.int32]
    differing: Integers
    repaired: npt.NDArray[np.bool_]
    absent: tuple[int, ...]


def requantise(sums: Integers, scale: Floats) -> npt.NDArray[Any]:
    """Return ONNX Runtime's results for sums, before zero point and limits are applied."""
    rounded: npt.NDArray[Any] = np.rint(sums.astype(np.float32) * scale)
    return rounded


def fit_multipliers(
    scale: Floats,
    sum_range: tuple[Integers, Integers],
    levels: tuple[int, int],
    results: Integers | None = None,
) -> Multipliers:
    """Return the multipliers that reproduce most of the sums at which a result steps up.

    Parameters
    ----------
    scale:
        For each channel, input scale times weight scale divided by output scale, computed in
        float32 in this order.
    sum_range:
        Smallest and largest sum of each channel, bias included.
    levels:
        Smallest and largest result, minus the zero point.
    results:
        ONNX Runtime's result for each sum from the smallest to the largest, if it does not compute
        results like a layer's. There must be only one channel.
    """
    low, high = (np.asarray(ends, np.int64) for ends in sum_range)
    levels_above = np.arange(levels[0] + 1, levels[1] + 1)
    right = -np.frexp(scale.astype(np.float64))[1].astype(np.int64)
    usable = np.isfinite(scale) & (scale > 0) & (right >= 0) & (right <= _MAX_RIGHT_SHIFT)
    usable &= (low >= -(2**31)) & (high < 2**31)
    data, differing = np.zeros((2, len(scale)), np.int32), np.zeros(len(scale), np.int64)
    ends = low[usable], high[usable]
    if results is None:
        steps = _step_sums(scale[usable], ends, levels_above)
    else:
        rising = np.maximum.accumulate(results)
        steps = (low + np.searchsorted(rising, levels_above, "left"))[np.newaxis][: usable.sum()]
    thresholds, exact = _step_products(levels_above, right[usable])
    least, most = _multiplier_intervals(steps, ends, thresholds, exact)
    data[0, usable] = _middle_of_best(least, most)
    data[1, usable] = -right[usable]
    differing[usable] = _count_differing(data[0, usable], steps, ends, thresholds, exact)
    nearest = np.rint(np.ldexp(scale[usable].astype(np.float64), 31 + right[usable]))
    plain = _count_differing(np.minimum(nearest, _MOST), steps, ends, thresholds, exact)
    repaired = np.zeros(len(scale), np.bool_)
    repaired[usable] = (plain > 0) & (differing[usable] == 0)
    absent = tuple(np.nonzero(~usable)[0].tolist())
    return Multipliers(data=data, differing=differing, repaired=repaired, absent=absent)


def _step_sums(scale: Floats, sum_range: tuple[Integers, Integers], results: Integers) -> Integers:
    """Return the smallest sum for which ONNX Runtime's result is at least each of `results`.

    The array is (channels, results). If no sum has such a result, the number is one more than the
    largest sum. `sum_range` are the smallest and the largest sum of each channel; `results` must
    ascend.
    """
    low, high = (each[:, np.newaxis] for each in sum_range)
    wide = scale[:, np.newaxis]
    near = np.clip((results - 0.5) / wide.astype(np.float64), low - 1, high + 1).astype(np.int64)
    # float32 keeps 24 bits of a sum and of its product.
    margin = 2 + (np.abs(near) >> 21)
    first, last = np.maximum(near - margin, low), np.minimum(near + margin, high + 1)
    sure = (first == low) | (requantise(first - 1, wide) < results)
    sure &= (last == high + 1) | (requantise(last, wide) >= results)
    first, last = np.where(sure, first, low), np.where(sure, last, high + 1)
    while (first < last).any():
        middle = (first + last) >> 1
        there = requantise(middle, wide) >= results
        last = np.where(there, np.minimum(middle, last), last)
        first = np.where(there, first, np.minimum(middle + 1, last))
    return first


def _step_products(
    results: Integers, right_shifts: Integers
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return the smallest product of multiplier and sum for each result, and whether it can occur.

    Also returns whether a product can be that large; both arrays are (channels, results).
    `right_shifts` is the right shift of each channel.
    """
    odd = np.broadcast_to(2 * results - 1, (len(right_shifts), len(results)))
    exponents = 30 + right_shifts[:, np.newaxis]
    exact = np.abs(odd) < _PRODUCT_LIMIT >> exponents
    return np.where(
        exact, odd << np.where(exact, exponents, 0), np.sign(odd) * _PRODUCT_LIMIT
    ), exact


def _multiplier_intervals(
    steps: Integers,
    sum_range: tuple[Integers, Integers],
    thresholds: Integers,
    exact: npt.NDArray[np.bool_],
) -> tuple[Integers, Integers]:
    """Return the smallest and largest multiplier that reproduce each step: (channels, steps).

    A step is the smallest sum with some result. Its product with the multiplier must reach the
    threshold of this result, and that of the next smaller sum must not. If no multiplier does this,
    the smallest exceeds the largest. `sum_range` are the smallest and the largest sum of each
    channel; `thresholds` and `exact` are the results of `_step_products`.
    """
    low, high = (each[:, np.newaxis] for each in sum_range)
    least, most = np.full(steps.shape, _LEAST), np.full(steps.shape, _MOST)
    before = steps - 1
    for sums, reached, wanted, above in (
        (steps, steps <= high, thresholds, True),
        (before, before >= low, thresholds - 1, False),
    ):
        # Above: sum * multiplier >= wanted; else: sum * multiplier <= wanted.
        size = np.maximum(np.abs(sums), 1)
        upward = (sums > 0) == above
        floor = np.where(sums > 0, wanted, -wanted) // size
        bound = np.where(upward, -(np.where(sums > 0, -wanted, wanted) // size), floor)
        least = np.where(reached & (sums != 0) & upward, np.maximum(least, bound), least)
        most = np.where(reached & (sums != 0) & ~upward, np.minimum(most, bound), most)
        fails = (wanted > 0) if above else (wanted < 0)
        most = np.where(reached & (sums == 0) & fails, _LEAST - 1, most)
    # A product larger than any possible one reaches no threshold, whatever the multiplier.
    crossed = ~exact & np.where(thresholds > 0, steps <= high, steps > low)
    return least, np.where(crossed, _LEAST - 1, most)


def _middle_of_best(lowest: Integers, highest: Integers) -> Integers:
    """Return, for each channel, the middle of the multipliers that lie in the most intervals.

    `lowest` and `highest` (channels, steps) are the results of `_multiplier_intervals`.
    """
    possible = lowest <= highest
    begins = np.where(possible, lowest, _MOST + 1)
    ends = np.where(possible, highest, _MOST + 1)
    first, last = np.sort(begins, axis=1), np.sort(ends, axis=1)
    # Put all channels into one ascending sequence.
    count, width = first.shape
    apart = np.arange(count)[:, np.newaxis] * _ABOVE_ANY_MULTIPLIER
    line = (last + apart).ravel()

    def count_ended(values: Integers) -> Integers:
        """Return the number of intervals of a channel that end before each of `values`.

        `values` and the result have shape (channels, n).
        """
        places = np.searchsorted(line, (values + apart).ravel(), "left").reshape(values.shape)
        before: Integers = places - np.arange(count)[:, np.newaxis] * width
        return before

    # Number of intervals that contain the beginning of each.
    overlaps = np.arange(1, width + 1) - count_ended(first)
    best = np.argmax(np.where(first <= _MOST, overlaps, -1), axis=1)[:, np.newaxis]
    start = np.minimum(np.take_along_axis(first, best, axis=1), _MOST)
    stop = np.take_along_axis(last, np.minimum(count_ended(start), width - 1), axis=1)
    chosen: Integers = (start + np.minimum(stop, _MOST))[:, 0] // 2
    return chosen


def _count_differing(
    multipliers: npt.NDArray[Any],
    steps: Integers,
    sum_range: tuple[Integers, Integers],
    thresholds: Integers,
    exact: npt.NDArray[np.bool_],
) -> Integers:
    """Return, for each channel, the number of sums that the engine rounds unlike ONNX Runtime.

    `steps`, `sum_range`, `thresholds` and `exact` are as for `_multiplier_intervals`.
    """
    low, high = (each[:, np.newaxis] for each in sum_range)
    first = -(-thresholds // multipliers.astype(np.int64)[:, np.newaxis])
    first = np.where(exact, first, np.where(thresholds > 0, high + 1, low))
    there = np.clip(first, low, high + 1)
    counts: Integers = np.abs(there - steps).sum(axis=1)
    return counts
