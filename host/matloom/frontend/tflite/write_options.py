"""Option tables and parameter tensors of nodes: the inverse of `options` and `parameters`."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import tflite

from matloom.ir.attributes import (
    NO_PADDING,
    Activation,
    Arithmetic,
    Attributes,
    Axis,
    BatchMatmul,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    LeakyRelu,
    Pad,
    Padding,
    Pool2D,
    Reduce,
    Resize,
    Slice,
    Softmax,
    Split,
    Transpose,
    TransposeConv,
)
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation
from matloom.ir.shapes import same_padding

Fields = Mapping[str, int | float | bool]
Shapes = Sequence[tuple[int, ...]]


def _activation(activation: Activation) -> int:
    """Return the number of an activation in TFLite's schema."""
    return int(getattr(tflite.ActivationFunctionType, activation))


def _padding(padding: Padding, same: Padding) -> int:
    """Return the number of SAME or VALID; `same` is the padding in pixels that SAME means."""
    if padding == NO_PADDING:
        return int(tflite.Padding.VALID)
    if padding != same:
        raise ValueError(f"padding must be SAME ({same}) or VALID, not {padding}")
    return int(tflite.Padding.SAME)


def _convolution_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of Conv2DOptions or DepthwiseConv2DOptions."""
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


def _dense_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of FullyConnectedOptions."""
    assert isinstance(attributes, FullyConnected)
    return {
        "KeepNumDims": attributes.keep_num_dims,
        "FusedActivationFunction": _activation(attributes.activation),
    }


def _batch_matmul_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of BatchMatMulOptions."""
    assert isinstance(attributes, BatchMatmul)
    return {"AdjX": attributes.adj_x, "AdjY": attributes.adj_y}


def _pooling_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of Pool2DOptions."""
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


def _arithmetic_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of an elementwise operator's options."""
    assert isinstance(attributes, Arithmetic)
    return {"FusedActivationFunction": _activation(attributes.activation)}


def _softmax_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of SoftmaxOptions."""
    assert isinstance(attributes, Softmax)
    return {"Beta": attributes.beta}


def _leaky_relu_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of LeakyReluOptions."""
    assert isinstance(attributes, LeakyRelu)
    return {"Alpha": attributes.alpha}


def _axis_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of options that have only an axis."""
    assert isinstance(attributes, Axis)
    return {"Axis": attributes.axis}


def _pack_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of PackOptions."""
    assert isinstance(attributes, Axis)
    return {"Axis": attributes.axis, "ValuesCount": len(shapes)}


def _unpack_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of UnpackOptions."""
    assert isinstance(attributes, Axis)
    return {"Axis": attributes.axis, "Num": shapes[0][attributes.axis]}


def _split_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of SplitOptions."""
    assert isinstance(attributes, Split)
    return {"NumSplits": len(attributes.sizes)}


def _reduce_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of ReducerOptions."""
    assert isinstance(attributes, Reduce)
    return {"KeepDims": attributes.keep_dims}


def _resize_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of ResizeNearestNeighborOptions."""
    assert isinstance(attributes, Resize)
    return {
        "AlignCorners": attributes.align_corners,
        "HalfPixelCenters": attributes.half_pixel_centers,
    }


def _arg_extreme_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of ArgMaxOptions or ArgMinOptions; indices are int32."""
    return {"OutputType": tflite.TensorType.INT32}


def _transposed_convolution_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of TransposeConvOptions."""
    assert isinstance(attributes, TransposeConv)
    if attributes.activation is not Activation.NONE:
        raise ValueError(f"TRANSPOSE_CONV must have no activation, not {attributes.activation}")
    stride, kernel = attributes.stride, shapes[1][1:3]
    same = same_padding(attributes.size, (kernel[0], kernel[1]), stride)
    return {
        "Padding": _padding(attributes.padding, same),
        "StrideH": stride[0],
        "StrideW": stride[1],
    }


def _slice_ends(attributes: Slice) -> list[int]:
    """Return the end index, exclusive, of a strided slice along each axis."""
    axes = zip(attributes.begin, attributes.size, attributes.step, strict=True)
    return [begin + size * step for begin, size, step in axes]


def _strided_slice_fields(attributes: Attributes, shapes: Shapes) -> Fields:
    """Return the fields of StridedSliceOptions: masks with a bit for each axis."""
    assert isinstance(attributes, Slice)
    return {
        # An end before the first element cannot be expressed: negative numbers count from the end.
        "EndMask": sum(1 << axis for axis, end in enumerate(_slice_ends(attributes)) if end < 0),
        "ShrinkAxisMask": sum(1 << axis for axis in attributes.dropped),
    }


