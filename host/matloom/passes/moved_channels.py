"""Finds where channels come from that joins and selections copy, and which of them layers use."""

from collections.abc import Mapping

import numpy as np

from matloom.ir.attributes import Axis, Conv2D, Slice
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.ir.shapes import IMAGE_RANK
from matloom.passes.fold_selections import selected_channels

#: Number of a tensor that neither a join nor a selection makes, and the index of a channel in it.
Origin = tuple[int, int]


def copied_bytes(graph: Graph) -> int:
    """Return the number of bytes that selections of channels copy."""
    copies = (node for node in graph.nodes if _copied_channels(graph, node) is not None)
    return sum(graph.tensors[node.output].size for node in copies)


def _copied_channels(graph: Graph, node: Node) -> Array | None:
    """Return the channels that a selection or a SLICE copies; None for other operators."""
    if node.op is not Op.SLICE:
        return selected_channels(graph, node)
    tensor, attributes = graph.tensors[node.inputs[0]], node.attributes_as(Slice)
    whole = attributes.size[:-1] == tensor.shape[:-1] and len(tensor.shape) == IMAGE_RANK
    if tensor.dtype != "int8" or not whole or attributes.step[-1] < 0:
        return None
    first, step = attributes.begin[-1], attributes.step[-1]
    return first + step * np.arange(attributes.size[-1])


def moved_channels(graph: Graph) -> dict[int, list[Origin]]:
    """Return (source tensor, its channel) for each channel of tensors made of copied channels.

    An origin is a tensor and the channel there. The key is the number of the tensor, which a join
    or a selection makes.
    """
    found: dict[int, list[Origin]] = {}

    def origins(number: int) -> list[Origin]:
        """Return (source tensor, its channel) for each channel of any tensor."""
        depth = graph.tensors[number].shape[-1]
        return found.get(number) or [(number, channel) for channel in range(depth)]

    for node in graph.nodes:
        channels = _copied_channels(graph, node)
        if channels is not None:
            before = origins(node.inputs[0])
            found[node.output] = [before[channel] for channel in channels]
        elif _joins_channels(graph, node):
            found[node.output] = [each for number in node.inputs for each in origins(number)]
    return found


def _joins_channels(graph: Graph, node: Node) -> bool:
    """Return whether an operator concatenates int8 images by channels, without rescaling them."""
    if node.op is not Op.CONCATENATION or node.attributes_as(Axis).axis != IMAGE_RANK - 1:
        return False
    output = graph.tensors[node.output]
    inputs = [graph.tensors[number] for number in node.inputs]
    alike = all(each.quantisation == output.quantisation and each.data is None for each in inputs)
    return alike and output.dtype == "int8" and len(output.shape) == IMAGE_RANK


def used_channels(graph: Graph, node: Node, moved: Mapping[int, list[Origin]]) -> Array | None:
    """Return the channels of a layer's input with nonzero weights; None if all have some.

    Return None unless the input is in `moved`. Return None also for other operators, and for layers
    that have to read all channels, such as those of several kernel columns.
    """
    origins = moved.get(node.inputs[0]) if node.op is Op.CONV_2D else None
    if origins is None or selected_channels(graph, node) is not None:
        return None
    weights = graph.tensors[node.inputs[1]]
    whole = weights.shape[3] == len(origins) == len(set(origins))
    if weights.data is None or weights.dtype != "int8" or weights.shape[2] > 1 or not whole:
        return None
    if node.attributes_as(Conv2D).mode is not None:
        return None
    channels = np.flatnonzero(weights.data.any(axis=(0, 1, 2)))
    return channels if 0 < len(channels) < len(origins) else None
