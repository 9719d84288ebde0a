"""Extends tensors by copies of their own slices, such as rows and columns of images."""

from collections.abc import Sequence

from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.move_options import MOST_JOINED
from matloom.ir.attributes import Axis, Slice
from matloom.ir.graph import Op


def extend(
    values: FloatValues,
    number: int,
    axis: int,
    indices_before: Sequence[int],
    indices_after: Sequence[int],
) -> int:
    """Return the number of a tensor extended by copies of its slices at indices along an axis.

    `indices_before` and `indices_after` are the indices of the slices that are put before and after
    it, in order.
    """
    shape = values.builder.tensors[number].shape
    known = dict[int, int]()
    for place in (*indices_before, *indices_after):
        if place not in known:
            begin, size = [0] * len(shape), list(shape)
            begin[axis], size[axis] = place, 1
            part = Slice(begin=tuple(begin), size=tuple(size), step=(1,) * len(shape))
            known[place] = values.add(Op.STRIDED_SLICE, [number], part)
    sides = ([known[place] for place in places] for places in (indices_before, indices_after))
    parts = [[join(values, side, axis)] if side else [] for side in sides]
    return join(values, [*parts[0], number, *parts[1]], axis)


def join(values: FloatValues, parts: Sequence[int], axis: int) -> int:
    """Return the tensor number of the concatenation of tensors along an axis."""
    while len(parts) > 1:
        groups = [parts[at : at + MOST_JOINED] for at in range(0, len(parts), MOST_JOINED)]
        parts = [
            values.add(Op.CONCATENATION, group, Axis(axis=axis)) if len(group) > 1 else group[0]
            for group in groups
        ]
    return parts[0]
