"""Between real numbers and the integers of a tensor, by its scale and zero point."""

from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.program.records import TensorInfo

__all__ = ["dequantise", "quantise"]

Array = npt.NDArray[Any]


def quantise(info: TensorInfo, numbers: Array) -> Array:
    """Return the integers of a tensor's dtype that are nearest to real numbers.

    Halves are rounded away from zero and what is beyond the type becomes its end, as QUANTIZE of
    TensorFlow Lite does (``AffineQuantize``). A tensor of floats gets the numbers in its dtype.

    Raises
    ------
    ValueError
        An integer tensor without a scale, or numbers that are not finite.
    """
    dtype = np.dtype(info.dtype)
    if dtype.kind == "f":
        return numbers.astype(dtype)
    if info.quantised is None:
        raise ValueError(f"tensor {info.name!r} must have a scale to be quantised")
    if not np.isfinite(numbers).all():
        raise ValueError(f"numbers for tensor {info.name!r} must be finite")
    ratio = numbers.astype(np.float32) / np.float32(info.quantised.scale)
    wide = ratio.astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(wide) + 0.5), wide) + info.quantised.zero_point
    limits = np.iinfo(dtype)
    limited: Array = np.clip(rounded, limits.min, limits.max).astype(dtype)
    return limited


def dequantise(info: TensorInfo, integers: Array) -> Array:
    """Return the real numbers, float64, that a tensor's integers stand for.

    Floats, and integers without a scale, stand for themselves.
    """
    numbers: Array = integers.astype(np.float64)
    if info.quantised is None:
        return numbers
    return (numbers - info.quantised.zero_point) * info.quantised.scale
