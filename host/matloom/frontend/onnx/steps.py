"""Multipliers with which the engine rounds every sum of a layer as ONNX Runtime does.

ONNX Runtime makes ``rint(float32(sum) * scale)`` of a sum of 32 bits, in float32 and with halves to
the even integer (MLAS, `MlasRequantizeOutput`); the engine ``floor(sum * multiplier / 2**(31 +
right) + 1/2)`` (`Rounding.SINGLE`). Both rise with the sum, so each is known by its steps: the
smallest sum of each result. Where all steps that sums can reach agree, so do all results.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Multipliers", "fit_multipliers", "requantised"]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

#: Multipliers have 30 bits or more, so that there are many for a step; a power of two may need one
#: that is a little smaller.
_LEAST, _MOST = 2**29, 2**31 - 1
#: The engine's largest shift to the right.
_FARTHEST = 31


@dataclass(frozen=True, kw_only=True)
class Multipliers:
    """A multiplier and a shift for each channel (negative: to the right), as int32 (2, channels).

    `unproven` are the channels in which no multiplier gives every step; theirs are zero.
    """

    data: npt.NDArray[np.int32]
    unproven: tuple[int, ...]


def requantised(sums: Integers, scale: Floats) -> npt.NDArray[Any]:
    """Return what ONNX Runtime makes of sums before it adds the zero point and limits them."""
    rounded: npt.NDArray[Any] = np.rint(sums.astype(np.float32) * scale)
    return rounded


def fit_multipliers(
    scale: Floats, reach: tuple[Integers, Integers], levels: tuple[int, int]
) -> Multipliers:
    """Return multipliers whose steps are ONNX Runtime's, where there are any.

    Parameters
    ----------
    scale:
        Of each channel: input scale times weight scale over output scale, in float32 from left to
        right.
    reach:
        The smallest and the largest sum of each channel, bias included.
    levels:
        The smallest and the largest result, less the zero point.
    """
    low, high = reach
    results = np.arange(levels[0] + 1, levels[1] + 1)
    steps = _steps(scale, low, high, results)
    rows = []
    for channel, ratio in enumerate(scale.tolist()):
        right = -int(np.frexp(ratio)[1])
        ends = (int(low[channel]), int(high[channel]))
        found = None
        if 0 <= right <= _FARTHEST and ends[0] >= -(2**31) and ends[1] < 2**31:
            found = _multiplier(steps[channel].tolist(), results.tolist(), ends, right)
        rows.append((0, 0) if found is None else (found, -right))
    return Multipliers(
        data=np.array(rows, np.int32).T.copy(),
        unproven=tuple(at for at, (multiplier, _shift) in enumerate(rows) if not multiplier),
    )


def _steps(scale: Floats, low: Integers, high: Integers, results: Integers) -> Integers:
    """Return the smallest sum of each channel and result, one beyond the reach where none is."""
    shape = len(scale), len(results)
    first = np.broadcast_to(low[:, np.newaxis], shape).copy()
    last = np.broadcast_to(high[:, np.newaxis] + 1, shape).copy()
    while (first < last).any():
        middle = (first + last) >> 1
        there = requantised(middle, scale[:, np.newaxis]) >= results
        last = np.where(there, np.minimum(middle, last), last)
        first = np.where(there, first, np.minimum(middle + 1, last))
    return first


def _multiplier(
    steps: list[int], results: list[int], ends: tuple[int, int], right: int
) -> int | None:
    """Return the multiplier in the middle of those that give all steps; None where none does.

    The engine has at least `result` from a sum on whose product is ``(2 * result - 1) << (30 +
    right)``; so the product of a step is that large, and that of the sum before it is not.
    """
    least, most = _LEAST, _MOST
    for step, result in zip(steps, results, strict=True):
        product = (2 * result - 1) << (30 + right)
        if step <= ends[1]:
            if step > 0:
                least = max(least, -(-product // step))
            elif step < 0:
                most = min(most, -product // -step)
            elif product > 0:
                return None
        before = step - 1
        if before >= ends[0]:
            if before > 0:
                most = min(most, (product - 1) // before)
            elif before < 0:
                least = max(least, -(-(1 - product) // -before))
            elif product < 1:
                return None
    return (least + most) // 2 if least <= most else None
