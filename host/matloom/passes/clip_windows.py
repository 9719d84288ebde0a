"""Removes the rows and columns of kernels and windows that only ever cover padding."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from matloom.ir.attributes import Conv2D, Padding, Pool2D
from matloom.ir.graph import Graph, Node, Op, Tensor

_LAYERS = (Op.CONV_2D, Op.DEPTHWISE_CONV_2D)
_POOLS = (Op.MAX_POOL_2D, Op.AVERAGE_POOL_2D)
_QUANTISED = ("int8", "int16")


class _Axis(NamedTuple):
    """Taps of a window along an axis that meet the image, and the padding that these still need.

    The taps are those from `first` to `end` (half open); `before` and `after` are the padding.
    """

    first: int
    end: int
    before: int
    after: int


def clip_windows(graph: Graph) -> Graph:
    """Return the graph without rows and columns of kernels and windows that only meet padding.

    On an image of 3x3, for example, only the middle 5x5 elements of a 9x9 window meet the image.
    Padding counts neither in a maximum nor in an average, and adds nothing to the sums of a layer.
    """
    tensors = dict(graph.tensors)
    nodes = tuple(_clip_window(graph, node, tensors) for node in graph.nodes)
    return graph if nodes == graph.nodes else replace(graph, nodes=nodes, tensors=tensors)


def _clip_window(graph: Graph, node: Node, tensors: dict[int, Tensor]) -> Node:
    """Return an operator with its window clipped if possible; add smaller weights to `tensors`."""
    window = _window_size(graph, node)
    if window is None:
        return node
    own = node.attributes
    assert isinstance(own, Conv2D | Pool2D)
    data, output = graph.tensors[node.inputs[0]].shape, graph.tensors[node.output].shape
    edges = (own.padding.top, own.padding.left)
    rows, columns = (
        _clip_axis(data[axis + 1], output[axis + 1], window[axis], own.stride[axis], edges[axis])
        for axis in (0, 1)
    )
    clipped = (rows.end - rows.first, columns.end - columns.first)
    if clipped == tuple(window) or min(clipped) < 1:
        return node
    padding = Padding(top=rows.before, bottom=rows.after, left=columns.before, right=columns.after)
    if isinstance(own, Pool2D):
        return replace(node, attributes=replace(own, window=clipped, padding=padding))
    weights = graph.tensors[node.inputs[1]]
    assert weights.data is not None
    smaller = weights.data[:, rows.first : rows.end, columns.first : columns.end]
    number = max(tensors) + 1
    tensors[number] = replace(weights, data=np.ascontiguousarray(smaller), shape=smaller.shape)
    inputs = (node.inputs[0], number, *node.inputs[2:])
    return replace(node, inputs=inputs, attributes=replace(own, padding=padding))


def _window_size(graph: Graph, node: Node) -> Sequence[int] | None:
    """Return the rows and columns of an operator's window; None if it has none to clip."""
    if node.op not in (*_LAYERS, *_POOLS):
        return None
    if graph.tensors[node.inputs[0]].dtype not in _QUANTISED:
        return None
    own = node.attributes
    if isinstance(own, Pool2D):
        return own.window
    weights = graph.tensors[node.inputs[1]]
    plain = isinstance(own, Conv2D) and own.dilation == (1, 1) and weights.data is not None
    return weights.shape[1:3] if plain else None


def _clip_axis(length: int, outputs: int, taps: int, stride: int, before: int) -> _Axis:
    """Return the taps along an axis that meet the image for at least one of `outputs` positions.

    The image has `length` elements, after `before` elements of padding.
    """
    first = max(0, before - (outputs - 1) * stride)
    end = min(taps, length + before)
    before -= first
    after = (outputs - 1) * stride + end - first - length - before
    return _Axis(first, end, before, max(0, after))
