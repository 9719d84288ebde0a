"""Pooling of 8-bit integers; elements of the padding count for nothing."""

from collections.abc import Sequence

import numpy as np

from matloom.arch.numerics import clamp
from matloom.hostops.windows import pad, windows
from matloom.ir.attributes import Pool2D
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import activation_range

__all__ = ["average_pool", "max_pool"]


def _pooled(graph: Graph, node: Node, values: Array) -> Array:
    """Return `values` limited by the activation; the output has the input's scale."""
    output = graph.tensors[node.output]
    low, high = activation_range(node.attributes_as(Pool2D).activation, output)
    result: Array = clamp(values.astype(np.int64), low, high).astype(output.dtype)
    return result


def average_pool(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """AVERAGE_POOL_2D: the quotient of sum and count, halves away from zero."""
    attributes = node.attributes_as(Pool2D)
    window, stride, padding = attributes.window, attributes.stride, attributes.padding
    image = inputs[0].astype(np.int64)
    sums = windows(pad(image, padding, 0), window, stride).sum(axis=(3, 4))
    inside = pad(np.ones_like(image[:1, :, :, :1]), padding, 0)
    counts = windows(inside, window, stride).sum(axis=(3, 4))
    quotients = np.sign(sums) * ((np.abs(sums) + counts // 2) // counts)
    return _pooled(graph, node, quotients)


def max_pool(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """MAX_POOL_2D."""
    attributes = node.attributes_as(Pool2D)
    least = int(np.iinfo(inputs[0].dtype).min)
    padded = pad(inputs[0], attributes.padding, least)
    return _pooled(
        graph, node, windows(padded, attributes.window, attributes.stride).max(axis=(3, 4))
    )
