"""Separates padding that TensorFlow Lite cannot express into PAD operators."""

from dataclasses import replace

from matloom.errors import UserError
from matloom.ir.attributes import NO_PADDING, Conv2D, Pad, Padding, Pool2D
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ir.shapes import same_padding


def separate_padding(graph: Graph) -> Graph:
    """Return the graph with paddings other than SAME and VALID as PAD before the operator.

    Raises
    ------
    UserError
        An average has such a padding, whose elements it does not count.
    """
    tensors, nodes = dict(graph.tensors), []
    for node in graph.nodes:
        padding = _explicit_padding(graph, node)
        if padding is None:
            nodes.append(node)
            continue
        before, after = (0, padding.top, padding.left, 0), (0, padding.bottom, padding.right, 0)
        image = tensors[node.inputs[0]]
        sizes = zip(before, image.shape, after, strict=True)
        number = max(tensors) + 1
        name = f"{image.name}:padded"
        tensors[number] = replace(image, name=name, shape=tuple(map(sum, sizes)), data=None)
        value = _smallest(image) if node.op is Op.MAX_POOL_2D else None
        edges = Pad(before=before, after=after, value=value)
        op = Op.PAD if value is None else Op.PADV2
        source = node.inputs[0]
        nodes.append(replace(node, op=op, inputs=(source,), outputs=(number,), attributes=edges))
        attributes = node.attributes
        assert isinstance(attributes, Conv2D | Pool2D)
        inputs = (number, *node.inputs[1:])
        nodes.append(
            replace(node, inputs=inputs, attributes=replace(attributes, padding=NO_PADDING))
        )
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _explicit_padding(graph: Graph, node: Node) -> Padding | None:
    """Return an operator's padding if it is neither SAME nor VALID."""
    attributes, shape = node.attributes, graph.tensors[node.inputs[0]].shape
    match attributes:
        case Conv2D(dilation=dilation):
            _channels, height, width, *_ = graph.tensors[node.inputs[1]].shape
        case Pool2D(window=(height, width)):
            dilation = (1, 1)
        case _:
            return None
    image = (shape[1], shape[2])
    same = same_padding(image, (height, width), attributes.stride, dilation)
    if attributes.padding in (NO_PADDING, same):
        return None
    if node.op is Op.AVERAGE_POOL_2D:
        raise UserError(
            f"{node} must have SAME or VALID padding in a .tflite file, not {attributes.padding}",
            hint="write an .onnx file, or leave the padding out of the average",
        )
    return attributes.padding


def _smallest(tensor: Tensor) -> float | int:
    """Return the smallest number of a type, which never wins a maximum."""
    return {"int8": -128, "int16": -32768}.get(tensor.dtype, -3.0e38)
