"""Layers with 8-bit weights: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, TRANSPOSE_CONV.

Sums are exact: products of 9 and 8 bits add up to integers that floats represent exactly, and a
matrix product of floats is much faster than one of integers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from matloom.ir.attributes import Conv2D, DepthwiseConv2D, FullyConnected, TransposeConv
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.shapes import BIAS
from matloom.kernels.requantise import requantise_sums
from matloom.kernels.windows import pad, windows

#: Number of multiplications up to which OpenBLAS uses a single thread.
BLAS_WORK = 2**18


def _weights(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """Return weights minus their zero point, which only uint8 and computed weights may have."""
    tensor = graph.tensors[node.inputs[1]]
    if tensor.dtype != "uint8" and tensor.data is not None:
        return inputs[1]
    centred: Array = inputs[1].astype(np.int16) - tensor.zero_point
    return centred


def _optional_bias(inputs: Sequence[Array]) -> Array | None:
    """Return the bias of a layer, or None if it has none."""
    return inputs[BIAS] if len(inputs) > BIAS else None


def _largest_magnitude(data: Array) -> int:
    """Return the largest magnitude that an element of this dtype minus a zero point can have."""
    return 2**15 if data.dtype == np.int16 else 255


def _exact_type(terms: int, largest: int) -> type[np.floating[Any]]:
    """Return a float type in which sums of `terms` products of `largest` and 255 are exact."""
    return np.float32 if terms * largest * 255 < 2**24 else np.float64


def exact_product(rows: Array, weights: Array, largest: int = 255) -> Array:
    """Return ``rows @ weights.T`` as int64, for inputs and weights minus their zero points.

    Magnitudes of inputs are at most `largest`, those of weights at most 255.
    """
    kind = _exact_type(rows.shape[1], largest)
    left: Array = rows.astype(kind)
    right: Array = weights.T.astype(kind)
    # OpenBLAS splits larger products among threads, which wait for each other on a busy machine.
    step = max(1, BLAS_WORK // right.size)
    products = np.empty((len(left), right.shape[1]), kind)
    for start in range(0, len(left), step):
        np.matmul(left[start : start + step], right, out=products[start : start + step])
    return products.astype(np.int64)


def convolution(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """CONV_2D of 8-bit integers, or of int16 without zero points; the bias is optional."""
    attributes = node.attributes_as(Conv2D)
    image, weights = inputs[0], _weights(graph, node, inputs)
    largest = _largest_magnitude(image)
    image = image.astype(np.int16) - graph.tensors[node.inputs[0]].zero_point
    patches = windows(
        pad(image, attributes.padding, 0),
        (weights.shape[1], weights.shape[2]),
        attributes.stride,
        attributes.dilation,
    )
    outputs = weights.shape[0]
    rows = patches.reshape(-1, weights[0].size)
    sums = exact_product(rows, weights.reshape(outputs, -1), largest)
    return requantise_sums(graph, node, sums, _optional_bias(inputs), attributes.activation)


def depthwise(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """DEPTHWISE_CONV_2D of 8-bit integers, or of int16; the bias is optional."""
    attributes = node.attributes_as(DepthwiseConv2D)
    image, weights = inputs[0], _weights(graph, node, inputs)
    kernel = (weights.shape[1], weights.shape[2])
    kind = _exact_type(kernel[0] * kernel[1], _largest_magnitude(image))
    image = image.astype(kind) - kind(graph.tensors[node.inputs[0]].zero_point)
    image = np.repeat(image, attributes.depth_multiplier, axis=3)
    image = pad(image, attributes.padding, 0)
    sums = _depthwise_sums(
        image, weights[0].astype(kind), graph.tensors[node.output].shape, attributes
    )
    sums = sums.astype(np.int64)
    return requantise_sums(graph, node, sums, _optional_bias(inputs), attributes.activation)


def _depthwise_sums(
    image: Array, weights: Array, shape: tuple[int, ...], attributes: DepthwiseConv2D
) -> Array:
    """Return the sums of a depthwise convolution, (positions, channels).

    `image` is padded, `weights` are (height, width, channels), and `shape` is the output's.
    """
    (down, right), (row_step, column_step) = attributes.stride, attributes.dilation
    batch, tall, wide, channels = shape
    sums = np.zeros((batch, tall, wide * channels), image.dtype)
    products = np.empty_like(sums)
    for column in range(weights.shape[1]):
        # One long run per row: short runs cost more than their arithmetic.
        strided = image[:, :, column * column_step :: right][:, :, :wide]
        runs = strided.reshape(batch, -1, wide * channels)
        for row in range(weights.shape[0]):
            lines = runs[:, row * row_step :: down][:, :tall]
            np.multiply(lines, np.tile(weights[row, column], wide), out=products)
            sums += products
    return sums.reshape(-1, channels)


def dense(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """FULLY_CONNECTED of 8-bit integers, or of int16; the bias is optional."""
    activation = node.attributes_as(FullyConnected).activation
    rows, weights = inputs[0], _weights(graph, node, inputs)
    largest = _largest_magnitude(rows)
    rows = rows.astype(np.int16) - graph.tensors[node.inputs[0]].zero_point
    sums = exact_product(rows.reshape(-1, weights.shape[1]), weights, largest)
    return requantise_sums(graph, node, sums, _optional_bias(inputs), activation)


def scatter(products: Array, attributes: TransposeConv) -> Array:
    """Return the sums of a TRANSPOSE_CONV, (batch, height, width, outputs), from its products.

    `products` are (batch, input height, input width, kernel height, kernel width, outputs).
    """
    batch, in_height, in_width, *kernel, outputs = products.shape
    stride, padding, (height, width) = attributes.stride, attributes.padding, attributes.size
    tall = max((in_height - 1) * stride[0] + kernel[0], padding.top + height)
    wide = max((in_width - 1) * stride[1] + kernel[1], padding.left + width)
    sums = np.zeros((batch, tall, wide, outputs), products.dtype)
    for row, column in np.ndindex(*kernel):
        rows = slice(row, row + (in_height - 1) * stride[0] + 1, stride[0])
        columns = slice(column, column + (in_width - 1) * stride[1] + 1, stride[1])
        sums[:, rows, columns] += products[:, :, :, row, column]
    return sums[:, padding.top :, padding.left :][:, :height, :width]


def transposed_convolution(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """TRANSPOSE_CONV of 8-bit integers, with an optional bias."""
    attributes = node.attributes_as(TransposeConv)
    image, weights = inputs[0], _weights(graph, node, inputs)
    image = image.astype(np.int16) - graph.tensors[node.inputs[0]].zero_point
    depth = image.shape[3]
    flat = weights.transpose(1, 2, 0, 3).reshape(-1, depth)
    products = exact_product(image.reshape(-1, depth), flat)
    sums = scatter(
        products.reshape(*image.shape[:3], *weights.shape[1:3], len(weights)), attributes
    )
    return requantise_sums(graph, node, sums, _optional_bias(inputs), attributes.activation)
