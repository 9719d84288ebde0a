"""Splits the inputs of a call into samples, of which all inputs must have the same number."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from matloom.errors import UserError, UserTypeError, did_you_mean
from matloom.program.program import Program
from matloom.program.records import TensorInfo

Array = npt.NDArray[Any]


def require_inputs(program: Program, inputs: Mapping[str, Array]) -> int:
    """Check the inputs of a call; return their number of samples, 1 if the network has no input.

    Raises
    ------
    ValueError, TypeError
        A name, shape or dtype does not match the model, or inputs differ in the number of samples.
    """
    wanted = {info.name: info for info in program.inputs}
    if set(inputs) != set(wanted):
        names = sorted(map(str, inputs))
        near = (did_you_mean(name, wanted) for name in names if name not in wanted)
        raise UserError(
            f"inputs must be named {sorted(wanted)}, not {names}",
            hint=next(filter(None, near), "matloom explain NET lists the inputs"),
        )
    samples = {
        _sample_count(info, _as_array(name, inputs[name])) for name, info in wanted.items()
    } or {1}
    if len(samples) != 1:
        raise UserError(
            f"all inputs must have the same number of samples, not {sorted(samples)}",
            hint="give each input the same length along its first axis",
        )
    return samples.pop()


def require_single(program: Program, *, outputs: bool) -> None:
    """Raise `ValueError` unless a network has one input and, if `outputs` is set, one output."""
    if len(program.inputs) != 1 or (outputs and len(program.outputs) != 1):
        names = ", ".join(info.name for info in program.inputs)
        ends = f"{len(program.inputs)} inputs and {len(program.outputs)} outputs"
        raise UserError(
            f"inputs must be a mapping of {names} for a network of {ends}, not one array",
            hint="pass a dictionary from names to arrays",
        )


def _as_array(name: str, given: Any) -> Array:
    """Return an input as an array; raise an error if its nested lists differ in length."""
    try:
        return np.asarray(given)
    except ValueError as error:
        raise UserError(
            f"input {name!r} must be an array: {error}",
            hint="give each list of an axis the same length",
        ) from None


def _conversion_hint(info: TensorInfo, array: Array) -> str:
    """Return a hint, for an error message, on how to convert an array to the dtype of an input."""
    if info.quantised is not None and array.dtype.kind == "f":
        scale, zero = np.float32(info.quantised.scale), info.quantised.zero_point
        return f"quantise it: Session.quantise does, or round(x / {scale}) + {zero} as {info.dtype}"
    if array.dtype.kind in "iufb":
        return f"convert it: array.astype({info.dtype!r})"
    return "matloom explain NET lists the inputs and their types"


def _sample_count(info: TensorInfo, array: Array) -> int:
    """Return the number of samples in an array; raise an error if its dtype or shape is wrong."""
    if array.dtype != np.dtype(info.dtype):
        raise UserTypeError(
            f"input {info.name!r} must be {info.dtype}, not {array.dtype}",
            hint=_conversion_hint(info, array),
        )
    rule = f"input {info.name!r} must have shape {info.shape}"
    if array.ndim != len(info.shape) or array.shape[1:] != info.shape[1:]:
        is_single = array.shape == info.shape[1:]
        raise UserError(
            f"{rule}, or more samples of it, not {array.shape}",
            hint="add the axis of the batch: array[numpy.newaxis]"
            if is_single
            else "matloom explain NET lists the inputs and their shapes",
        )
    if not info.shape or array.shape == info.shape:
        return 1
    if array.shape[0] == 0 or info.shape[0] == 0 or array.shape[0] % info.shape[0]:
        raise UserError(
            f"{rule}, or a whole number of samples, not {array.shape}",
            hint=f"give a multiple of {info.shape[0]} along the first axis",
        )
    return int(array.shape[0] // info.shape[0])


def samples_of(program: Program, inputs: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """Yield the inputs of each sample, by name; raise the errors of `require_inputs`."""
    for index in range(require_inputs(program, inputs)):
        sample = {}
        for info in program.inputs:
            array = np.asarray(inputs[info.name])
            batch = slice(index * info.shape[0], (index + 1) * info.shape[0]) if info.shape else ...
            sample[info.name] = array[batch]
        yield sample


def concatenate_results(results: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return the results of samples, concatenated along their first axis; by name.

    A scalar output has the value of the last sample. Raises `ValueError` for an output whose other
    axes differ from sample to sample.
    """
    return {name: _concatenate(name, [result[name] for result in results]) for name in results[0]}


def _concatenate(name: str, arrays: Sequence[Array]) -> Array:
    """Return an output of all samples, along their first axis; of scalars, the last one."""
    if not arrays[0].ndim:
        return arrays[-1]
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1:
        raise UserError(
            f"samples must give output {name!r} one shape to be joined, not {sorted(shapes)}",
            hint="run the samples one by one",
        )
    return np.concatenate(arrays)
