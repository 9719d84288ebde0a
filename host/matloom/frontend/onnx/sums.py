"""Converts QLinearAdd to TensorFlow Lite's ADD, which scales bytes with 20 additional bits.

If sums of some pairs of bytes differ from ONNX Runtime's, scales close to the file's are tried.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.pairs import Pairs
from matloom.frontend.onnx.quantised import Model
from matloom.frontend.onnx.values import Values
from matloom.ir.graph import Array, Op, Quantisation

#: Distance of a sum from a half, in steps of the output, below which float32 errors decide how the
#: sum is rounded.
_HALF_MARGIN = 1e-3
#: Maximum number of pairs whose sums are that close to a half. If there are more, the scales
#: produce exact halves, and other scales do not help.
_MAX_NEAR_HALF = 2048
#: Relative changes of a scale to try: multiples of `_STEP`, which is a fraction of float32's
#: precision, up to `_STEPS` times as large in either direction.
_STEP, _STEPS = 2.0**-26, 24
#: Maximum number of pairs of changed scales that are compared with ONNX Runtime.
_MAX_TRIALS = 8


def convert_sum(values: Values, model: Model, node: Any) -> Claim:
    """Convert a QLinearAdd; return the number of pairs of bytes with results that can differ.

    Raises
    ------
    Unsupported
        The engine does not support such a sum.
    """
    pairs = Pairs(values, model, node)
    scales, differing = _fit_quantisations(pairs)
    pairs.add(values, Op.ADD, scales)
    return Claim(unit="pairs of inputs", reachable=len(pairs.expected), differing=differing)


def _fit_quantisations(pairs: Pairs) -> tuple[list[Quantisation], int]:
    """Return the best quantisations of operands and output, and the number of pairs that differ."""
    best = pairs.int8_quantisations()
    least = pairs.count_differences(Op.ADD, best)
    if not least:
        return best, 0
    near = _near_half(best, pairs.bytes)
    if near.sum() > _MAX_NEAR_HALF:
        return best, least
    few = [each[near] for each in pairs.bytes]
    for trial in _nearby_quantisations(pairs.int8_quantisations(), few, pairs.expected[near]):
        if pairs.count_differences(Op.ADD, trial, subset=near) < least:
            misses = pairs.count_differences(Op.ADD, trial)
            if misses < least:
                best, least = trial, misses
        if not least:
            break
    return best, least


def _near_half(scales: list[Quantisation], pairs: list[Array]) -> Array:
    """Return the mask of the pairs whose sum, before rounding, is near a half and in range."""
    total = sum(_contributions(scales, pairs)) + scales[2].zero_point[0]
    near = np.abs(total - np.floor(total) - 0.5) < _HALF_MARGIN
    result: Array = near & (total > -129) & (total < 128)
    return result


def _contributions(scales: list[Quantisation], pairs: list[Array]) -> list[Array]:
    """Return each operand's contribution to the output for each pair, in steps of the output."""
    (output_scale,) = scales[2].scale
    return [
        (side.astype(np.float64) - given.zero_point[0]) * given.scale[0] / output_scale
        for side, given in zip(pairs, scales[:2], strict=True)
    ]


def _nearby_quantisations(
    scales: list[Quantisation], pairs: list[Array], expected: Array
) -> Iterator[list[Quantisation]]:
    """Yield quantisations with scales close to the file's, best first.

    The best have the fewest differences. These are estimated in float64, for `pairs` only. At most
    `_MAX_TRIALS` are yielded.
    """
    (first,), (second,), (third,) = (each.scale for each in scales)
    zeros = [each.zero_point[0] for each in scales]
    one, two = _contributions(scales, pairs)
    steps = 1 + np.arange(-_STEPS, _STEPS + 1) * _STEP
    found = np.floor(
        one * steps[:, np.newaxis, np.newaxis] + two * steps[:, np.newaxis] + zeros[2] + 0.5
    )
    misses = (np.clip(found, -128, 127) != expected).sum(axis=2)
    distance = np.abs(np.subtract.outer(steps, -steps + 2))
    for place in np.lexsort((distance.ravel(), misses.ravel()))[:_MAX_TRIALS]:
        row, column = divmod(int(place), len(steps))
        changed = (first * steps[row], second * steps[column], third)
        yield [
            Quantisation(scale=(scale,), zero_point=(zero,))
            for scale, zero in zip(changed, zeros, strict=True)
        ]
