"""Definitions of operators with windows or weights on probes, tap by tap.

Probes are numbers that stand for unknown bytes.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matloom.arch.modes import FLOAT_MODES
from matloom.arch.numerics import Rounding, reciprocal, short_multiplier
from matloom.ir.attributes import (
    Activation,
    BatchMatmul,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Padding,
    Pool2D,
    Reduce,
    TransposeConv,
)
from matloom.ir.products import has_computed_weights
from matloom.ir.scales import (
    activation_range,
    channel_multipliers,
    layer_rounding,
    product_multiplier,
    reduction_multiplier,
    sums_are_wide,
)
from matloom.meaning.context import NodeInputs, Unproven
from matloom.meaning.float_layers import float_result, float_weights
from matloom.meaning.terms import (
    Integers,
    Scale,
    exact_product,
    limbs,
    nibbles,
    peaks,
    product_of_probes,
    requantise,
)

_Floats = NDArray[np.float64]


def _weights(context: NodeInputs) -> NDArray[Any]:
    """Return constant weights; those of uint8 minus their zero point."""
    tensor = context.inputs[1]
    if tensor.data is None:
        raise Unproven("weights that are computed")
    if tensor.dtype == "uint8":
        return tensor.data.astype(np.int16) - tensor.zero_point
    return tensor.data


def _first_input(context: NodeInputs, mode: str | None) -> _Floats:
    """Return the first input as EXEC multiplies it in a mode: integers minus their zero point."""
    if mode in FLOAT_MODES:
        return context.values(0).astype(np.float64)
    values = context.values(0)
    if mode == "i4xi4":
        values = nibbles(values)
    return (values - context.inputs[0].zero_point).astype(np.float64)


def _weight_factors(context: NodeInputs, mode: str | None) -> _Floats:
    """Return the weights as EXEC multiplies them in a mode, as floating-point numbers."""
    weights = _weights(context)
    if mode in FLOAT_MODES:
        return float_weights(weights, mode)
    return weights.astype(np.float64)


def _pad_with_zeros(image: _Floats, padding: Padding) -> _Floats:
    """Return an image with zeros around it."""
    rows, columns = (padding.top, padding.bottom), (padding.left, padding.right)
    return np.pad(image, ((0, 0), rows, columns, (0, 0)))


def _tap_input(
    image: _Floats, tap: tuple[int, int], attributes: Conv2D | Pool2D, shape: tuple[int, ...]
) -> _Floats:
    """Return the input under one tap of the window at every output position.

    `image` is padded, `tap` is the row and column in the window, and `shape` the output's shape.
    """
    dilation = attributes.dilation if isinstance(attributes, Conv2D) else (1, 1)
    rows, columns = (
        slice(at * apart, at * apart + (count - 1) * stride + 1, stride)
        for at, apart, count, stride in zip(
            tap, dilation, shape[1:3], attributes.stride, strict=True
        )
    )
    return image[:, rows, columns]


def _layer_output(context: NodeInputs, sums: Integers, activation: Activation) -> list[Integers]:
    """Return the output bytes of a layer from its sums (..., channels), without bias so far."""
    if len(context.inputs) > 2:
        bias = context.inputs[2].data
        if bias is None:
            raise Unproven("a bias that is computed")
        sums = sums + bias.reshape(-1).astype(np.int64)
    if context.output.dtype == "int32":
        return _limbs_of(sums)
    multipliers, shifts = channel_multipliers(context.graph, context.node)
    if not sums_are_wide(context.graph, context.node):
        rounding = layer_rounding(context.node)
        return context.to_bytes(
            context.result(sums, multipliers, shifts, activation, rounding=rounding)
        )
    shortened = short_multiplier(multipliers) << 16
    return context.to_bytes(
        context.result(sums, shortened, shifts, activation, rounding=Rounding.SINGLE)
    )


def _limbs_of(sums: Integers) -> list[Integers]:
    """Return the bytes of sums that are a network's output: a list of one array (4, elements).

    Sums leave the engine in four byte limbs.
    """
    return [np.stack([limb.reshape(-1) for limb in limbs(sums)])]


def convolution(context: NodeInputs) -> list[Integers]:
    """Compute CONV_2D: sums of products over the window, with bias, scaled by channel."""
    attributes = context.node.attributes_as(Conv2D)
    image = _pad_with_zeros(_first_input(context, attributes.mode), attributes.padding)
    weights, shape = _weight_factors(context, attributes.mode), context.output.shape
    sums = np.zeros(shape, np.int64)
    for tap in np.ndindex(weights.shape[1:3]):
        sums += exact_product(_tap_input(image, tap, attributes, shape), weights[:, *tap].T)
    if attributes.mode in FLOAT_MODES:
        return float_result(context, sums, attributes.activation)
    return _layer_output(context, sums, attributes.activation)


def depthwise(context: NodeInputs) -> list[Integers]:
    """Compute DEPTHWISE_CONV_2D: each channel's sums of products, with bias, scaled by channel."""
    attributes = context.node.attributes_as(DepthwiseConv2D)
    image = _pad_with_zeros(_first_input(context, None), attributes.padding)
    if attributes.depth_multiplier > 1:
        image = np.repeat(image, attributes.depth_multiplier, axis=3)
    weights, shape = _weight_factors(context, None), context.output.shape
    # Whole rows are multiplied at once: NumPy is slow along few channels.
    rows = (*shape[:2], shape[2] * shape[3])
    sums, products = np.zeros(rows), np.empty(rows)
    for tap in np.ndindex(weights.shape[1:3]):
        given = _tap_input(image, tap, attributes, shape).reshape(rows)
        sums += np.multiply(given, np.tile(weights[0, *tap], shape[2]), out=products)
    return _layer_output(context, sums.astype(np.int64).reshape(shape), attributes.activation)


