"""Converts layers with weights: Conv, Gemm, MatMul and BatchNormalization."""

from dataclasses import replace
from typing import Any

import numpy as np

from matloom.frontend.errors import Unsupported
from matloom.frontend.onnx.file_node import FileNode
from matloom.frontend.onnx.floats.values import FloatValues
from matloom.frontend.onnx.values import LAST, in_file_order
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Axis,
    BatchMatmul,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Padding,
    Split,
)
from matloom.ir.graph import Array, Op, Tensor
from matloom.ir.shapes import MATRIX_RANK

#: Number of axes of one-dimensional data: images, channels, positions.
_LINE_RANK = 3


def image_of(values: FloatValues, name: str) -> int:
    """Return the tensor number of an image with channels last.

    One-dimensional data (images, channels, positions) become images of one row.
    """
    if len(values.shape(name)) != _LINE_RANK:
        return values.channels_last(name)
    number = values.tensor_in_order(name, (0, 2, 1))
    images, positions, channels = values.builder.tensors[number].shape
    return values.add(Op.RESHAPE, [number], shape=(images, 1, positions, channels))


def hold_image(values: FloatValues, node: FileNode, number: int) -> None:
    """Record tensor `number` as the output of an operator on images or lines.

    If the operator's input is one-dimensional, the axis of rows is removed.
    """
    if len(values.shape(node.source)) != _LINE_RANK:
        values.hold(node.output, LAST, number)
        return
    images, _one, positions, channels = values.builder.tensors[number].shape
    line = values.add(Op.RESHAPE, [number], shape=(images, positions, channels))
    values.hold(node.output, (0, 2, 1), line)


def pair(node: FileNode, name: str) -> tuple[int, int]:
    """Return an attribute for height and width, such as strides; (1, 1) if it is absent.

    Attributes for one-dimensional data have 1 as the height.
    """
    given = list(node.options.get(name, []))
    if len(given) == 1:
        return 1, int(given[0])
    if len(given) > 2:
        raise Unsupported(f"has {name} of {len(given)} dimensions")
    return (int(given[0]), int(given[1])) if given else (1, 1)


