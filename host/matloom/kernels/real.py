"""Real numbers to a tensor's integers, and back."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.errors import UserError, UserTypeError, unknown
from matloom.ir.graph import Array
from matloom.ir.scales import round_half_away
from matloom.program import Program, TensorInfo

__all__ = ["RealNumbers", "dequantised", "quantised"]


def quantised(info: TensorInfo, real: npt.ArrayLike) -> Array:
    """Return numbers as the integers of a tensor, as TensorFlow Lite's QUANTIZE rounds them.

    ``round(real / scale) + zero_point``: the quotient in float32, halves away from zero; what is
    beyond the type saturates, what is not a number becomes the zero point. A tensor without a
    scale takes numbers as they are, in its type.

    Errors
    ------
    UserError
        The tensor has no scale and is of integers, and the numbers are not.
    """
    array = np.asarray(real)
    if info.quantised is None:
        if np.issubdtype(info.dtype, np.integer) and array.dtype.kind not in "iub":
            raise UserError(
                f"{info.name!r} of {info.dtype} has no scale, so it takes integers, not "
                f"{array.dtype}"
            )
        return array.astype(info.dtype)
    limits = np.iinfo(info.dtype)
    with np.errstate(over="ignore"):
        quotients = array.astype(np.float32) / np.float32(info.quantised.scale)
    rounded = round_half_away(np.nan_to_num(quotients)) + info.quantised.zero_point
    result: Array = np.clip(rounded, limits.min, limits.max).astype(info.dtype)
    return result


def dequantised(info: TensorInfo, integers: npt.ArrayLike) -> Array:
    """Return the float32 numbers that a tensor's integers stand for; without a scale, themselves.

    ``scale * (integer - zero_point)``, as TensorFlow Lite's DEQUANTIZE.
    """
    array = np.asarray(integers)
    if info.quantised is None:
        return array
    centred = array.astype(np.float64) - info.quantised.zero_point
    return (info.quantised.scale * centred).astype(np.float32)


def _by_name(
    side: str,
    infos: tuple[TensorInfo, ...],
    given: npt.ArrayLike | Mapping[str, npt.ArrayLike],
    convert: Callable[[TensorInfo, npt.ArrayLike], Array],
) -> Any:
    """Return arrays converted: those of a mapping by name, or one, of the only tensor of a side.

    Raises `UserError` for a name that is no tensor's, and for one array where there are several.
    """
    known = {info.name: info for info in infos}
    if isinstance(given, Mapping):
        for name in given:
            if name not in known:
                raise unknown(UserError, f"an {side}", name, known)
        return {name: convert(known[name], array) for name, array in given.items()}
    if len(infos) != 1:
        raise UserError(f"{side}s must be a mapping of {', '.join(known)}, not one array")
    return convert(infos[0], given)


class RealNumbers:
    """Real-number methods of a session; it has a program, and holds a device."""

    program: Program

    def quantise(self, inputs: npt.ArrayLike | Mapping[str, npt.ArrayLike]) -> Any:
        """Return real numbers as `run` takes them: integers of the inputs' scales and zero points.

        A mapping of names gives a mapping, one array, for a network of one input, an array. The
        rounding is TensorFlow Lite's; what is beyond the type saturates. An input without a scale
        takes numbers in its own type.

        Errors
        ------
        UserError
            A name is no input's; an input of integers has no scale, and the numbers are real.
        """
        return _by_name("input", self.program.inputs, inputs, quantised)

    def dequantise(self, outputs: npt.ArrayLike | Mapping[str, npt.ArrayLike]) -> Any:
        """Return the float32 numbers that outputs of `run` stand for, in the same form.

        An output without a scale stands for itself.
        """
        return _by_name("output", self.program.outputs, outputs, dequantised)

    def __reduce__(self) -> Any:
        """Refuse to be copied or pickled."""
        raise UserTypeError(
            "a session cannot be pickled or copied: it holds a device",
            hint="keep session.program (save, load), and load a session from it there",
        )
