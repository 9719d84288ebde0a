"""Output shapes of operators that move, select or reduce elements."""

import math
from collections.abc import Sequence

from matloom.ir.attributes import (
    Attributes,
    Axis,
    Pad,
    Reduce,
    Resize,
    Slice,
    Split,
    Transpose,
    TransposeConv,
)
from matloom.ir.shapes import Shape, require_bias, require_ranks, window_shape


def _check_axis(axis: int, rank: int) -> int:
    """Return `axis`; raise `ValueError` unless it is 0 to rank - 1."""
    if not 0 <= axis < rank:
        raise ValueError(f"the axis must be 0 to {rank - 1}, not {axis}")
    return axis


def _require_each_axis(subject: str, values: Sequence[int], shape: Shape) -> None:
    """Raise `ValueError` unless there is a value for each axis; `subject` names the values."""
    if len(values) != len(shape):
        raise ValueError(f"{subject} must be given for {len(shape)} axes, not {len(values)}")


def concatenation_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape of inputs concatenated along an axis."""
    assert isinstance(attributes, Axis)
    first = shapes[0]
    axis = _check_axis(attributes.axis, len(first))
    for shape in shapes:
        if (*shape[:axis], *shape[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]):
            raise ValueError(f"the inputs must agree except axis {axis}, unlike {first}, {shape}")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def gathered_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the output shape of GATHER: the indices' axes replace one axis of the first input."""
    assert isinstance(attributes, Axis)
    data, indices = shapes
    axis = _check_axis(attributes.axis, len(data))
    return (*data[:axis], *indices, *data[axis + 1 :])


def pack_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape of inputs stacked along a new axis."""
    assert isinstance(attributes, Axis)
    first = shapes[0]
    axis = _check_axis(attributes.axis, len(first) + 1)
    for shape in shapes:
        if shape != first:
            raise ValueError(f"the inputs must have one shape, unlike {first}, {shape}")
    return (*first[:axis], len(shapes), *first[axis:])


def unpacked_shapes(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    """Return the output shapes of UNPACK: for each, the input's shape without one axis."""
    assert isinstance(attributes, Axis)
    axis = _check_axis(attributes.axis, len(shapes[0]))
    return [(*shapes[0][:axis], *shapes[0][axis + 1 :])] * shapes[0][axis]


def split_shapes(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    """Return the shapes of the parts into which an axis is split."""
    assert isinstance(attributes, Split)
    shape = shapes[0]
    axis = _check_axis(attributes.axis, len(shape))
    if sum(attributes.sizes) != shape[axis] or min(attributes.sizes) < 1:
        raise ValueError(f"the parts must add up to {shape[axis]}, not {attributes.sizes}")
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in attributes.sizes]


def pad_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape of the padded input."""
    assert isinstance(attributes, Pad)
    before, after = attributes.before, attributes.after
    for values in (before, after):
        _require_each_axis("padding", values, shapes[0])
        if min(values, default=0) < 0:
            raise ValueError(f"padding must be 0 or more, not {values}")
    return tuple(map(sum, zip(before, shapes[0], after, strict=True)))


def slice_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape of a slice without the axes that it drops."""
    assert isinstance(attributes, Slice)
    for field in ("begin", "size", "step"):
        _require_each_axis(field, getattr(attributes, field), shapes[0])
    axes = zip(shapes[0], attributes.begin, attributes.size, attributes.step, strict=True)
    for length, begin, size, step in axes:
        last = begin + (size - 1) * step
        if size < 1 or not (0 <= begin < length and 0 <= last < length):
            raise ValueError(f"a slice must lie within 0 to {length - 1}, not {begin} to {last}")
    if 0 in attributes.step:
        raise ValueError(f"steps must be other than 0, not {attributes.step}")
    if any(axis not in range(len(shapes[0])) for axis in attributes.dropped):
        raise ValueError(f"dropped axes must be of {len(shapes[0])}, not {attributes.dropped}")
    if any(attributes.size[axis] != 1 for axis in attributes.dropped):
        raise ValueError(f"dropped axes must have 1 element, not {attributes.size}")
    return tuple(
        size for axis, size in enumerate(attributes.size) if axis not in attributes.dropped
    )


def transposed_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the input's shape with its axes in the order of the permutation."""
    assert isinstance(attributes, Transpose)
    if sorted(attributes.permutation) != list(range(len(shapes[0]))):
        raise ValueError(
            f"the permutation must name {len(shapes[0])} axes once, not {attributes.permutation}"
        )
    return tuple(shapes[0][axis] for axis in attributes.permutation)


def reduced_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the input's shape with reduced axes of length one, or without them."""
    assert isinstance(attributes, Reduce)
    axes = [_check_axis(axis, len(shapes[0])) for axis in attributes.axes]
    if attributes.keep_dims:
        return tuple(1 if axis in axes else n for axis, n in enumerate(shapes[0]))
    return tuple(n for axis, n in enumerate(shapes[0]) if axis not in axes)


def arg_extreme_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the output shape of ARG_MAX and ARG_MIN: the input's shape without one axis."""
    assert isinstance(attributes, Axis)
    axis = _check_axis(attributes.axis, len(shapes[0]))
    return (*shapes[0][:axis], *shapes[0][axis + 1 :])


def resized_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape of a resized image (batch, height, width, channels)."""
    assert isinstance(attributes, Resize)
    require_ranks(shapes, 4)
    if min(attributes.size) < 1:
        raise ValueError(f"the size must be at least 1, not {attributes.size}")
    return (shapes[0][0], *attributes.size, shapes[0][3])


def transposed_convolution_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the output shape of TRANSPOSE_CONV, for an image (batch, height, width, channels)."""
    assert isinstance(attributes, TransposeConv)
    require_ranks(shapes, 4, 4)
    (batch, height, width, channels), (outputs, rows, columns, depth) = shapes[:2]
    if depth != channels:
        raise ValueError(f"the weights must have {channels} input channels, not {depth}")
    require_bias(shapes, outputs)
    if math.prod(attributes.size) < 1:
        raise ValueError(f"the size must be at least 1, not {attributes.size}")
    stride, padding = attributes.stride, attributes.padding
    there = window_shape(attributes.size, (rows, columns), stride, (1, 1), padding)
    if there != (height, width):
        raise ValueError(
            f"an output of {attributes.size} needs an image of {there}, not {(height, width)}"
        )
    return (batch, *attributes.size, outputs)
