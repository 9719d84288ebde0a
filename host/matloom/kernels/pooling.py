"""Pooling operators; elements of the padding count neither in averages nor in maxima."""

from collections.abc import Sequence

import numpy as np

from matloom.arch.numerics import clamp
from matloom.ir.attributes import Pool2D
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import activation_range
from matloom.kernels.requantise import limit
from matloom.kernels.windows import pad, windows


def _apply_activation(graph: Graph, node: Node, values: Array) -> Array:
    """Return integers, limited by the activation, in the output's type.

    They are not scaled, because input and output have the same scale.
    """
    output = graph.tensors[node.output]
    low, high = activation_range(node.attributes_as(Pool2D).activation, output)
    result: Array = clamp(values.astype(np.int64), low, high).astype(output.dtype)
    return result


def _window_sums(attributes: Pool2D, image: Array) -> tuple[Array, Array]:
    """Return the sum and the count of the elements in each window, without padding."""
    window, stride, padding = attributes.window, attributes.stride, attributes.padding
    sums = windows(pad(image, padding, 0), window, stride).sum(axis=(3, 4))
    inside = pad(np.ones_like(image[:1, :, :, :1]), padding, 0)
    return sums, windows(inside, window, stride).sum(axis=(3, 4))


def average_pool(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """AVERAGE_POOL_2D of 8-bit integers; averages are rounded, halves away from zero."""
    sums, counts = _window_sums(node.attributes_as(Pool2D), inputs[0].astype(np.int64))
    quotients = np.sign(sums) * ((np.abs(sums) + counts // 2) // counts)
    return _apply_activation(graph, node, quotients)


def float_average_pool(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """AVERAGE_POOL_2D of float32."""
    attributes = node.attributes_as(Pool2D)
    sums, counts = _window_sums(attributes, inputs[0])
    return limit(sums / counts, attributes.activation)


def float_max_pool(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """MAX_POOL_2D of float32."""
    attributes = node.attributes_as(Pool2D)
    padded = pad(inputs[0], attributes.padding, -np.inf)
    largest = windows(padded, attributes.window, attributes.stride).max(axis=(3, 4))
    return limit(largest, attributes.activation)


def max_pool(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """MAX_POOL_2D of 8-bit integers."""
    attributes = node.attributes_as(Pool2D)
    least = int(np.iinfo(inputs[0].dtype).min)
    padded = pad(inputs[0], attributes.padding, least)
    return _apply_activation(
        graph, node, windows(padded, attributes.window, attributes.stride).max(axis=(3, 4))
    )
