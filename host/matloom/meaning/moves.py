"""Definitions on probes of operators that move elements; the bytes of an element stay together."""

import numpy as np

from matloom.ir.attributes import Axis, Pad, Resize, Slice, Split, Transpose
from matloom.ir.scales import nearest_positions
from matloom.meaning.context import NodeInputs
from matloom.meaning.terms import Integers


def _elements(context: NodeInputs, index: int = 0) -> Integers:
    """Return an input in its shape, with the bytes of each element along an added last axis."""
    tensor = context.inputs[index]
    return context.raw[index].reshape(*tensor.shape, tensor.element_bytes)


def _all_elements(context: NodeInputs) -> list[Integers]:
    """Return the elements of each input, in its shape, to be joined."""
    return [_elements(context, index) for index in range(len(context.raw))]


def concatenation(context: NodeInputs) -> list[Integers]:
    """Compute CONCATENATION: the elements of all inputs, one input after another along an axis."""
    return [np.concatenate(_all_elements(context), axis=context.node.attributes_as(Axis).axis)]


def pack(context: NodeInputs) -> list[Integers]:
    """Compute PACK: the elements of all inputs, stacked along a new axis."""
    return [np.stack(_all_elements(context), axis=context.node.attributes_as(Axis).axis)]


def unpack(context: NodeInputs) -> list[Integers]:
    """Compute UNPACK: an output for each position along an axis."""
    return list(np.moveaxis(_elements(context), context.node.attributes_as(Axis).axis, 0))


def split(context: NodeInputs) -> list[Integers]:
    """Compute SPLIT and SPLIT_V: an output for each part along an axis."""
    attributes = context.node.attributes_as(Split)
    ends = np.cumsum(attributes.sizes)[:-1].tolist()
    return list(np.split(_elements(context), ends, axis=attributes.axis))


def pad(context: NodeInputs) -> list[Integers]:
    """Compute PAD and PADV2: the input, surrounded by a given value or the zero point."""
    attributes, output = context.node.attributes_as(Pad), context.output
    value = output.zero_point if attributes.value is None else int(attributes.value)
    size = output.element_bytes
    filled = np.frombuffer(value.to_bytes(size, "little", signed=True), np.int8)
    result = np.empty((*output.shape, size), np.int64)
    result[...] = filled
    inner = tuple(
        slice(before, before + length)
        for before, length in zip(attributes.before, context.inputs[0].shape, strict=True)
    )
    result[inner] = _elements(context)
    return [result]


def slice_tensor(context: NodeInputs) -> list[Integers]:
    """Compute SLICE and STRIDED_SLICE: the elements at regular steps along each axis."""
    attributes = context.node.attributes_as(Slice)
    result = _elements(context)
    for axis, begin in enumerate(attributes.begin):
        places = begin + np.arange(attributes.size[axis]) * attributes.step[axis]
        result = result.take(places, axis=axis)
    return [result]


def transpose(context: NodeInputs) -> list[Integers]:
    """Compute TRANSPOSE: the elements with permuted axes; the bytes of an element stay last."""
    order = context.node.attributes_as(Transpose).permutation
    return [_elements(context).transpose(*order, len(order))]


def resize(context: NodeInputs) -> list[Integers]:
    """Compute RESIZE_NEAREST_NEIGHBOR: copy the nearest row and position of the image."""
    attributes = context.node.attributes_as(Resize)
    _images, height, width, _depth = context.inputs[0].shape
    rows = nearest_positions(attributes, height, attributes.size[0])
    columns = nearest_positions(attributes, width, attributes.size[1])
    return [_elements(context)[:, rows][:, :, columns]]