def operands_of(graph: Graph, node: Node) -> list[int | Array]:
    """Return a node's inputs as in a file: tensor numbers, or arrays for parameters."""
    inputs: list[int | Array] = list(node.inputs)
    attributes = node.attributes
    match attributes:
        case Pad(value=None):
            return [*inputs, _integers(zip(attributes.before, attributes.after, strict=True))]
        case Pad():
            pairs = _integers(zip(attributes.before, attributes.after, strict=True))
            dtype = graph.tensors[node.inputs[0]].dtype
            return [*inputs, pairs, np.array([attributes.value], dtype)]
        case Reduce():
            return [*inputs, _integers(attributes.axes)]
        case Transpose():
            return [*inputs, _integers(attributes.permutation)]
        case Resize():
            return [*inputs, _integers(attributes.size)]
        case Split() if node.op is Op.SPLIT:
            return [_integers([attributes.axis]), *inputs]
        case Split():
            return [*inputs, _integers(attributes.sizes), _integers([attributes.axis])]
        case Slice() if node.op is Op.SLICE:
            return [*inputs, _integers(attributes.begin), _integers(attributes.size)]
        case Slice():
            bounds = (attributes.begin, _slice_ends(attributes), attributes.step)
            return [*inputs, *map(_integers, bounds)]
        case TransposeConv():
            shape = graph.tensors[node.output].shape
            return [_integers(shape), inputs[1], inputs[0], *inputs[2:]]
        case Axis() if node.op in (Op.ARG_MAX, Op.ARG_MIN):
            return [*inputs, _integers([attributes.axis])]
    if node.op is Op.RESHAPE:
        return [*inputs, _integers(graph.tensors[node.output].shape)]
    if node.op is Op.EXPAND_DIMS:
        return [*inputs, _integers([0])]
    return inputs


def _integers(values: Iterable[int] | Iterable[tuple[int, int]]) -> Array:
    """Return integers, or pairs of them, as an int32 array."""
    return np.array(list(values), np.int32)


def parameter_quantisation(graph: Graph, node: Node, operand: Array) -> Quantisation | None:
    """Return the quantisation of a parameter: that of the data for a value of PADV2, else None."""
    data = graph.tensors[node.inputs[0]]
    return data.quantisation if operand.dtype.name == data.dtype else None


#: For each operator with an options table, the table's kind, and a function that returns the
#: table's fields.
OPTIONS: dict[Op, tuple[str, Callable[[Attributes, Shapes], Fields]]] = {
    Op.ADD: ("AddOptions", _arithmetic_fields),
    Op.ARG_MAX: ("ArgMaxOptions", _arg_extreme_fields),
    Op.ARG_MIN: ("ArgMinOptions", _arg_extreme_fields),
    Op.AVERAGE_POOL_2D: ("Pool2DOptions", _pooling_fields),
    Op.BATCH_MATMUL: ("BatchMatMulOptions", _batch_matmul_fields),
    Op.CONCATENATION: ("ConcatenationOptions", _axis_fields),
    Op.CONV_2D: ("Conv2DOptions", _convolution_fields),
    Op.DEPTHWISE_CONV_2D: ("DepthwiseConv2DOptions", _convolution_fields),
    Op.FULLY_CONNECTED: ("FullyConnectedOptions", _dense_fields),
    Op.GATHER: ("GatherOptions", _axis_fields),
    Op.LEAKY_RELU: ("LeakyReluOptions", _leaky_relu_fields),
    Op.MAX_POOL_2D: ("Pool2DOptions", _pooling_fields),
    Op.MEAN: ("ReducerOptions", _reduce_fields),
    Op.MUL: ("MulOptions", _arithmetic_fields),
    Op.PACK: ("PackOptions", _pack_fields),
    Op.RESIZE_NEAREST_NEIGHBOR: ("ResizeNearestNeighborOptions", _resize_fields),
    Op.SOFTMAX: ("SoftmaxOptions", _softmax_fields),
    Op.SPLIT: ("SplitOptions", _split_fields),
    Op.SPLIT_V: ("SplitVOptions", _split_fields),
    Op.STRIDED_SLICE: ("StridedSliceOptions", _strided_slice_fields),
    Op.SUB: ("SubOptions", _arithmetic_fields),
    Op.SUM: ("ReducerOptions", _reduce_fields),
    Op.TRANSPOSE_CONV: ("TransposeConvOptions", _transposed_convolution_fields),
    Op.UNPACK: ("UnpackOptions", _unpack_fields),
}
