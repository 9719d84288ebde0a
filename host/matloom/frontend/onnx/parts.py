"""Selects and splits elements of int8 tensors along an axis."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.values import IN_INT8, Values
from matloom.ir.attributes import Axis, Split
from matloom.ir.graph import Op


def add_gather(values: Values, number: int, axis: int, indices: Sequence[int], name: str) -> int:
    """Add a GATHER of tensor `number` at constant indices along an axis.

    Returns the tensor number of its output, the value `name`; or `number` if the indices select all
    elements in order.

    Raises
    ------
    Unsupported
        There are no indices.
    """
    if not indices:
        raise Unsupported("takes no part of a tensor")
    tensor = values.tensors[number]
    if [*indices] == [*range(tensor.shape[axis])]:
        return number
    constant = values.constant(np.array(indices, np.int32), f"{name} places")
    shape = (*tensor.shape[:axis], len(indices), *tensor.shape[axis + 1 :])
    operands, along = [number, constant], Axis(axis=axis)
    return values.add_operator(Op.GATHER, operands, shape, tensor.quantisation, name, along)


def add_split(
    values: Values, number: int, axis: int, sizes: Sequence[int], names: Sequence[str]
) -> list[int]:
    """Add a SPLIT of an int8 tensor along an axis; return the tensor numbers of its outputs.

    `sizes` are the outputs' lengths along the axis, `names` their names.
    """
    tensor, made = values.tensors[number], []
    for name, size in zip(names, sizes, strict=True):
        shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
        made.append(values.add(replace(tensor, name=f"{name}{IN_INT8}", shape=shape)))
    op = Op.SPLIT if len({*sizes}) == 1 else Op.SPLIT_V
    values.node(op, [number], made, Split(axis=axis, sizes=tuple(sizes)))
    return made
