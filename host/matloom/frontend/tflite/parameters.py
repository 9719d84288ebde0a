"""Functions that read an operator's attributes from constant tensors, by operator."""

from collections.abc import Callable, Sequence
from typing import Any

import tflite

from matloom.frontend.errors import Contradiction, Unsupported
from matloom.frontend.tflite.flatbuffer import options
from matloom.ir.attributes import (
    NO_PADDING,
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
from matloom.ir.graph import Op, Tensor
from matloom.ir.shapes import IMAGE_RANK, same_padding

#: Index of the input of PADV2 that holds the value; number of spatial axes.
_VALUE, _SIDES = 2, 2

#: Function that returns the attributes of an operator. Its arguments are the operator, its input
#: tensors and its output tensors, as in the file.
Reader = Callable[[Any, Sequence[Tensor], Sequence[Tensor]], Attributes]


def _constant_integers(subject: str, inputs: Sequence[Tensor], index: int) -> list[int]:
    """Return the constant integers in input `index`, flattened; `subject` names them in errors.

    `subject` names them in messages.

    Raises
    ------
    Contradiction
        The input is missing or not of integers.
    Unsupported
        The input is computed.
    """
    if index >= len(inputs):
        raise Contradiction(f"must have its {subject} as input {index}, not {len(inputs)} inputs")
    data = inputs[index].data
    if data is None:
        raise Unsupported(f"has a variable {subject}")
    if data.dtype.kind not in "iu":
        raise Contradiction(f"must have a {subject} of integers, not {data.dtype}")
    return [int(value) for value in data.reshape(-1)]


def _axis_from_zero(axis: int, rank: int) -> int:
    """Return an axis as a number from 0; negative ones count from the last of `rank` axes."""
    if not -rank <= axis < rank:
        raise Contradiction(f"must have an axis of {-rank} to {rank - 1}, not {axis}")
    return axis % rank


def _constant_integer(subject: str, inputs: Sequence[Tensor], index: int) -> int:
    """Return the only number in constant input `index`; `subject` names it in errors."""
    values = _constant_integers(subject, inputs, index)
    if len(values) != 1:
        raise Contradiction(f"must have 1 {subject}, not {len(values)}")
    return values[0]


def _read_pad(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read the padding before and after each axis from input 1."""
    pairs = _constant_integers("padding", inputs, 1)
    if len(pairs) != 2 * len(inputs[0].shape):
        raise Contradiction(f"must have 2 paddings for each axis, not {len(pairs)}")
    return Pad(before=tuple(pairs[::2]), after=tuple(pairs[1::2]))


def _read_pad_value(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read a padding with its value: a constant in the last input."""
    pad = _read_pad(operator, inputs, outputs)
    assert isinstance(pad, Pad)
    data = inputs[_VALUE].data if len(inputs) > _VALUE else None
    if data is None or data.size != 1:
        raise Unsupported("has a variable value")
    return Pad(before=pad.before, after=pad.after, value=data.item())


def _read_reduce(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read the reduced axes, and whether they stay as axes of size 1."""
    rank = len(inputs[0].shape)
    # Both interpreters ignore the axes of a scalar.
    axes = {_axis_from_zero(axis, rank) for axis in _constant_integers("axes", inputs, 1) if rank}
    keep = bool(options(operator, tflite.ReducerOptions).KeepDims())
    return Reduce(axes=tuple(sorted(axes)), keep_dims=keep)


def _read_arg_extreme(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read the axis along which the index of the largest or least element is found."""
    return Axis(axis=_axis_from_zero(_constant_integer("axis", inputs, 1), len(inputs[0].shape)))


def _read_transpose(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read the permutation of axes."""
    rank = len(inputs[0].shape)
    permutation = _constant_integers("permutation", inputs, 1)
    return Transpose(permutation=tuple(_axis_from_zero(axis, rank) for axis in permutation))


def _read_resize(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read the new height and width, and which positions are sampled."""
    table = options(operator, tflite.ResizeNearestNeighborOptions)
    size = _constant_integers("size", inputs, 1)
    if len(size) != _SIDES:
        raise Contradiction(f"must have a size of height and width, not {size}")
    return Resize(
        size=(size[0], size[1]),
        align_corners=bool(table.AlignCorners()),
        half_pixel_centers=bool(table.HalfPixelCenters()),
    )


def _read_split(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read the axis; all parts have the same size."""
    if not inputs[1:]:
        raise Contradiction(f"must have an axis and an input, not {len(inputs)} inputs")
    shape = inputs[1].shape
    axis = _axis_from_zero(_constant_integer("axis", inputs, 0), len(shape))
    if shape[axis] % len(outputs):
        raise Contradiction(f"must have outputs that divide {shape[axis]}, not {len(outputs)}")
    return Split(axis=axis, sizes=(shape[axis] // len(outputs),) * len(outputs))


def _read_split_v(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read the axis and the sizes of the parts; a size of -1 is the rest."""
    shape = inputs[0].shape
    sizes = _constant_integers("sizes", inputs, 1)
    axis = _axis_from_zero(_constant_integer("axis", inputs, 2), len(shape))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    return Split(axis=axis, sizes=tuple(sizes))


def _read_slice(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read begin and size of a slice; a size of -1 reaches to the end."""
    begin, size = _constant_integers("begin", inputs, 1), _constant_integers("size", inputs, 2)
    shape = inputs[0].shape
    if not len(begin) == len(size) == len(shape):
        raise Contradiction(
            f"must have begin and size for {len(shape)} axes, not {begin} and {size}"
        )
    whole = (
        length - start if wanted == -1 else wanted
        for length, start, wanted in zip(shape, begin, size, strict=True)
    )
    return Slice(begin=tuple(begin), size=tuple(whole), step=(1,) * len(shape))


def _read_gather(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read the axis, and check that constant indices are within it."""
    if len(inputs) < _SIDES:
        raise Contradiction(f"must have an input and indices, not {len(inputs)} inputs")
    table = options(operator, tflite.GatherOptions)
    if table.BatchDims():
        raise Unsupported("has indices for each batch")
    shape, indices = inputs[0].shape, inputs[1].data
    axis = _axis_from_zero(table.Axis(), len(shape))
    if (
        indices is not None
        and indices.size
        and not 0 <= indices.min() <= indices.max() < shape[axis]
    ):
        raise Unsupported(f"has indices beyond 0 to {shape[axis] - 1}")
    return Axis(axis=axis)


def _read_strided_slice(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read a slice with steps, as begin, size and step of each axis."""
    table = options(operator, tflite.StridedSliceOptions)
    if table.EllipsisMask() or table.NewAxisMask():
        raise Unsupported("has an ellipsis or a new axis")
    offset = getattr(table, "Offset", None)
    if offset is not None and offset():
        raise Unsupported("has ends relative to its begins")
    names = ("begin", "end", "strides")
    begins, ends, steps = (
        _constant_integers(name, inputs, at + 1) for at, name in enumerate(names)
    )
    shape = inputs[0].shape
    if not len(begins) == len(ends) == len(steps) <= len(shape):
        raise Contradiction(f"must have begin, end and strides for {len(shape)} axes, not {begins}")
    begin, size, step, dropped = [], [], [], []
    for axis, length in enumerate(shape):
        bounds = slice(None)
        if axis < len(begins):
            if steps[axis] == 0:
                raise Contradiction("must have strides other than 0, not 0")
            bounds = slice(
                None if table.BeginMask() >> axis & 1 else begins[axis],
                None if table.EndMask() >> axis & 1 else ends[axis],
                steps[axis],
            )
        elements = range(*bounds.indices(length))
        if axis < len(begins) and table.ShrinkAxisMask() >> axis & 1:
            elements = range(elements.start, elements.start + 1)
            dropped.append(axis)
        begin.append(elements.start)
        size.append(len(elements))
        step.append(elements.step)
    return Slice(begin=tuple(begin), size=tuple(size), step=tuple(step), dropped=tuple(dropped))


def _read_transposed_convolution(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read stride, padding and output size of a transposed convolution."""
    table = options(operator, tflite.TransposeConvOptions)
    if not inputs[2:] or {len(outputs[0].shape), len(inputs[1].shape)} != {IMAGE_RANK}:
        raise Contradiction("must have a size, weights and an image of 4 dimensions each")
    size, kernel = outputs[0].shape[1:3], inputs[1].shape[1:3]
    stride = (table.StrideH(), table.StrideW())
    if min(stride) < 1:
        raise Contradiction(f"must have a stride of at least 1, not {stride}")
    if table.Padding() not in (tflite.Padding.SAME, tflite.Padding.VALID):
        raise Contradiction(f"must have a padding of SAME or VALID, not {table.Padding()}")
    if getattr(table, "FusedActivationFunction", int)():
        raise Unsupported("has a fused activation")
    padding = NO_PADDING
    if table.Padding() == tflite.Padding.SAME:
        padding = same_padding((size[0], size[1]), (kernel[0], kernel[1]), stride)
    return TransposeConv(stride=stride, padding=padding, size=(size[0], size[1]))


PARAMETER_READERS: dict[Op, Reader] = {
    Op.ARG_MAX: _read_arg_extreme,
    Op.ARG_MIN: _read_arg_extreme,
    Op.GATHER: _read_gather,
    Op.MEAN: _read_reduce,
    Op.PAD: _read_pad,
    Op.PADV2: _read_pad_value,
    Op.RESIZE_NEAREST_NEIGHBOR: _read_resize,
    Op.SLICE: _read_slice,
    Op.SPLIT: _read_split,
    Op.SPLIT_V: _read_split_v,
    Op.STRIDED_SLICE: _read_strided_slice,
    Op.SUM: _read_reduce,
    Op.TRANSPOSE: _read_transpose,
    Op.TRANSPOSE_CONV: _read_transposed_convolution,
}

#: Indices of the inputs in the file that are inputs of the node, in the node's order. Nodes of
#: other operators keep all inputs.
OPERANDS: dict[Op, tuple[int, ...]] = {
    **dict.fromkeys(PARAMETER_READERS, (0,)),
    Op.GATHER: (0, 1),
    Op.EXPAND_DIMS: (0,),
    Op.RESHAPE: (0,),
    Op.SPLIT: (1,),
    Op.TRANSPOSE_CONV: (2, 1, 3),
}