def dense(context: NodeInputs) -> list[Integers]:
    """Compute FULLY_CONNECTED: products by constant or computed weights, with bias, scaled."""
    attributes = context.node.attributes_as(FullyConnected)
    if has_computed_weights(context.node, context.inputs):
        keys = context.without_zero_point(1).astype(np.float64)
        given = context.without_zero_point(0).astype(np.float64).reshape(-1, keys.shape[1])
        return _layer_output(context, product_of_probes(given, keys.T), attributes.activation)
    weights = _weight_factors(context, attributes.mode)
    rows = _first_input(context, attributes.mode).reshape(-1, weights.shape[1])
    sums = exact_product(rows, weights.T)
    if attributes.mode in FLOAT_MODES:
        return float_result(context, sums, attributes.activation)
    return _layer_output(context, sums, attributes.activation)


def batch_matmul(context: NodeInputs) -> list[Integers]:
    """Compute BATCH_MATMUL, matrix by matrix."""
    attributes = context.node.attributes_as(BatchMatmul)
    left, right = (
        values.swapaxes(-1, -2) if adjoint else values
        for values, adjoint in (
            (context.without_zero_point(0).astype(np.float64), attributes.adj_x),
            (context.without_zero_point(1).astype(np.float64), attributes.adj_y),
        )
    )
    batch = context.output.shape[:-2]
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    sums = np.empty(context.output.shape, np.int64)
    for at in np.ndindex(batch):
        sums[at] = product_of_probes(left[at], right[at])
    if context.output.dtype == "int32":
        return _limbs_of(sums)
    pair, rounding = product_multiplier(context.graph, context.node), layer_rounding(context.node)
    return context.to_bytes(context.result(sums, *pair, rounding=rounding))


def transposed_convolution(context: NodeInputs) -> list[Integers]:
    """Compute TRANSPOSE_CONV: each input position adds its products to a window of the output."""
    attributes = context.node.attributes_as(TransposeConv)
    image, weights = _first_input(context, None), _weight_factors(context, None)
    images, in_height, in_width, _depth = image.shape
    top, left = attributes.padding.top, attributes.padding.left
    (height, width), (down, across) = attributes.size, attributes.stride
    outputs, tall, wide, _ = weights.shape
    whole = np.zeros(
        (
            images,
            max(top + height, (in_height - 1) * down + tall),
            max(left + width, (in_width - 1) * across + wide),
            outputs,
        ),
        np.int64,
    )
    for y, x in np.ndindex(tall, wide):
        rows = slice(y, y + (in_height - 1) * down + 1, down)
        columns = slice(x, x + (in_width - 1) * across + 1, across)
        whole[:, rows, columns] += exact_product(image, weights[:, y, x].T)
    sums = whole[:, top : top + height, left : left + width]
    return _layer_output(context, sums, attributes.activation)


def average_pool(context: NodeInputs) -> list[Integers]:
    """Compute AVERAGE_POOL_2D: sums over the valid elements of a window, divided by their count."""
    attributes, shape = context.node.attributes_as(Pool2D), context.output.shape
    image = _pad_with_zeros(context.values(0).astype(np.float64), attributes.padding)
    inside = _pad_with_zeros(np.ones((1, *context.inputs[0].shape[1:3], 1)), attributes.padding)
    sums, counts = np.zeros(shape), np.zeros((1, *shape[1:3], 1))
    for tap in np.ndindex(attributes.window):
        sums += _tap_input(image, tap, attributes, shape)
        counts += _tap_input(inside, tap, attributes, shape)
    low, high = activation_range(attributes.activation, context.output)
    result = np.empty(shape, np.int64)
    for count in np.unique(counts).astype(int).tolist():
        multiplier, shift = reciprocal(count)
        scale = Scale(
            multiplier=multiplier, shift=shift, rounding=Rounding.AVERAGE, low=low, high=high
        )
        at = np.broadcast_to(counts == count, shape)
        chosen = sums[at].astype(np.int64)
        result[at] = requantise(chosen, count // 2, scale, context.output_kind)
    return context.to_bytes(result)


def max_pool(context: NodeInputs) -> list[Integers]:
    """Compute MAX_POOL_2D: sums of encoded bytes over each window, which stand for the maxima."""
    if context.output.dtype != "int8":
        raise Unproven(f"maximum pooling of {context.output.dtype}")
    attributes, shape = context.node.attributes_as(Pool2D), context.output.shape
    image = _pad_with_zeros(peaks(context.values(0)).astype(np.float64), attributes.padding)
    sums = np.zeros(shape)
    for tap in np.ndindex(attributes.window):
        sums += _tap_input(image, tap, attributes, shape)
    low, high = activation_range(attributes.activation, context.output)
    scale = Scale(low=low, high=high)
    return context.to_bytes(requantise(sums.astype(np.int64), 0, scale))


def reduction(context: NodeInputs) -> list[Integers]:
    """Compute SUM and MEAN: differences from the zero point, summed along axes and scaled."""
    axes = context.node.attributes_as(Reduce).axes
    count = math.prod(context.inputs[0].shape[axis] for axis in axes)
    if not count:
        raise Unproven("a sum of nothing")
    sums = context.without_zero_point(0).sum(axis=axes).reshape(context.output.shape)
    pair = reduction_multiplier(context.graph, context.node)
    return context.to_bytes(context.result(sums, *pair))
