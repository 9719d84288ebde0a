"""Splits operators that TensorFlow Lite does not have as such into several that it has."""

from dataclasses import replace

import numpy as np

from matloom.errors import UserError
from matloom.ir.attributes import (
    NO_PADDING,
    Activation,
    Conv2D,
    Pad,
    Padding,
    Pool2D,
    Slice,
    TransposeConv,
)
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ir.scales import activation_range
from matloom.ir.shapes import same_padding


def separate(graph: Graph) -> Graph:
    """Return the graph with only operators that a TensorFlow Lite file can have.

    The only paddings in a file are SAME and VALID. For others, convolutions and maximum poolings
    get a PAD before them, and transposed convolutions a STRIDED_SLICE behind them. TRANSPOSE_CONV
    has no activation in TensorFlow Lite Micro, so it gets a separate operator unless the range of
    the output implies the activation.

    Raises
    ------
    UserError
        An AVERAGE_POOL_2D has other padding, which must not count in the average.
    """
    tensors, nodes = dict(graph.tensors), list[Node]()
    for node in graph.nodes:
        padding = _explicit_padding(graph, node)
        if node.op is Op.TRANSPOSE_CONV:
            nodes += _with_slice(tensors, node, padding)
        elif padding is None:
            nodes.append(node)
        else:
            nodes += _with_pad(tensors, node, padding)
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _with_pad(tensors: dict[int, Tensor], node: Node, padding: Padding) -> list[Node]:
    """Return a PAD, and an operator without padding; add the tensor between them to `tensors`."""
    before, after = (0, padding.top, padding.left, 0), (0, padding.bottom, padding.right, 0)
    image = tensors[node.inputs[0]]
    sizes = zip(before, image.shape, after, strict=True)
    number = _add_tensor_like(tensors, image, "padded", tuple(map(sum, sizes)))
    value = _smallest_number(image) if node.op is Op.MAX_POOL_2D else None
    edges = Pad(before=before, after=after, value=value)
    op = Op.PAD if value is None else Op.PADV2
    attributes = node.attributes
    assert isinstance(attributes, Conv2D | Pool2D)
    return [
        replace(node, op=op, inputs=node.inputs[:1], outputs=(number,), attributes=edges),
        replace(
            node,
            inputs=(number, *node.inputs[1:]),
            attributes=replace(attributes, padding=NO_PADDING),
        ),
    ]


def _with_slice(tensors: dict[int, Tensor], node: Node, padding: Padding | None) -> list[Node]:
    """Return a transposed convolution, a slice, and an activation, the latter two if necessary.

    With padding, the convolution computes the whole output, from which the slice cuts a part.
    """
    attributes, made = node.attributes_as(TransposeConv), tensors[node.output]
    activation, nodes = attributes.activation, list[Node]()
    attributes = replace(attributes, activation=Activation.NONE)
    if activation is not Activation.NONE and not _implies(activation, made):
        number = _add_tensor_like(tensors, made, "before activation", made.shape)
        nodes.append(
            Node(op=Op(activation), inputs=(number,), outputs=node.outputs, index=node.index)
        )
        node = replace(node, outputs=(number,))
    if padding is not None:
        images, height, width, channels = made.shape
        whole = height + padding.top + padding.bottom, width + padding.left + padding.right
        number = _add_tensor_like(tensors, made, "whole", (images, *whole, channels))
        part = Slice(begin=(0, padding.top, padding.left, 0), size=made.shape, step=(1,) * 4)
        nodes.insert(0, replace(node, op=Op.STRIDED_SLICE, inputs=(number,), attributes=part))
        attributes = replace(attributes, padding=NO_PADDING, size=whole)
        node = replace(node, outputs=(number,))
    return [replace(node, attributes=attributes), *nodes]


def _implies(activation: Activation, output: Tensor) -> bool:
    """Return whether the range of a tensor's integers implies an activation."""
    if output.quantisation is None:
        return False
    limits = np.iinfo(output.dtype)
    return activation_range(activation, output) == (limits.min, limits.max)


def _add_tensor_like(
    tensors: dict[int, Tensor], like: Tensor, suffix: str, shape: tuple[int, ...]
) -> int:
    """Add a tensor like another one, with a suffix of its name and a shape; return its number."""
    number = max(tensors) + 1
    tensors[number] = replace(like, name=f"{like.name}:{suffix}", shape=shape, data=None)
    return number


def _explicit_padding(graph: Graph, node: Node) -> Padding | None:
    """Return an operator's padding if it is neither SAME nor VALID; otherwise None."""
    attributes, shape = node.attributes, graph.tensors[node.inputs[0]].shape
    dilation = (1, 1)
    match attributes:
        case Conv2D():
            dilation = attributes.dilation
            _channels, height, width, *_ = graph.tensors[node.inputs[1]].shape
        case Pool2D(window=(height, width)):
            pass
        case TransposeConv():
            # The windows are those of a convolution of the output.
            shape = graph.tensors[node.output].shape
            _channels, height, width, *_ = graph.tensors[node.inputs[1]].shape
        case _:
            return None
    same = same_padding((shape[1], shape[2]), (height, width), attributes.stride, dilation)
    if attributes.padding in (NO_PADDING, same):
        return None
    if node.op is Op.AVERAGE_POOL_2D:
        raise UserError(
            f"{node} must have SAME or VALID padding in a .tflite file, not {attributes.padding}",
            hint="write an .onnx file, or leave the padding out of the average",
        )
    return attributes.padding


def _smallest_number(tensor: Tensor) -> float | int:
    """Return the smallest integer of a tensor's type, or for floats a number below all in use."""
    return {"int8": -128, "int16": -32768}.get(tensor.dtype, -3.0e38)
