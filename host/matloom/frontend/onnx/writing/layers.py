"""Writes layers with weights, and pools, as operators of ONNX."""

from typing import Any

import numpy as np

from matloom.frontend.onnx.values import in_file_order
from matloom.frontend.onnx.writing.file import FIRST, OnnxFile
from matloom.ir.attributes import (
    Activation,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Padding,
    Pool2D,
    TransposeConv,
)
from matloom.ir.graph import Array, Node, Op, Tensor
from matloom.ir.shapes import BIAS, MATRIX_RANK

#: Smallest and largest int8 value.
_INT8 = (-128, 127)


#: Smallest and largest result of each activation.
_LIMITS = {
    Activation.NONE: (-np.inf, np.inf),
    Activation.RELU: (0.0, np.inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def apply_activation(file: OnnxFile, name: str, activation: Activation, output: Tensor) -> str:
    """Add an activation of the value `name`; return the name of its result.

    If the integers of `output` cannot represent a value outside the activation's limits, `name` is
    returned, and nothing is added.
    """
    low, high = _LIMITS[activation]
    if output.quantisation is not None:
        ends = [(end - output.zero_point) * output.scale for end in _INT8]
        spare = output.scale / 2
        if ends[0] >= low - spare and ends[1] <= high + spare:
            return name
    elif activation is Activation.NONE:
        return name
    if activation is Activation.RELU:
        return file.node("Relu", [name])
    limits = [file.constant(np.array(limit, np.float32), "limit") for limit in (low, high)]
    return file.node("Clip", [name, *limits])


def pads(padding: Padding) -> list[int]:
    """Return a padding as ONNX's attribute `pads`: top, left, bottom, right."""
    return [padding.top, padding.left, padding.bottom, padding.right]


def _weights_and_bias(file: OnnxFile, node: Node, weights: Array, axis: int = 0) -> list[str]:
    """Add weights and, if the node has one, a bias; return the names of both.

    `weights` are in ONNX's order of axes; `axis` is the axis of output channels.
    """
    tensors = file.graph.tensors
    data, held = (tensors[number] for number in node.inputs[:2])
    bias = tensors[node.inputs[BIAS]].data if len(node.inputs) > BIAS else None
    if held.quantisation is None:
        names = [file.constant(weights, held.name)]
        return names if bias is None else [*names, file.constant(bias.reshape(-1), "bias")]
    scales = np.array(held.quantisation.scale, np.float32)
    names = [file.dequantise(weights, scales, held.name, axis)]
    if bias is not None:
        scales = np.float32(data.scale) * scales
        label = tensors[node.inputs[BIAS]].name
        names.append(file.dequantise(bias.reshape(-1), scales, label))
    return names


def _write_convolution(file: OnnxFile, node: Node) -> None:
    """Write a convolution, dense or depthwise, as Conv."""
    attributes = node.attributes_as(Conv2D)
    weights = file.graph.tensors[node.inputs[1]].data
    assert weights is not None
    axes = (3, 0, 1, 2) if node.op is Op.DEPTHWISE_CONV_2D else FIRST
    weights = weights.transpose(axes)
    more: dict[str, Any] = {}
    if isinstance(attributes, DepthwiseConv2D):
        more["group"] = file.graph.tensors[node.inputs[0]].shape[3]
    operands = [file.value(node.inputs[0], FIRST), *_weights_and_bias(file, node, weights)]
    output = file.node(
        "Conv",
        operands,
        kernel_shape=list(weights.shape[2:]),
        strides=list(attributes.stride),
        dilations=list(attributes.dilation),
        pads=pads(attributes.padding),
        **more,
    )
    file.record_output(
        node.output,
        FIRST,
        apply_activation(file, output, attributes.activation, file.graph.tensors[node.output]),
    )


def _write_transposed_convolution(file: OnnxFile, node: Node) -> None:
    """Write a transposed convolution as ConvTranspose."""
    attributes = node.attributes_as(TransposeConv)
    weights, padding = file.graph.tensors[node.inputs[1]].data, attributes.padding
    assert weights is not None
    weights = weights.transpose(3, 0, 1, 2)
    image, window = file.graph.tensors[node.inputs[0]].shape[1:3], weights.shape[2:]
    cut = padding.top + padding.bottom, padding.left + padding.right
    # Rows and columns behind the last window.
    more = [
        size + off - (step * (count - 1) + taps)
        for size, off, count, step, taps in zip(
            *(attributes.size, cut, image, attributes.stride, window), strict=True
        )
    ]
    output = file.node(
        "ConvTranspose",
        [file.value(node.inputs[0], FIRST), *_weights_and_bias(file, node, weights, axis=1)],
        kernel_shape=list(window),
        strides=list(attributes.stride),
        pads=pads(padding),
        output_padding=more,
    )
    file.record_output(
        node.output,
        FIRST,
        apply_activation(file, output, attributes.activation, file.graph.tensors[node.output]),
    )


def _write_dense(file: OnnxFile, node: Node) -> None:
    """Write a dense layer as Gemm, between reshapes if it has more than two axes."""
    attributes = node.attributes_as(FullyConnected)
    weights = file.graph.tensors[node.inputs[1]].data
    assert weights is not None
    tensor, shape = file.graph.tensors[node.inputs[0]], file.graph.tensors[node.output].shape
    name = file.value(node.inputs[0])
    if len(tensor.shape) != MATRIX_RANK:
        rows = file.constant(np.array([-1, weights.shape[1]], np.int64), "shape")
        name = file.requantise(tensor, file.node("Reshape", [name, rows]))
    made = file.node("Gemm", [name, *_weights_and_bias(file, node, weights)], transB=1)
    made = apply_activation(file, made, attributes.activation, file.graph.tensors[node.output])
    if len(shape) == MATRIX_RANK:
        file.record_output(node.output, in_file_order(MATRIX_RANK), made)
        return
    result = file.graph.tensors[node.output]
    sizes = file.constant(np.array(shape, np.int64), "shape")
    reshaped = file.node("Reshape", [file.requantise(result, made), sizes])
    file.record_output(node.output, in_file_order(len(shape)), reshaped)


def _write_pool(file: OnnxFile, node: Node) -> None:
    """Write a pool as MaxPool or AveragePool."""
    attributes = node.attributes_as(Pool2D)
    op = "MaxPool" if node.op is Op.MAX_POOL_2D else "AveragePool"
    output = file.node(
        op,
        [file.value(node.inputs[0], FIRST)],
        kernel_shape=list(attributes.window),
        strides=list(attributes.stride),
        pads=pads(attributes.padding),
    )
    file.record_output(
        node.output,
        FIRST,
        apply_activation(file, output, attributes.activation, file.graph.tensors[node.output]),
    )


#: Functions that write a node, by operator.
LAYERS = {
    Op.AVERAGE_POOL_2D: _write_pool,
    Op.CONV_2D: _write_convolution,
    Op.DEPTHWISE_CONV_2D: _write_convolution,
    Op.FULLY_CONNECTED: _write_dense,
    Op.MAX_POOL_2D: _write_pool,
    Op.TRANSPOSE_CONV: _write_transposed_convolution,
}
