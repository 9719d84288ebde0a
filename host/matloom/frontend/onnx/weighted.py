"""Converts quantised convolutions, and products with constant matrices, to layers of the graph."""

import math
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.claims import Claim
from matloom.frontend.onnx.parts import add_split
from matloom.frontend.onnx.quantised import Layer, attribute
from matloom.frontend.onnx.steps import fit_multipliers
from matloom.frontend.onnx.values import IN_INT8, LAST, LINE, Values, as_int8, in_file_order
from matloom.ir.attributes import (
    Attributes,
    Axis,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Padding,
)
from matloom.ir.graph import Array, Op, Quantisation

#: Smallest and largest value of int8.
_LOW, _HIGH = -128, 127


def convert_layer(values: Values, layer: Layer) -> Claim:
    """Convert a layer; return its exactness: how many sums can differ from ONNX Runtime's.

    Raises
    ------
    Unsupported
        The engine does not support such an operator.
    """
    dense = layer.node.op_type in ("QLinearMatMul", "QGemm")
    op, weights, attributes, order = (_dense_operator if dense else _convolution_operator)(
        values, layer
    )
    channels = len(weights) if op is not Op.DEPTHWISE_CONV_2D else weights.shape[3]
    taps = np.moveaxis(weights, -1, 0) if op is Op.DEPTHWISE_CONV_2D else weights
    bias = np.zeros(channels, np.int32) if layer.bias is None else layer.bias.reshape(-1)
    if bias.shape != (channels,) or bias.dtype != np.int32:
        raise Unsupported(f"has a bias of {bias.dtype} {bias.shape} for {channels} channels")
    scale, claim = layer_multipliers(
        layer, taps.reshape(channels, -1), bias.astype(np.int64), values
    )
    flat = _flattened_input(values, layer) if dense else None
    if flat is None:
        number = values.bytes_of(layer.data, order, layer.input_quantisation)
    else:
        number, columns = flat
        weights = np.ascontiguousarray(weights[:, columns])
    name = layer.output
    shape = tuple(values.known[name].shape[axis] for axis in order)
    # Images on the engine need rows.
    line = order == LINE
    if line:
        number = _add_reshape(values, number, _add_row_axis(values.tensors[number].shape))
    image = _add_row_axis(shape) if line else shape
    output = _add_layer(values, layer, (op, attributes), number, (weights, bias, scale), image)
    values.hold(name, order, _add_reshape(values, output, shape) if line else output)
    return claim


