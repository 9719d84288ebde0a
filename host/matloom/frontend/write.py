"""Graphs to TensorFlow Lite files, so that other runtimes can run what a test or a user made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import tflite

from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Attributes,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Padding,
    Pool2D,
    Softmax,
)
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.shapes import same_padding

__all__ = ["write_tflite"]

IDENTIFIER = b"TFL3"
#: Runtimes read constants in place, with vector instructions.
ALIGNMENT = 16

Fields = Mapping[str, int | float | bool]
Shapes = Sequence[tuple[int, ...]]


def write_tflite(graph: Graph) -> bytes:
    """Return `graph` as a TensorFlow Lite file; `load_tflite` reads the same graph from it.

    Raises
    ------
    ValueError
        A padding is neither SAME nor VALID: the format knows no other.
    """
    builder = flatbuffers.Builder(1024)
    numbers = range(max(graph.tensors) + 1)
    filler = Tensor(name="", shape=(1,), dtype="int8")
    tensors = [graph.tensors.get(number, filler) for number in numbers]
    for node in graph.nodes:
        if OPERATORS[node.op].weight_axis is not None and len(node.inputs) == 3:
            tensors[node.inputs[2]] = _scaled_bias(graph, node)
    ops = sorted({node.op for node in graph.nodes})
    subgraph = _table(
        builder,
        "SubGraph",
        Tensors=_tables(builder, [_tensor(builder, at, t) for at, t in enumerate(tensors)]),
        Inputs=_integers(builder, graph.inputs),
        Outputs=_integers(builder, graph.outputs),
        Operators=_tables(builder, [_operator(builder, graph, n, ops) for n in graph.nodes]),
        Name=builder.CreateString(graph.name),
    )
    # The first buffer is empty by convention; the others belong to a tensor each.
    buffers = [_table(builder, "Buffer"), *(_buffer(builder, t.data) for t in tensors)]
    model = _table(
        builder,
        "Model",
        Version=3,
        OperatorCodes=_tables(builder, [_code(builder, op) for op in ops]),
        Subgraphs=_tables(builder, [subgraph]),
        Buffers=_tables(builder, buffers),
    )
    builder.Finish(model, IDENTIFIER)
    return bytes(builder.Output())


def _scaled_bias(graph: Graph, node: Node) -> Tensor:
    """Return a bias with its scales, which some runtimes check."""
    given, weights, bias = (graph.tensors[number] for number in node.inputs)
    assert weights.quantisation is not None
    scale = tuple(given.scale * scale for scale in weights.quantisation.scale)
    axis = None if weights.quantisation.axis is None else 0
    quantisation = Quantisation(scale=scale, zero_point=(0,) * len(scale), axis=axis)
    return replace(bias, quantisation=quantisation)


def _table(builder: Any, kind: str, **fields: int | float | bool) -> int:
    """Write a table of the schema; fields are numbers or offsets of what is written already."""
    getattr(tflite, f"{kind}Start")(builder)
    for name, value in fields.items():
        getattr(tflite, f"{kind}Add{name}")(builder, value)
    return int(getattr(tflite, f"{kind}End")(builder))


def _tables(builder: Any, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _integers(builder: Any, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(values, np.int32)))


def _buffer(builder: Any, data: Array | None) -> int:
    if data is None:
        return _table(builder, "Buffer")
    content = data.tobytes()
    builder.Prep(ALIGNMENT, len(content))
    return _table(builder, "Buffer", Data=builder.CreateByteVector(content))


def _tensor(builder: Any, number: int, tensor: Tensor) -> int:
    fields: dict[str, int | bool] = {
        "Name": builder.CreateString(tensor.name),
        "Shape": _integers(builder, tensor.shape),
        "Type": getattr(tflite.TensorType, tensor.dtype.upper()),
        "Buffer": number + 1,
    }
    if tensor.quantisation is not None:
        fields["Quantization"] = _quantisation(builder, tensor.quantisation)
    return _table(builder, "Tensor", **fields)


def _quantisation(builder: Any, quantisation: Quantisation) -> int:
    return _table(
        builder,
        "QuantizationParameters",
        Scale=builder.CreateNumpyVector(np.array(quantisation.scale, np.float32)),
        ZeroPoint=builder.CreateNumpyVector(np.array(quantisation.zero_point, np.int64)),
        QuantizedDimension=quantisation.axis or 0,
    )


def _code(builder: Any, op: Op) -> int:
    number = getattr(tflite.BuiltinOperator, op)
    return _table(
        builder,
        "OperatorCode",
        BuiltinCode=number,
        DeprecatedBuiltinCode=min(number, 127),
        Version=1,
    )


def _operator(builder: Any, graph: Graph, node: Node, ops: list[Op]) -> int:
    fields = {
        "OpcodeIndex": ops.index(node.op),
        "Inputs": _integers(builder, node.inputs),
        "Outputs": _integers(builder, node.outputs),
    }
    if node.op in OPTIONS:
        kind, describe = OPTIONS[node.op]
        shapes = [graph.tensors[number].shape for number in node.inputs]
        fields["BuiltinOptions"] = _table(builder, kind, **describe(node.attributes, shapes))
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, kind)
    return _table(builder, "Operator", **fields)


def _activation(activation: Activation) -> int:
    return int(getattr(tflite.ActivationFunctionType, activation))


def _padding(padding: Padding, same: Padding) -> int:
    if padding == Padding(top=0, bottom=0, left=0, right=0):
        return int(tflite.Padding.VALID)
    if padding != same:
        raise ValueError(f"padding must be SAME ({same}) or VALID, not {padding}")
    return int(tflite.Padding.SAME)


def _convolution(attributes: Attributes, shapes: Shapes) -> Fields:
    assert isinstance(attributes, Conv2D)
    stride, dilation = attributes.stride, attributes.dilation
    (_, *image, _), (_, *kernel, _) = shapes[:2]
    same = same_padding((image[0], image[1]), (kernel[0], kernel[1]), stride, dilation)
    fields = {
        "Padding": _padding(attributes.padding, same),
        "StrideH": stride[0],
        "StrideW": stride[1],
        "DilationHFactor": dilation[0],
        "DilationWFactor": dilation[1],
        "FusedActivationFunction": _activation(attributes.activation),
    }
    if isinstance(attributes, DepthwiseConv2D):
        fields["DepthMultiplier"] = attributes.depth_multiplier
    return fields


def _dense(attributes: Attributes, shapes: Shapes) -> Fields:
    assert isinstance(attributes, FullyConnected)
    return {
        "KeepNumDims": attributes.keep_num_dims,
        "FusedActivationFunction": _activation(attributes.activation),
    }


def _pooling(attributes: Attributes, shapes: Shapes) -> Fields:
    assert isinstance(attributes, Pool2D)
    window, stride = attributes.window, attributes.stride
    same = same_padding((shapes[0][1], shapes[0][2]), window, stride)
    return {
        "Padding": _padding(attributes.padding, same),
        "StrideH": stride[0],
        "StrideW": stride[1],
        "FilterHeight": window[0],
        "FilterWidth": window[1],
        "FusedActivationFunction": _activation(attributes.activation),
    }


def _sum(attributes: Attributes, shapes: Shapes) -> Fields:
    assert isinstance(attributes, Arithmetic)
    return {"FusedActivationFunction": _activation(attributes.activation)}


def _softmax(attributes: Attributes, shapes: Shapes) -> Fields:
    assert isinstance(attributes, Softmax)
    return {"Beta": attributes.beta}


#: The options table of each operator that has one, and its fields.
OPTIONS: dict[Op, tuple[str, Callable[[Attributes, Shapes], Fields]]] = {
    Op.ADD: ("AddOptions", _sum),
    Op.AVERAGE_POOL_2D: ("Pool2DOptions", _pooling),
    Op.CONV_2D: ("Conv2DOptions", _convolution),
    Op.DEPTHWISE_CONV_2D: ("DepthwiseConv2DOptions", _convolution),
    Op.FULLY_CONNECTED: ("FullyConnectedOptions", _dense),
    Op.MAX_POOL_2D: ("Pool2DOptions", _pooling),
    Op.SOFTMAX: ("SoftmaxOptions", _softmax),
}
