"""Parts of a tensor along an axis."""

from collections.abc import Sequence
from dataclasses import replace

from matloom.frontend.onnx.values import IN_INT8, Values
from matloom.ir.attributes import Split
from matloom.ir.graph import Op


def add_parts(
    values: Values, number: int, axis: int, sizes: Sequence[int], names: Sequence[str]
) -> list[int]:
    """Split an int8 tensor along an axis; return the parts, which have these sizes and names."""
    tensor, made = values.tensors[number], []
    for name, size in zip(names, sizes, strict=True):
        shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
        made.append(values.add(replace(tensor, name=f"{name}{IN_INT8}", shape=shape)))
    op = Op.SPLIT if len({*sizes}) == 1 else Op.SPLIT_V
    values.node(op, [number], made, Split(axis=axis, sizes=tuple(sizes)))
    return made
