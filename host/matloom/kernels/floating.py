"""Layers with float32 weights: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, TRANSPOSE_CONV.

The order of additions is not defined, so the last bits may differ between libraries.
"""

from collections.abc import Sequence

import numpy as np

from matloom.ir.attributes import (
    Activation,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    TransposeConv,
)
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.shapes import BIAS
from matloom.kernels.requantise import limit
from matloom.kernels.weighted import scatter
from matloom.kernels.windows import pad, windows


def _layer_output(
    graph: Graph, node: Node, sums: Array, inputs: Sequence[Array], activation: Activation
) -> Array:
    """Return sums with the bias, if any, and the activation, in the output's shape."""
    if len(inputs) > BIAS:
        sums = sums + inputs[BIAS].reshape(-1)
    return limit(sums, activation).reshape(graph.tensors[node.output].shape)


def float_convolution(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """CONV_2D of float32, with an optional bias."""
    attributes = node.attributes_as(Conv2D)
    image, weights = inputs[:2]
    patches = windows(
        pad(image, attributes.padding, 0),
        (weights.shape[1], weights.shape[2]),
        attributes.stride,
        attributes.dilation,
    )
    rows = patches.reshape(-1, weights[0].size)
    sums = rows @ weights.reshape(len(weights), -1).T
    return _layer_output(graph, node, sums, inputs, attributes.activation)


def float_depthwise(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """DEPTHWISE_CONV_2D of float32, with an optional bias."""
    attributes = node.attributes_as(DepthwiseConv2D)
    image, weights = inputs[:2]
    image = np.repeat(image, attributes.depth_multiplier, axis=3)
    kernel = (weights.shape[1], weights.shape[2])
    patches = windows(
        pad(image, attributes.padding, 0), kernel, attributes.stride, attributes.dilation
    )
    sums = np.zeros((*patches.shape[:3], weights.shape[3]), np.float32)
    for row, column in np.ndindex(kernel):
        sums += patches[..., row, column, :] * weights[0, row, column]
    return _layer_output(graph, node, sums, inputs, attributes.activation)


def float_dense(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """FULLY_CONNECTED of float32, with an optional bias."""
    rows, weights = inputs[:2]
    sums = rows.reshape(-1, weights.shape[1]) @ weights.T
    return _layer_output(graph, node, sums, inputs, node.attributes_as(FullyConnected).activation)


def float_transposed_convolution(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """TRANSPOSE_CONV of float32, with an optional bias."""
    attributes = node.attributes_as(TransposeConv)
    products = np.einsum("byxi,ohwi->byxhwo", inputs[0], inputs[1], optimize=True)
    sums = scatter(products, attributes)
    return _layer_output(graph, node, sums, inputs, attributes.activation)
