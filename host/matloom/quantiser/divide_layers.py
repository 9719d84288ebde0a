"""Divides layers whose outputs are split or sliced, such as one for queries, keys and values."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from matloom.ir.attributes import Attributes, Slice, Split
from matloom.ir.graph import Array, Graph, Node, Op, Tensor
from matloom.ir.operators import OPERATORS

#: Minimum number of channels of a part; smaller parts would leave columns of the array unused.
_LEAST_CHANNELS = 16


def divide_layers(graph: Graph) -> Graph:
    """Return a float network in which a separate layer computes each part of a split output.

    Each part can then have its own scale, and no SPLIT or slice has to copy it.
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
            nodes += _layer_of_part(tensors, node, number, channels)
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _find_split(graph: Graph, layer: Node) -> tuple[list[tuple[int, slice]], set[int]] | None:
    """Return the parts of a layer's output, and the indices of the operators that split it.

    A part is a tensor number and a range of the layer's channels. Return None if other operators
    read the output, or if parts are not ranges of at least `_LEAST_CHANNELS` channels.
    """
    if layer.op not in (Op.CONV_2D, Op.FULLY_CONNECTED):
        return None
    constant = all(graph.tensors[number].data is not None for number in layer.inputs[1:])
    if not constant or graph.tensors[layer.output].dtype != "float32":
        return None
    places, number = set[int](), layer.output
    while number not in graph.leaving:
        found = graph.consumers[number]
        readers = [graph.nodes[place] for place in found]
        places.update(found)
        if len(readers) == 1 and readers[0].op is Op.RESHAPE:
            number = readers[0].output
            continue
        parts = _split_ranges(graph, readers, number)
        return None if parts is None else _channel_ranges(graph, layer, number, parts, places)
    return None


def _split_ranges(
    graph: Graph, readers: Sequence[Node], number: int
) -> tuple[int, dict[int, slice]] | None:
    """Return the axis along which operators split a tensor, and the range of each part.

    Parts are given by tensor number. Return None if `readers` do not split the tensor.
    """
    if len(readers) == 1 and readers[0].op in (Op.SPLIT, Op.SPLIT_V):
        split = readers[0].attributes_as(Split)
        ends = itertools.pairwise(itertools.accumulate(split.sizes, initial=0))
        return split.axis, dict(
            zip(readers[0].outputs, (slice(*pair) for pair in ends), strict=True)
        )
    if not readers or any(reader.op not in (Op.SLICE, Op.STRIDED_SLICE) for reader in readers):
        return None
    shape, taken = graph.tensors[number].shape, [each.attributes_as(Slice) for each in readers]
    axes = {axis for each in taken for axis, size in enumerate(shape) if each.size[axis] != size}
    if len(axes) != 1 or any(step != 1 for each in taken for step in each.step):
        return None
    (axis,) = axes
    return axis, {
        reader.output: slice(each.begin[axis], each.begin[axis] + each.size[axis])
        for reader, each in zip(readers, taken, strict=True)
    }


def _channel_ranges(
    graph: Graph,
    layer: Node,
    number: int,
    parts: tuple[int, dict[int, slice]],
    splitters: set[int],
) -> tuple[list[tuple[int, slice]], set[int]] | None:
    """Return each part's number and channels, and the operators that split them, `splitters`.

    `parts` is a result of `_split_ranges` for tensor `number`: the layer's output, perhaps in
    another shape. Return None if parts are not ranges of channels, are too small, or overlap.
    """
    axis, ranges = parts
    shape, channels = graph.tensors[number].shape, graph.tensors[layer.output].shape[-1]
    each = math.prod(shape[axis + 1 :])
    sizes = [(part.stop - part.start) * each for part in ranges.values()]
    if shape[axis] * each != channels or sum(sizes) > channels or min(sizes) < _LEAST_CHANNELS:
        return None
    return [
        (made, slice(part.start * each, part.stop * each)) for made, part in ranges.items()
    ], splitters


def _layer_of_part(
    tensors: dict[int, Tensor], layer: Node, number: int, channels: slice
) -> list[Node]:
    """Return a layer that computes some channels, and a RESHAPE to the part's shape if necessary.

    New tensors are added to `tensors`.
    """

    def add(tensor: Tensor) -> int:
        """Add a tensor and return its number."""
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
    """Return the part of a layer's weights or bias that belongs to some output channels."""
    assert tensor.data is not None
    data = tensor.data if tensor.data.shape[0] > 1 else tensor.data.reshape(-1)
    return np.ascontiguousarray(data[channels])