def padding_of(
    node: FileNode,
    image: tuple[int, ...],
    window: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
) -> Padding:
    """Return the padding of an operator with a window.

    `image` is the shape of its input (images, height, width, channels).
    """
    kind = node.options.get("auto_pad", b"NOTSET").decode()
    pads = list(node.options.get("pads", []))
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        total = [
            max(0, (-(-size // step) - 1) * step + (taps - 1) * apart + 1 - size)
            for size, taps, step, apart in zip(image[1:3], window, stride, dilation, strict=True)
        ]
        less, more = [each // 2 for each in total], [-(-each // 2) for each in total]
        pads = [*less, *more] if kind == "SAME_UPPER" else [*more, *less]
    elif len(pads) == 2:
        pads = [0, pads[0], 0, pads[1]]
    pads = pads if pads and kind != "VALID" else [0, 0, 0, 0]
    if min(pads) < 0:
        raise Unsupported(f"has padding of {pads}")
    return Padding(top=pads[0], left=pads[1], bottom=pads[2], right=pads[3])


def bias_of(values: FloatValues, name: str, channels: int) -> list[int]:
    """Return a list with the tensor number of the bias `name`; empty if `name` is empty."""
    if not name:
        return []
    data = values.constant(name)
    if data.size not in (1, channels):
        raise Unsupported(f"has a bias of the shape {data.shape} for {channels} outputs")
    data = np.broadcast_to(data.reshape(-1), channels)
    return [values.builder.constant(np.ascontiguousarray(data, np.float32), name=name)]


def _constant_weights(values: FloatValues, name: str) -> Array:
    """Return a layer's constant weights, which must be float32."""
    data = values.constant(name)
    if data.dtype != np.float32:
        raise Unsupported(f"has weights of {data.dtype}")
    return data


def filters_of(values: FloatValues, node: FileNode) -> Array:
    """Return the weights of a convolution (outputs, inputs, height, width).

    Those for one-dimensional data get a height of one.
    """
    weights = _constant_weights(values, node.inputs[1])
    if weights.ndim == _LINE_RANK:
        weights = weights[:, :, np.newaxis]
    if weights.ndim != len(LAST):
        raise Unsupported(f"has a window of {weights.ndim - 2} dimensions")
    return weights


def _convert_convolution(values: FloatValues, node: FileNode) -> None:
    """Convert a convolution: dense, depthwise, or in groups of channels."""
    weights = filters_of(values, node)
    number = image_of(values, node.source)
    image = values.builder.tensors[number].shape
    window = (weights.shape[2], weights.shape[3])
    stride, dilation = pair(node, "strides"), pair(node, "dilations")
    common: dict[str, Any] = {
        "stride": stride,
        "dilation": dilation,
        "padding": padding_of(node, image, window, stride, dilation),
        "activation": Activation.NONE,
    }
    groups = int(node.options.get("group", 1))
    bias = bias_of(values, node.input(2), len(weights))
    if groups == 1:
        made = _add_convolution(values, number, weights, bias, common, node.output)
    elif groups == image[3] and weights.shape[1] == 1:
        filters = values.builder.constant(
            np.ascontiguousarray(weights.transpose(1, 2, 3, 0)), name=node.inputs[1]
        )
        attributes = DepthwiseConv2D(**common, depth_multiplier=len(weights) // groups)
        operands = [number, filters, *bias]
        made = values.add(Op.DEPTHWISE_CONV_2D, operands, attributes, name=node.output)
    else:
        made = _add_grouped_convolution(values, number, weights, node, common)
    hold_image(values, node, made)


def _add_convolution(
    values: FloatValues,
    number: int,
    weights: Array,
    bias: list[int],
    common: dict[str, Any],
    name: str,
) -> int:
    """Add a CONV_2D with weights (outputs, inputs, height, width); return the output's number.

    `common` are its attributes.
    """
    filters = np.ascontiguousarray(weights.transpose(0, 2, 3, 1))
    operands = [number, values.builder.constant(filters), *bias]
    return values.add(Op.CONV_2D, operands, Conv2D(**common), name=name)


def _add_grouped_convolution(
    values: FloatValues, number: int, weights: Array, node: FileNode, common: dict[str, Any]
) -> int:
    """Add a CONV_2D for each group of channels, and concatenate them; return the tensor number."""
    groups, channels = int(node.options["group"]), values.builder.tensors[number].shape[3]
    sizes = (channels // groups,) * groups
    shape = (*values.builder.tensors[number].shape[:3], sizes[0])
    builder = values.builder
    parts = [builder.tensor(_tensor_like(values, number, shape, at)) for at in range(groups)]
    builder.node(Op.SPLIT, [number], parts, Split(axis=3, sizes=sizes))
    outputs = len(weights) // groups
    bias = values.constant(node.input(2)).reshape(-1) if node.input(2) else None
    made = []
    for at, part in enumerate(parts):
        chosen = slice(at * outputs, (at + 1) * outputs)
        own = [] if bias is None else [builder.constant(np.ascontiguousarray(bias[chosen]))]
        made.append(
            _add_convolution(values, part, weights[chosen], own, common, f"{node.output}/{at}")
        )
    return values.add(Op.CONCATENATION, made, Axis(axis=3), name=node.output)


def _tensor_like(values: FloatValues, number: int, shape: tuple[int, ...], axis: int) -> Tensor:
    """Return a tensor without data, like another one but for its shape and a suffix of its name."""
    tensor = values.builder.tensors[number]
    return replace(tensor, name=f"{tensor.name}/{axis}", shape=shape, data=None)


def _convert_gemm(values: FloatValues, node: FileNode) -> None:
    """Convert a Gemm with constant weights to a dense layer."""
    options = node.options
    if options.get("transA", 0):
        raise Unsupported("multiplies a transposed matrix")
    weights = _constant_weights(values, node.inputs[1])
    weights = weights if options.get("transB", 0) else weights.T
    weights = weights * np.float32(options.get("alpha", 1.0))
    bias = bias_of(values, node.input(2), len(weights))
    if bias and options.get("beta", 1.0) != 1.0:
        raise Unsupported("scales its bias")
    _add_dense_layer(values, node, weights, bias)


def _convert_matmul(values: FloatValues, node: FileNode) -> None:
    """Convert a MatMul: a dense layer if it has constant weights, or else a computed product."""
    if not any(map(values.is_constant, node.inputs)):
        _convert_computed_product(values, node)
        return
    weights = _constant_weights(values, node.inputs[1])
    if weights.ndim != 2:
        raise Unsupported(f"multiplies by a tensor of {weights.ndim} dimensions")
    _add_dense_layer(values, node, weights.T, [])


def _convert_computed_product(values: FloatValues, node: FileNode) -> None:
    """Convert MatMul of two computed tensors to BATCH_MATMUL, and record the output."""
    operands = [values.in_file_order(name) for name in node.inputs]
    ranks = [len(values.shape(name)) for name in node.inputs]
    if min(ranks) < MATRIX_RANK:
        raise Unsupported("multiplies by a vector that is computed")
    kind = BatchMatmul(adj_x=False, adj_y=False)
    output = values.add(Op.BATCH_MATMUL, operands, kind, name=node.output)
    values.hold(node.output, in_file_order(max(ranks)), output)


def _add_dense_layer(values: FloatValues, node: FileNode, weights: Array, bias: list[int]) -> None:
    """Add a dense layer with weights (outputs, inputs), and record the output."""
    shape = values.shape(node.source)
    number, columns = _matrix_of(values, node.source)
    weights = np.ascontiguousarray(weights if columns is None else weights[:, columns])
    kind = FullyConnected(keep_num_dims=len(shape) != 2)
    operands = [number, values.builder.constant(weights, name=node.inputs[1]), *bias]
    output = values.add(Op.FULLY_CONNECTED, operands, kind, name=node.output)
    values.hold(node.output, in_file_order(len(shape)), output)


def _matrix_of(values: FloatValues, name: str) -> tuple[int, Array | None]:
    """Return the tensor number of a matrix, and the index of each of its columns in the file.

    The columns are None if they are in the file's order. A flattened image keeps its channels last,
    so the caller must permute the weights instead.
    """
    shape, image = values.shape(name), values.flattened.get(name)
    if image is None or len(shape) != 2 or LAST not in values.tensors_of(image):
        return values.in_file_order(name), None
    source = values.shape(image)
    if source[0] != shape[0]:
        return values.in_file_order(name), None
    number = values.add(Op.RESHAPE, [values.tensors_of(image)[LAST]], shape=shape)
    places = np.arange(shape[1]).reshape(source[1:])
    return number, places.transpose(1, 2, 0).reshape(-1)


def _convert_batch_normalisation(values: FloatValues, node: FileNode) -> None:
    """Convert BatchNormalization to a product and a sum with constants for each channel."""
    scale, offset, mean, variance = (
        values.constant(name).astype(np.float64) for name in node.inputs[1:5]
    )
    if int(node.options.get("training_mode", 0)):
        raise Unsupported("is in training mode")
    factor = scale / np.sqrt(variance + node.options.get("epsilon", 1e-5))
    order = values.order_of([node.source])
    number = values.tensor_in_order(node.source, order)
    shape = [1] * len(order)
    shape[order.index(1)] = -1
    attributes = Arithmetic()
    for op, data in ((Op.MUL, factor), (Op.ADD, offset - mean * factor)):
        constant = values.builder.constant(data.astype(np.float32).reshape(shape))
        name = node.output if op is Op.ADD else ""
        number = values.add(op, [number, constant], attributes, name=name)
    values.hold(node.output, order, number)


#: Converters by operator name.
LAYERS = {
    "BatchNormalization": _convert_batch_normalisation,
    "Conv": _convert_convolution,
    "Gemm": _convert_gemm,
    "MatMul": _convert_matmul,
}
