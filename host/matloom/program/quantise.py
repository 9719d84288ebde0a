"""Conversion between real numbers and the integers of a tensor, by scale and zero point."""

from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.errors import UserError
from matloom.program.records import TensorInfo

Array = npt.NDArray[Any]


def quantise(info: TensorInfo, numbers: Array) -> Array:
    """Return the integers, in a tensor's dtype, that represent real numbers most closely.

    Halves are rounded away from zero and values beyond the type saturate, as in TensorFlow Lite's
    QUANTIZE (``AffineQuantize``). For a float tensor, numbers are only cast to its dtype.

    Raises
    ------
    ValueError
        An integer tensor has no scale, or numbers are not finite.
    """
    dtype = np.dtype(info.dtype)
    if dtype.kind == "f":
        return numbers.astype(dtype)
    if info.quantised is None:
        raise UserError(
            f"tensor {info.name!r} must have a scale to be quantised",
            hint="pass integers of its type",
        )
    if not np.isfinite(numbers).all():
        raise UserError(
            f"numbers for tensor {info.name!r} must be finite", hint="replace NaN and infinity"
        )
    ratio = numbers.astype(np.float32) / np.float32(info.quantised.scale)
    wide = ratio.astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(wide) + 0.5), wide) + info.quantised.zero_point
    limits = np.iinfo(dtype)
    limited: Array = np.clip(rounded, limits.min, limits.max).astype(dtype)
    return limited


def dequantise(info: TensorInfo, integers: Array) -> Array:
    """Return the real numbers, as float64, that a tensor's integers represent.

    Floats and integers without a scale represent themselves.
    """
    numbers: Array = integers.astype(np.float64)
    if info.quantised is None:
        return numbers
    return (numbers - info.quantised.zero_point) * info.quantised.scale
