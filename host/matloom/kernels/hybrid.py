"""Layers with 8-bit weights between float32 tensors: CONV_2D and FULLY_CONNECTED.

Each sample is quantised by its own largest magnitude; sums are exact integers. Source: LiteRT's
reference kernels, EvalHybrid of conv.cc and fully_connected.cc.
"""

from collections.abc import Sequence

import numpy as np

from matloom.ir.attributes import Activation, Conv2D, FullyConnected
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import round_half_away
from matloom.ir.shapes import BIAS
from matloom.kernels.requantise import limit
from matloom.kernels.weighted import exact_product
from matloom.kernels.windows import pad, windows


def _quantise(samples: Array) -> tuple[Array, Array]:
    """Return samples (samples, elements) as integers from -127 to 127, and each sample's scale."""
    reach = np.abs(samples).max(axis=1, keepdims=True)
    used = np.where(reach == 0, np.float32(1), reach)
    integers = round_half_away(samples * (np.float32(127) / used))
    return np.clip(integers, -127, 127).astype(np.int16), np.where(
        reach == 0, np.float32(1), reach / np.float32(127)
    )


def _layer_output(
    graph: Graph,
    node: Node,
    sums: Array,
    scales: Array,
    inputs: Sequence[Array],
    activation: Activation,
) -> Array:
    """Return the layer's output, float32, for integer sums (samples, positions, channels).

    `scales` has the scale of each sample, (samples, 1).
    """
    scales = scales * np.float32(graph.tensors[node.inputs[1]].scale)
    values = sums.astype(np.float32) * scales[:, :, np.newaxis]
    if len(inputs) > BIAS:
        values = values + inputs[BIAS].reshape(-1)
    return limit(values, activation).reshape(graph.tensors[node.output].shape)


def hybrid_convolution(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """CONV_2D: float32 image, int8 weights, optional float32 bias."""
    attributes = node.attributes_as(Conv2D)
    image, weights = inputs[:2]
    integers, scales = _quantise(image.reshape(len(image), -1))
    patches = windows(
        pad(integers.reshape(image.shape), attributes.padding, 0),
        (weights.shape[1], weights.shape[2]),
        attributes.stride,
        attributes.dilation,
    )
    outputs = len(weights)
    sums = exact_product(patches.reshape(-1, weights[0].size), weights.reshape(outputs, -1))
    sums = sums.reshape(len(image), -1, outputs)
    return _layer_output(graph, node, sums, scales, inputs, attributes.activation)


def hybrid_dense(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """FULLY_CONNECTED: float32 rows, int8 weights, optional float32 bias."""
    weights = inputs[1]
    integers, scales = _quantise(inputs[0].reshape(-1, weights.shape[1]))
    sums = exact_product(integers, weights)[:, np.newaxis]
    activation = node.attributes_as(FullyConnected).activation
    return _layer_output(graph, node, sums, scales, inputs, activation)
