"""Operators that move elements: CONCATENATION, PAD, SLICE, SPLIT, TRANSPOSE and similar ones."""

from collections.abc import Sequence

import numpy as np

from matloom.errors import UserError
from matloom.ir.attributes import Axis, Pad, Resize, Slice, Split, Transpose
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import nearest_positions


class IndexRangeError(UserError):
    """An index is outside the tensor that it selects from."""


def concatenation(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """CONCATENATION; integers are copied unchanged, whatever their scales."""
    return np.concatenate(list(inputs), axis=node.attributes_as(Axis).axis)


def gather(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """GATHER: slices of the first input along an axis, at the indices in the second input.

    Raises
    ------
    IndexRangeError
        An index is negative or too large; TensorFlow Lite fails, too.
    """
    data, indices = inputs
    axis = node.attributes_as(Axis).axis
    length = data.shape[axis]
    outside = indices[(indices < 0) | (indices >= length)]
    if outside.size:
        raise IndexRangeError(
            f"{node} must have indices of 0 to {length - 1}, not {outside[0]}",
            hint=f"check the values of {graph.tensors[node.inputs[1]].name!r}",
        )
    return np.take(data, indices, axis=axis)


def pack(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """PACK: stacks the inputs along a new axis."""
    return np.stack(list(inputs), axis=node.attributes_as(Axis).axis)


def unpack(graph: Graph, node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """UNPACK: one output for each position along an axis."""
    return tuple(np.moveaxis(inputs[0], node.attributes_as(Axis).axis, 0))


def split(graph: Graph, node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """SPLIT and SPLIT_V: one output for each part along an axis."""
    attributes = node.attributes_as(Split)
    ends = np.cumsum(attributes.sizes)[:-1]
    return tuple(np.split(inputs[0], ends, axis=attributes.axis))


def pad_tensor(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """PAD and PADV2: adds elements at both ends of each axis: a given value or the zero point."""
    attributes = node.attributes_as(Pad)
    value = attributes.value
    if value is None:
        quantisation = graph.tensors[node.output].quantisation
        value = 0 if quantisation is None else quantisation.zero_point[0]
    edges = list(zip(attributes.before, attributes.after, strict=True))
    if not edges:  # A scalar, which NumPy cannot pad.
        return inputs[0]
    return np.pad(inputs[0], edges, constant_values=value)


def slice_tensor(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """SLICE and STRIDED_SLICE: the elements at regular steps along each axis."""
    attributes = node.attributes_as(Slice)
    result = inputs[0]
    axes = zip(attributes.begin, attributes.size, attributes.step, strict=True)
    for axis, (begin, size, step) in enumerate(axes):
        result = np.take(result, range(begin, begin + size * step, step), axis=axis)
    return result.squeeze(attributes.dropped)


def transpose(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """TRANSPOSE: the elements with permuted axes."""
    return np.ascontiguousarray(inputs[0].transpose(node.attributes_as(Transpose).permutation))


def resize_nearest(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """RESIZE_NEAREST_NEIGHBOR of an image (batch, height, width, channels)."""
    attributes = node.attributes_as(Resize)
    height, width = inputs[0].shape[1:3]
    rows = nearest_positions(attributes, height, attributes.size[0])
    columns = nearest_positions(attributes, width, attributes.size[1])
    result: Array = inputs[0][:, rows][:, :, columns]
    return result
