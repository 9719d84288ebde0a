"""Takes parts of a tensor along an axis."""

from collections.abc import Sequence
from dataclasses import replace

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.move_options import MOST_JOINED, runs
from matloom.frontend.onnx.values import IN_INT8, Values
from matloom.ir.attributes import Axis, Slice, Split
from matloom.ir.graph import Op


def take_places(values: Values, number: int, axis: int, places: Sequence[int], name: str) -> int:
    """Return the number of an int8 tensor with the elements of another at `places` along an axis.

    Raises
    ------
    Unsupported
        There are no places, or they form more evenly spaced ranges than a CONCATENATION can join.
    """
    tensor, parts = values.tensors[number], list[int]()
    found = list(runs(places))
    if not 0 < len(found) <= MOST_JOINED:
        raise Unsupported(f"takes {len(found)} parts of a tensor; it must be 1 to {MOST_JOINED}")
    for run in found:
        begin, size, step = [0] * len(tensor.shape), list(tensor.shape), [1] * len(tensor.shape)
        begin[axis], size[axis], step[axis] = run.start, len(run), run.step
        part = Slice(begin=tuple(begin), size=tuple(size), step=tuple(step))
        made = Op.STRIDED_SLICE, [number], tuple(size), tensor.quantisation, name, part
        whole = run == range(tensor.shape[axis])
        parts.append(number if whole else values.add_operator(*made))
    if len(parts) == 1:
        return parts[0]
    shape = (*tensor.shape[:axis], len(places), *tensor.shape[axis + 1 :])
    joined = Axis(axis=axis)
    return values.add_operator(Op.CONCATENATION, parts, shape, tensor.quantisation, name, joined)


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
