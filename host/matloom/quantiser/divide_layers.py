"""Divides layers whose outputs are split, such as one layer for queries, keys and values."""

import itertools
import math
from dataclasses import replace

import numpy as np

from matloom.ir.attributes import Attributes, Split
from matloom.ir.graph import Array, Graph, Node, Op, Tensor
from matloom.ir.operators import OPERATORS

#: Fewest channels of a part: those of fewer would leave columns of the array empty.
_LEAST_CHANNELS = 16


def divide_layers(graph: Graph) -> Graph:
    """Return a float network with a layer for each part of a layer's output.

    The parts may have scales of their own, and no SPLIT copies them.
    """
    tensors, nodes, dropped = dict(graph.tensors), list[Node](), set[int]()
    for at, node in enumerate(graph.nodes):
        if at in dropped:
            continue
        split = _find_split(graph, node)
        if split is None:
            nodes.append(node)
            continue
        parts, places = split
        dropped |= places
        for number, channels in parts:
            nodes += _part(tensors, node, number, channels)
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _find_split(graph: Graph, layer: Node) -> tuple[list[tuple[int, slice]], set[int]] | None:
    """Return the parts of a layer's output and their channels, and the operators that part it.

    None if other operators read the output, or if parts are not ranges of many channels.
    """
    if layer.op not in (Op.CONV_2D, Op.FULLY_CONNECTED):
        return None
    constant = all(graph.tensors[number].data is not None for number in layer.inputs[1:])
    if not constant or graph.tensors[layer.output].dtype != "float32":
        return None
    reader, places, number = None, set[int](), layer.output
    while reader is None or reader.op is Op.RESHAPE:
        readers = graph.consumers[number]
        if len(readers) != 1 or number in graph.leaving:
            return None
        reader = graph.nodes[readers[0]]
        places.add(readers[0])
        if reader.op in (Op.SPLIT, Op.SPLIT_V):
            return _parts(graph, layer, reader, number, places)
        number = reader.outputs[0]
    return None


def _parts(
    graph: Graph, layer: Node, split: Node, number: int, places: set[int]
) -> tuple[list[tuple[int, slice]], set[int]] | None:
    attributes, shape = split.attributes_as(Split), graph.tensors[number].shape
    axis = attributes.axis
    channels = graph.tensors[layer.output].shape[-1]
    each = math.prod(shape[axis + 1 :])
    sizes = [size * each for size in attributes.sizes]
    if sum(sizes) != channels or min(sizes) < _LEAST_CHANNELS:
        return None
    ends = list(itertools.accumulate(sizes, initial=0))
    ranges = [slice(*pair) for pair in itertools.pairwise(ends)]
    return list(zip(split.outputs, ranges, strict=True)), places


def _part(tensors: dict[int, Tensor], layer: Node, number: int, channels: slice) -> list[Node]:
    """Return the layer of some channels, and a RESHAPE to the part's shape; adds their tensors."""

    def add(tensor: Tensor) -> int:
        tensors[max(tensors) + 1] = tensor
        return max(tensors)

    axis = OPERATORS[layer.op].weight_axis
    assert axis == 0
    operands = [layer.inputs[0]]
    for place in layer.inputs[1:]:
        data = _rows_of(tensors[place], channels)
        operands.append(add(replace(tensors[place], shape=data.shape, data=data)))
    part, whole = tensors[number], tensors[layer.output]
    shape = (*whole.shape[:-1], channels.stop - channels.start)
    if shape == part.shape:
        return [replace(layer, inputs=tuple(operands), outputs=(number,))]
    made = add(replace(whole, name=f"{part.name}:layer", shape=shape))
    return [
        replace(layer, inputs=tuple(operands), outputs=(made,)),
        Node(
            op=Op.RESHAPE,
            inputs=(made,),
            outputs=(number,),
            attributes=Attributes(),
            index=layer.index,
        ),
    ]


def _rows_of(tensor: Tensor, channels: slice) -> Array:
    """Return some channels of weights or of a bias, along the axis of outputs."""
    assert tensor.data is not None
    data = tensor.data if tensor.data.shape[0] > 1 else tensor.data.reshape(-1)
    return np.ascontiguousarray(data[channels])
