"""Converts real numbers to a tensor's integers, and back."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.errors import UserError, UserTypeError, unknown_name_error
from matloom.ir.graph import Array
from matloom.ir.scales import round_half_away
from matloom.program import Program, TensorInfo


def quantise_array(info: TensorInfo, real: npt.ArrayLike) -> Array:
    """Return real numbers as integers of a tensor, rounded as in TensorFlow Lite's QUANTIZE.

    ``round(real / scale) + zero_point``, with the quotient in float32 and halves away from zero.
    Values beyond the type saturate; NaN becomes the zero point. For a tensor without a scale,
    numbers are only cast to its type.

    Raises
    ------
    UserError
        The tensor has integers without a scale, but the numbers are not integers.
    """
    array = np.asarray(real)
    if info.quantised is None:
        if np.issubdtype(info.dtype, np.integer) and array.dtype.kind not in "iub":
            raise UserError(
                f"{info.name!r} of {info.dtype} has no scale, so it takes integers, not "
                f"{array.dtype}",
                hint="convert it: array.astype(...)",
            )
        return array.astype(info.dtype)
    limits = np.iinfo(info.dtype)
    with np.errstate(over="ignore"):
        quotients = array.astype(np.float32) / np.float32(info.quantised.scale)
    rounded = round_half_away(np.nan_to_num(quotients)) + info.quantised.zero_point
    result: Array = np.clip(rounded, limits.min, limits.max).astype(info.dtype)
    return result


def dequantise_array(info: TensorInfo, integers: npt.ArrayLike) -> Array:
    """Return the float32 numbers that a tensor's integers represent.

    ``scale * (integer - zero_point)``, as in TensorFlow Lite's DEQUANTIZE; without a scale, the
    values themselves.
    """
    array = np.asarray(integers)
    if info.quantised is None:
        return array
    centred = array.astype(np.float64) - info.quantised.zero_point
    return (info.quantised.scale * centred).astype(np.float32)


def _convert_by_name(
    role: str,
    infos: tuple[TensorInfo, ...],
    arrays: npt.ArrayLike | Mapping[str, npt.ArrayLike],
    convert: Callable[[TensorInfo, npt.ArrayLike], Array],
) -> Any:
    """Convert each array of a mapping by name, or one array; return a mapping or an array, too.

    One array is that of the only tensor in `infos`. `role` is "input" or "output", for messages.
    Raises `UserError` for an unknown name, or for one array if there are several tensors.
    """
    known = {info.name: info for info in infos}
    if isinstance(arrays, Mapping):
        for name in arrays:
            if name not in known:
                raise unknown_name_error(UserError, f"an {role}", name, known)
        return {name: convert(known[name], array) for name, array in arrays.items()}
    if len(infos) != 1:
        raise UserError(
            f"{role}s must be a mapping of {', '.join(known)}, not one array",
            hint="pass a dictionary from names to arrays",
        )
    return convert(infos[0], arrays)


class RealNumbers:
    """Base class of sessions: converts inputs from real numbers, and outputs to real numbers."""

    program: Program
    device: str

    def quantise(self, inputs: npt.ArrayLike | Mapping[str, npt.ArrayLike]) -> Any:
        """Return real numbers as integers for `run`, by the inputs' scales and zero points.

        Pass a mapping by name to get a mapping, or, for a network with one input, an array to get
        an array. Rounding is as in TensorFlow Lite; values beyond the type saturate. For an input
        without a scale, numbers are only cast to its type.

        Raises
        ------
        UserError
            No input has this name, or an input has integers without a scale and the numbers are
            real.
        """
        return _convert_by_name("input", self.program.inputs, inputs, quantise_array)

    def dequantise(self, outputs: npt.ArrayLike | Mapping[str, npt.ArrayLike]) -> Any:
        """Return the float32 numbers that outputs of `run` represent, as a mapping or an array.

        An output without a scale is returned unchanged.
        """
        return _convert_by_name("output", self.program.outputs, outputs, dequantise_array)

    def __repr__(self) -> str:
        """Return the device and the program."""
        return f"<{type(self).__name__} on device {self.device!r} of {self.program!r}>"

    def __reduce__(self) -> Any:
        """Raise `UserTypeError`: a session cannot be copied or pickled."""
        raise UserTypeError(
            "a session cannot be pickled or copied: it holds a device",
            hint="keep session.program (save, load), and load a session from it there",
        )
