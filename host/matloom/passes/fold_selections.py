"""Folds selections of channels into the weights of the convolution before or after them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from matloom.ir.attributes import Conv2D
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.passes.combine_moves import UNCHANGED

#: Index of a layer's input that has multipliers and shifts, (2, channels).
MULTIPLIERS = 3


def fold_selections(graph: Graph) -> Graph:
    """Return the graph with selections of channels folded into the weights around them.

    The convolution before a selection computes only the selected channels, in their order. The
    convolution after it gets zero weights for the channels that are not selected, if that takes no
    more arithmetic than selecting first.
    """
    for fold in (_fold_into_producer, _fold_into_consumer):
        for node in graph.nodes:
            channels = selected_channels(graph, node)
            if channels is not None:
                graph = fold(graph, node, channels)
    return graph


def selected_channels(graph: Graph, node: Node) -> Array | None:
    """Return the channels that a convolution copies, in order; None if it is not a selection.

    A selection copies no channel twice.
    """
    if node.op is not Op.CONV_2D or node.inputs[2:] or node.attributes != UNCHANGED:
        return None
    data, weights, output = (graph.tensors[number] for number in (*node.inputs, node.output))
    plain = Quantisation(scale=(1.0,), zero_point=(0,))
    if weights.quantisation != plain or weights.data is None or weights.shape[1:3] != (1, 1):
        return None
    if data.dtype != "int8" or data.quantisation != output.quantisation:
        return None
    rows = weights.data.reshape(weights.shape[0], -1)
    channels: Array = rows.argmax(axis=1)
    one_hot = np.zeros_like(rows)
    one_hot[np.arange(len(rows)), channels] = 1
    distinct = len(set(channels.tolist())) == len(channels)
    return channels if distinct and np.array_equal(rows, one_hot) else None


def _fold_into_producer(graph: Graph, selection: Node, channels: Array) -> Graph:
    """Return the graph with a selection folded into the convolution before it, if possible.

    Nothing else may read the result of that convolution.
    """
    (source, _), at = selection.inputs, graph.producers.get(selection.inputs[0])
    if at is None or source in graph.leaving or len(graph.consumers[source]) > 1:
        return graph
    producer = graph.nodes[at]
    if producer.op is not Op.CONV_2D or graph.tensors[producer.output].dtype != "int8":
        return graph
    if any(graph.tensors[number].data is None for number in producer.inputs[1:]):
        return graph
    selected = [
        change_constant(
            graph.tensors[number],
            partial(np.take, indices=channels, axis=int(place == MULTIPLIERS)),
            channels,
        )
        for place, number in enumerate(producer.inputs[1:], start=1)
    ]
    return _replace_pair(graph, producer, selection, selected)


def _fold_into_consumer(graph: Graph, selection: Node, channels: Array) -> Graph:
    """Return the graph with a selection folded into the convolution that reads it, if possible.

    Nothing else may read the selection, and the arithmetic must not increase.
    """
    made, readers = selection.output, graph.consumers[selection.output]
    if made in graph.leaving or len(readers) != 1:
        return graph
    reader = graph.nodes[readers[0]]
    if reader.op is not Op.CONV_2D or reader.attributes_as(Conv2D).mode is not None:
        return graph
    weights = graph.tensors[reader.inputs[1]]
    if weights.data is None or weights.dtype != "int8" or weights.shape[3] != len(channels):
        return graph
    depth = graph.tensors[selection.inputs[0]].shape[-1]
    apart = weights.data.size + depth * len(channels) * _position_ratio(graph, selection, reader)
    wider = np.zeros((*weights.shape[:3], depth), np.int8)
    wider[..., channels] = weights.data
    if wider.size > apart:
        return graph
    others = [graph.tensors[number] for number in reader.inputs[2:]]
    return _replace_pair(
        graph, selection, reader, [change_constant(weights, lambda _: wider), *others]
    )


def _position_ratio(graph: Graph, selection: Node, reader: Node) -> float:
    """Return the number of positions of a selection for each position that its reader makes."""
    before, after = (graph.tensors[node.output] for node in (selection, reader))
    return (before.size / before.shape[-1]) / (after.size / after.shape[-1])


def change_constant(
    tensor: Tensor, change: Callable[[Array], Array], channels: Array | None = None
) -> Tensor:
    """Return a constant with its data changed; if `channels` are given, with only their scales."""
    assert tensor.data is not None
    data, scales = np.ascontiguousarray(change(tensor.data)), tensor.quantisation
    if channels is not None and scales is not None and scales.axis is not None:
        pairs = (scales.scale, scales.zero_point)
        scale, zero_point = (tuple(each[at] for at in channels.tolist()) for each in pairs)
        scales = replace(scales, scale=scale, zero_point=zero_point)
    return replace(tensor, data=data, shape=data.shape, quantisation=scales)


def _replace_pair(graph: Graph, first: Node, second: Node, constants: list[Tensor]) -> Graph:
    """Return the graph with one convolution, which reads `constants`, instead of two.

    It has the attributes of the other one, and reads `constants`.
    """
    layer = second if selected_channels(graph, first) is not None else first
    number = max(graph.tensors) + 1
    numbers = tuple(range(number, number + len(constants)))
    merged = replace(
        layer, inputs=(first.inputs[0], *numbers), outputs=second.outputs, index=layer.index
    )
    nodes = [node for node in graph.nodes if node is not first]
    nodes[nodes.index(second)] = merged
    tensors = {**graph.tensors, **dict(zip(numbers, constants, strict=True))}
    return replace(graph, nodes=tuple(nodes), tensors=tensors)