def _add_layer(
    values: Values,
    layer: Layer,
    operator: tuple[Op, Attributes],
    number: int,
    arrays: tuple[Array, Array, Array],
    shape: tuple[int, ...],
) -> int:
    """Add the operator of a layer, or one for each group of channels; return the output's number.

    `operator` is the operator and its attributes, `number` is the input, `arrays` are weights,
    biases and multipliers, `shape` is that of the output.
    """
    name, (op, attributes) = layer.output, operator
    signed = as_int8(layer.output_quantisation, values.known[name].dtype)
    groups = int(attribute(layer.node, "group", 1)) if op is Op.CONV_2D else 1
    weights, bias, scale = (
        np.split(array, groups, axis=axis) for array, axis in zip(arrays, (0, 0, 1), strict=True)
    )
    given, names = [number], [name]
    if groups > 1:
        names = [f"{name}, group {at}" for at in range(groups)]
        depth = weights[0].shape[-1]
        sources = [f"{layer.data}, group {at} of {name}" for at in range(groups)]
        given = add_split(values, number, len(shape) - 1, [depth] * groups, sources)
    made = []
    for at, part in enumerate(names):
        inputs = [
            given[at],
            values.constant(weights[at], f"{part} weights", unit_scale(layer)),
            values.constant(bias[at], f"{part} bias"),
            values.constant(scale[at], f"{part} multipliers"),
        ]
        part_shape = (*shape[:-1], shape[-1] // groups)
        made.append(values.add_operator(op, inputs, part_shape, signed, part, attributes))
    if groups == 1:
        return made[0]
    return values.add_operator(
        Op.CONCATENATION, made, shape, signed, name, Axis(axis=len(shape) - 1)
    )


def _add_row_axis(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape, as an image of one row, of data with one spatial axis and channels last."""
    images, positions, depth = shape
    return images, 1, positions, depth


def _add_reshape(values: Values, number: int, shape: tuple[int, ...]) -> int:
    """Add a RESHAPE that keeps the tensor's quantisation; return the output's tensor number."""
    tensor = values.tensors[number]
    name = tensor.name.removesuffix(IN_INT8)
    return values.add_operator(Op.RESHAPE, [number], shape, tensor.quantisation, name)


def _flattened_input(values: Values, layer: Layer) -> tuple[int, Array] | None:
    """Return a flattened input with channels last, and each column's index in the file; or None.

    The result is the number of a tensor, and the index of each of its columns in the file's order,
    by which the caller permutes the weights. It is None if the input is not a flattened image with
    channels last, or also exists in the file's order.
    """
    value = values.known[layer.data]
    if value.held or len(value.shape) != 2 or not value.flattened:
        return None
    source = values.known[value.flattened]
    if len(source.shape) != 4 or LAST not in source.held or source.shape[0] != value.shape[0]:
        return None
    signed = as_int8(layer.input_quantisation, value.dtype)
    number = values.add_operator(Op.RESHAPE, [source.held[LAST]], value.shape, signed, layer.data)
    places = np.arange(value.shape[1]).reshape(source.shape[1:])
    return number, places.transpose(1, 2, 0).reshape(-1)


def unit_scale(layer: Layer) -> Quantisation:
    """Return the weight scale of the first channel as a quantisation.

    Multipliers account for the other channels' scales.
    """
    return Quantisation(scale=(float(layer.weight_scale.reshape(-1)[0]),), zero_point=(0,))


def layer_multipliers(
    layer: Layer, weights: Array, bias: Array, values: Values
) -> tuple[Array, Claim]:
    """Return a layer's multipliers and shifts, int32 (2, channels), and their exactness.

    `weights` is (channels, taps); `bias` is int64 (channels,). The exactness is the number of
    sums that can differ from ONNX Runtime's with these multipliers.
    """
    (input_scale,), (output_scale,) = (
        layer.input_quantisation.scale,
        layer.output_quantisation.scale,
    )
    per_channel = layer.weight_scale.reshape(-1).astype(np.float32)
    scale = np.float32(input_scale) * per_channel / np.float32(output_scale)
    scale = np.broadcast_to(scale.astype(np.float32), len(weights))
    wide = weights.astype(np.int64)
    up, down = np.maximum(wide, 0).sum(axis=1), np.minimum(wide, 0).sum(axis=1)
    zero = as_int8(layer.input_quantisation, values.known[layer.data].dtype).zero_point[0]
    low, high = _LOW - zero, _HIGH - zero
    reach = (up * low + down * high + bias, up * high + down * low + bias)
    return multipliers_for(
        scale, reach, layer.output_quantisation, values.known[layer.output].dtype
    )


def multipliers_for(
    scale: Array,
    sum_range: tuple[Array, Array],
    output: Quantisation,
    dtype: str,
    results: Array | None = None,
) -> tuple[Array, Claim]:
    """Return multipliers and shifts, int32 (2, channels), from sums to an output; their exactness.

    Also returns how many sums can differ from ONNX Runtime's with them.

    Parameters
    ----------
    scale, sum_range, results:
        As for `fit_multipliers`.
    output, dtype:
        Quantisation and type of the output in the file.

    Raises
    ------
    Unsupported
        No multiplier of the engine can represent these scales.
    """
    zero = as_int8(output, dtype).zero_point[0]
    found = fit_multipliers(scale, sum_range, (_LOW - zero, _HIGH - zero), results)
    if found.absent:
        raise Unsupported(
            f"has scales beyond the engine's multipliers in {len(found.absent)} of "
            f"{len(scale)} channels"
        )
    claim = Claim(
        unit="sums",
        reachable=int((sum_range[1] - sum_range[0] + 1).sum()),
        differing=int(found.differing.sum()),
        channels=len(scale),
        repaired=int(found.repaired.sum()),
        affected=int((found.differing > 0).sum()),
        unproven=tuple(np.flatnonzero(found.differing).tolist()),
    )
    return found.data, claim


def _dense_operator(values: Values, layer: Layer) -> tuple[Op, Array, Attributes, tuple[int, ...]]:
    """Return a dense layer's operator, weights, attributes, and the order of its input's axes."""
    node, rank = layer.node, len(values.known[layer.data].shape)
    if layer.weights.ndim != 2:
        raise Unsupported(f"multiplies by a tensor of {layer.weights.ndim} dimensions")
    if attribute(node, "transA", 0) or attribute(node, "alpha", 1.0) != 1.0:
        raise Unsupported("multiplies a transposed or scaled matrix")
    if layer.bias is not None and attribute(node, "beta", 1.0) != 1.0:
        raise Unsupported("scales its bias")
    transposed = "Gemm" in node.op_type and attribute(node, "transB", 0)
    weights = layer.weights if transposed else layer.weights.T
    attributes = FullyConnected(keep_num_dims=rank != 2)
    return Op.FULLY_CONNECTED, np.ascontiguousarray(weights), attributes, in_file_order(rank)


def _convolution_operator(
    values: Values, layer: Layer
) -> tuple[Op, Array, Attributes, tuple[int, ...]]:
    """Return a convolution's operator, weights, attributes, and the order of its input's axes."""
    node, weights = layer.node, layer.weights
    rank = weights.ndim - 2
    if rank not in (1, 2):
        raise Unsupported(f"has a window of {rank} dimensions")
    _images, depth, *image = values.known[layer.data].shape
    groups = int(attribute(node, "group", 1))
    strides, dilations = (
        tuple(attribute(node, name, [1] * rank)) for name in ("strides", "dilations")
    )
    positions = values.known[layer.output].shape[2:]
    padding = spatial_padding(node, image, weights.shape[2:], (strides, dilations), positions)
    order: tuple[int, ...] = LAST
    if rank == 1:
        order, weights = LINE, weights[:, :, np.newaxis]
        strides, dilations = (1, *strides), (1, *dilations)
    common: dict[str, Any] = {"stride": strides, "dilation": dilations, "padding": padding}
    if groups == 1 or groups != depth or weights.shape[1] != 1:
        if groups * weights.shape[1] != depth or len(weights) % groups:
            raise Unsupported(f"has {groups} groups for {depth} channels")
        filters = np.ascontiguousarray(weights.transpose(0, 2, 3, 1))
        return Op.CONV_2D, filters, Conv2D(**common), order
    filters = np.ascontiguousarray(weights.transpose(1, 2, 3, 0))
    attributes = DepthwiseConv2D(**common, depth_multiplier=len(weights) // depth)
    return Op.DEPTHWISE_CONV_2D, filters, attributes, order


def spatial_padding(
    node: Any,
    image: list[int],
    window: tuple[int, ...],
    steps: tuple[tuple[int, ...], tuple[int, ...]],
    output: tuple[int, ...],
) -> Padding:
    """Return the padding of an operator with a window over images of one or two dimensions.

    `image` is the size of the image, `steps` are strides and dilations, and `output` is the size of
    the output, which decides the padding if `auto_pad` is ``SAME_UPPER`` or ``SAME_LOWER``.
    """
    pads = list(attribute(node, "pads", [0, 0] * len(image)))
    kind = attribute(node, "auto_pad", b"NOTSET").decode()
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        total = [
            max(0, (out - 1) * stride + (taps - 1) * dilation + 1 - size)
            for size, taps, stride, dilation, out in zip(image, window, *steps, output, strict=True)
        ]
        less = [each // 2 for each in total]
        more = [math.ceil(each / 2) for each in total]
        pads = [*less, *more] if kind == "SAME_UPPER" else [*more, *less]
    elif kind == "VALID":
        pads = [0, 0] * len(image)
    if min(pads) < 0:
        raise Unsupported(f"has padding of {pads}")
    if len(image) == 1:
        pads = [0, pads[0], 0, pads[1]]
    return Padding(top=pads[0], left=pads[1], bottom=pads[2], right=pads[3])
