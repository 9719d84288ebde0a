"""Takes parts of a tensor along an axis."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.values import IN_INT8, Values
from matloom.ir.attributes import Axis, Split
from matloom.ir.graph import Op


def take_places(values: Values, number: int, axis: int, places: Sequence[int], name: str) -> int:
    """Return the number of an int8 tensor with the elements of another at `places` along an axis.

    Raises
    ------
    Unsupported
        There are no places.
    """
    if not places:
        raise Unsupported("takes no part of a tensor")
    tensor = values.tensors[number]
    if [*places] == [*range(tensor.shape[axis])]:
        return number
    indices = values.constant(np.array(places, np.int32), f"{name} places")
    shape = (*tensor.shape[:axis], len(places), *tensor.shape[axis + 1 :])
    operands, along = [number, indices], Axis(axis=axis)
    return values.add_operator(Op.GATHER, operands, shape, tensor.quantisation, name, along)


def add_parts(
    values: Values, number: int, axis: int, sizes: Sequence[int], names: Sequence[str]
) -> list[int]:
    """Split an int8 tensor along an axis; return the tensor numbers of the parts.

    The parts have the sizes `sizes` along the axis, and the names `names`.
    """
    tensor, made = values.tensors[number], []
    for name, size in zip(names, sizes, strict=True):
        shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
        made.append(values.add(replace(tensor, name=f"{name}{IN_INT8}", shape=shape)))
    op = Op.SPLIT if len({*sizes}) == 1 else Op.SPLIT_V
    values.node(op, [number], made, Split(axis=axis, sizes=tuple(sizes)))
    return made
