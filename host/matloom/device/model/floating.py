"""EXEC and POST of floating-point numbers in NumPy, in the order that the ISA defines."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.floats import FLOAT_FORMATS, FP32, NAN, FloatFormat, add, limit, narrow, widen
from matloom.arch.modes import FP32_FORMAT, MAC_MODES


@functools.cache
def _values_by_pattern(name: str) -> NDArray[np.float32]:
    """Return the float32 value of each bit pattern of a format, indexed by pattern."""
    form = FLOAT_FORMATS[name]
    patterns: NDArray[np.int64] = np.asarray(widen(np.arange(1 << form.bits), form))
    values: NDArray[np.float32] = patterns.astype(np.uint32).view(np.float32)
    return values


def _float_values(raw: NDArray[np.uint8], name: str) -> NDArray[np.float32]:
    """Return the float32 values of numbers in a format, whose bytes are the last axis.

    The lowest byte comes first.
    """
    dtype = np.uint8 if FLOAT_FORMATS[name].bytes == 1 else np.dtype("<u2")
    numbers: NDArray[np.float32] = _values_by_pattern(name)[np.ascontiguousarray(raw).view(dtype)]
    return numbers


def sums_of_steps(
    operands: NDArray[Any],
    tiles: NDArray[Any],
    name: str,
    elements: int,
    before: NDArray[np.int32] | None,
) -> NDArray[np.int32]:
    """Return fp32 patterns (positions, columns) of sums over all steps, in order, and `before`.

    Parameters
    ----------
    operands, tiles:
        Bytes of the operands, (positions, steps, rows) and (steps, rows, columns).
    name:
        Name of the mode.
    elements:
        Number of products of a step (`Config.float_rows`), which are added in a balanced tree of
        neighbours.
    before:
        Patterns to add to; None to start with the first step's sum.
    """
    size = FLOAT_FORMATS[name].bytes
    left = _float_values(operands.view(np.uint8)[:, :, : elements * size], name)
    # An element occupies two rows, whatever its size.
    pairs = np.moveaxis(tiles.view(np.uint8), 1, 2)[:, :, : 2 * elements]
    low_first = pairs.reshape(*pairs.shape[:2], elements, 2)[..., :size]
    right = np.moveaxis(_float_values(low_first, name)[..., 0], 1, 2)
    total = None if before is None else before.view(np.float32)
    with np.errstate(all="ignore"):
        for step in range(left.shape[1]):
            terms = left[:, step, :, np.newaxis] * right[step]
            while terms.shape[1] > 1:
                terms = terms[:, 0::2] + terms[:, 1::2]
            total = terms[:, 0] if total is None else total + terms[:, 0]
    assert total is not None
    patterns: NDArray[np.int32] = np.where(np.isnan(total), NAN, total.view(np.int32))
    return patterns.astype(np.int32)


def _float_format(format_index: int) -> FloatFormat:
    """Return the floating-point format of a number in field `pre_shift`."""
    return FP32 if format_index == FP32_FORMAT else FLOAT_FORMATS[MAC_MODES[format_index]]


def elements_of(raw: NDArray[np.uint8], format_index: int) -> NDArray[np.int64]:
    """Return fp32 bit patterns of numbers whose bytes are the last axis, lowest first.

    `format_index` is the format: the index of a mode in `MAC_MODES`, or `FP32_FORMAT`.
    """
    form = _float_format(format_index)
    patterns = (raw.astype(np.int64) << 8 * np.arange(form.bytes)).sum(axis=-1)
    return patterns if form is FP32 else np.asarray(widen(patterns, form))


def post_results(
    values: NDArray[np.int64], bias: NDArray[np.int64], low: int, high: int
) -> NDArray[np.int64]:
    """Return fp32 bit patterns with a bias added, limited to `low` and `high`.

    The limits are fp8_e5m2 bit patterns, as signed or unsigned bytes.
    """
    limits = FLOAT_FORMATS["fp8_e5m2"]
    biased = add(values & 0xFFFFFFFF, bias & 0xFFFFFFFF)
    return np.asarray(limit(biased, widen(low & 255, limits), widen(high & 255, limits)))


def written_bytes(patterns: NDArray[np.int64], format_index: int) -> NDArray[np.uint8]:
    """Return the bytes of fp32 bit patterns in a format, along a new last axis, lowest first.

    `format_index` is the format, as in `elements_of`.
    """
    form = _float_format(format_index)
    if form is not FP32:
        patterns = np.asarray(narrow(patterns, form))
    split = patterns[..., np.newaxis] >> 8 * np.arange(form.bytes)
    return (split & 255).astype(np.uint8)
