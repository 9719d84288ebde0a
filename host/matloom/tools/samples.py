"""Converts samples from users to the shapes and dtypes that a network needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from matloom.errors import UserError
from matloom.ir.graph import Array, Graph
from matloom.program import Quantised, TensorInfo
from matloom.program.quantise import quantise


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Inputs by name, each (samples, *shape); `notes` are sentences on conversions."""

    arrays: Mapping[str, Array]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def sample(self, number: int) -> dict[str, Array]:
        """Return the inputs of sample `number` by name."""
        return {name: array[number] for name, array in self.arrays.items()}


def network_samples(infos: Sequence[TensorInfo], data: Array | Mapping[str, Array]) -> Samples:
    """Return the samples for a program's inputs.

    Each input has samples along an extra leading axis, or along the model's batch. Values are
    converted if that is safe: real numbers with the input's scale, integers of other widths if they
    fit.

    Parameters
    ----------
    data:
        Arrays by name, or one array if there is one input. A single input may also be named ``x``;
        other arrays are then ignored.

    Raises
    ------
    UserError
        An input is missing, or has another shape, dtype or number of samples.
    """
    arrays, notes = {}, []
    for info in infos:
        array = np.asarray(_array_for(info, data, alone=len(infos) == 1))
        converted, note = _convert(info, array)
        arrays[info.name] = _stack(info, converted)
        notes += [note] * bool(note)
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        each = ", ".join(f"{name} {count}" for name, count in lengths.items())
        raise UserError(
            f"inputs must have the same number of samples, not {each}",
            hint="cut the longer ones",
        )
    if not lengths or not next(iter(lengths.values())):
        raise UserError("the inputs have no sample", hint="give one or more")
    return Samples(arrays=arrays, notes=tuple(notes))


def graph_samples(graph: Graph, data: Array | Mapping[str, Array]) -> Samples:
    """Return the samples for a graph's inputs, like `network_samples` for a program."""
    infos = []
    for number in graph.inputs:
        tensor = graph.tensors[number]
        quantised = None
        if tensor.quantisation is not None and len(tensor.quantisation.scale) == 1:
            quantised = Quantised(scale=tensor.scale, zero_point=tensor.zero_point)
        infos.append(
            TensorInfo(
                name=tensor.name, shape=tensor.shape, dtype=tensor.dtype, quantised=quantised
            )
        )
    return network_samples(infos, data)


def _array_for(info: TensorInfo, data: Array | Mapping[str, Array], *, alone: bool) -> Array:
    """Return the array passed for an input; `alone` is set if the network has only this input."""
    if not isinstance(data, Mapping):
        if alone:
            return data
        raise UserError(
            "a network with several inputs must get arrays by name, not one array",
            hint="see their names with: matloom explain NET",
        )
    for name in (info.name, *(["x"] if alone else [])):
        if name in data:
            return data[name]
    if alone and len(data) == 1:
        return next(iter(data.values()))
    also = " or 'x'" if alone else ""
    raise UserError(
        f"no array for input {info.name!r}{also} among {', '.join(map(repr, data)) or 'none'}",
        hint="see the names of inputs with: matloom explain NET",
    )


def _stack(info: TensorInfo, array: Array) -> Array:
    """Return an array with samples along an additional leading axis.

    Raises
    ------
    UserError
        The shape fits neither one sample nor several.
    """
    shape = info.shape
    if array.shape == shape:
        return array[np.newaxis]
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
        return array
    batched = shape and array.ndim == len(shape) and array.shape[1:] == shape[1:]
    if batched and len(array) % shape[0] == 0:
        return array.reshape(-1, *shape)
    raise UserError(
        f"input {info.name!r} must have shape (samples, {', '.join(map(str, shape))}) or samples "
        f"along its first axis, not {array.shape}",
        hint="matloom explain NET lists the inputs and their shapes",
    )


def _convert(info: TensorInfo, array: Array) -> tuple[Array, str]:
    """Return an array in the dtype of an input, and a sentence on the conversion, or an empty one.

    Raises
    ------
    UserError
        The array cannot be converted safely.
    """
    wanted = np.dtype(info.dtype)
    if array.dtype == wanted:
        return array, ""
    if array.dtype.kind == "f" and wanted.kind == "f":
        return array.astype(wanted), f"input {info.name!r}: {array.dtype} taken as {wanted}"
    if array.dtype.kind == "f" and info.quantised is not None:
        scale, zero = info.quantised.scale, info.quantised.zero_point
        note = (
            f"input {info.name!r}: {array.dtype} quantised to {wanted} by its scale {scale:.8g} "
            f"and zero point {zero}"
        )
        return quantise(info, array), note
    if array.dtype.kind in "iu" and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if array.size == 0 or (array.min() >= limits.min and array.max() <= limits.max):
            return array.astype(wanted), f"input {info.name!r}: {array.dtype} taken as {wanted}"
    raise UserError(
        f"input {info.name!r} must be {wanted}, not {array.dtype} of {array.min()} to {array.max()}"
        if array.size and array.dtype.kind in "iuf"
        else f"input {info.name!r} must be {wanted}, not {array.dtype}",
        hint="give the real numbers that the integers represent, as float32"
        if info.quantised is not None
        else "",
    )
