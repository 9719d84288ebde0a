"""Functions that read an operator's attributes from its options table, by operator."""

from collections.abc import Callable, Sequence
from typing import Any

import tflite

from matloom.frontend.errors import Contradiction, Unsupported
from matloom.frontend.tflite.flatbuffer import enum_name, options
from matloom.frontend.tflite.parameters import PARAMETER_READERS
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
    Padding,
    Pool2D,
    Softmax,
)
from matloom.ir.graph import Op, Tensor
from matloom.ir.shapes import IMAGE_RANK, same_padding

#: Function that returns the attributes of an operator. Its arguments are the operator, its input
#: tensors and its output tensors, as in the file.
Reader = Callable[[Any, Sequence[Tensor], Sequence[Tensor]], Attributes]
Pair = tuple[int, int]


def _activation(table: Any) -> Activation:
    """Return the activation that an operator's options fuse into it."""
    name = enum_name(tflite.ActivationFunctionType, table.FusedActivationFunction())
    if name not in Activation.__members__:
        raise Unsupported(f"has an activation of {name}")
    return Activation(name)


def _pair(subject: str, height: int, width: int) -> Pair:
    """Return height and width, both at least 1; `subject` names them in the error."""
    if height < 1 or width < 1:
        raise Contradiction(f"must have a {subject} of at least 1, not {(height, width)}")
    return height, width


def _image_size(inputs: Sequence[Tensor], index: int) -> Pair:
    """Return height and width of input `index`, which must be an NHWC image."""
    shape = inputs[index].shape if index < len(inputs) else ()
    if len(shape) != IMAGE_RANK:
        raise Contradiction(f"must have an input {index} of 4 dimensions, not {shape}")
    return shape[1], shape[2]


def _padding(table: Any, image: Pair, kernel: Pair, stride: Pair, dilation: Pair) -> Padding:
    """Return the padding of an operator from its options: SAME or VALID."""
    kind = table.Padding()
    if kind == tflite.Padding.SAME:
        return same_padding(image, kernel, stride, dilation)
    if kind == tflite.Padding.VALID:
        return NO_PADDING
    raise Contradiction(f"must have a padding of SAME or VALID, not {kind}")


def _window_attributes(table: Any, inputs: Sequence[Tensor]) -> dict[str, Any]:
    """Return the attributes that CONV_2D and DEPTHWISE_CONV_2D have in common."""
    stride = _pair("stride", table.StrideH(), table.StrideW())
    dilation = _pair("dilation", table.DilationHFactor(), table.DilationWFactor())
    padding = _padding(table, _image_size(inputs, 0), _image_size(inputs, 1), stride, dilation)
    return {
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "activation": _activation(table),
    }


def _read_convolution(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read stride, dilation, padding and activation of a convolution."""
    return Conv2D(**_window_attributes(options(operator, tflite.Conv2DOptions), inputs))


def _read_depthwise(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read a depthwise convolution; its shapes say how many outputs each channel has."""
    shared = _window_attributes(options(operator, tflite.DepthwiseConv2DOptions), inputs)
    # The file's depth_multiplier may be wrong; kernels use the shapes.
    channels, columns = inputs[0].shape[3], inputs[1].shape[3]
    if channels < 1 or columns % channels:
        raise Contradiction(f"must have a multiple of {channels} output channels, not {columns}")
    return DepthwiseConv2D(depth_multiplier=columns // channels, **shared)


def _read_dense(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read a dense layer: its activation, and whether the output keeps the input's axes."""
    table = options(operator, tflite.FullyConnectedOptions)
    if table.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise Unsupported(f"has weights of format {table.WeightsFormat()}")
    hybrid = [tensor.dtype for tensor in inputs[:2]] == ["float32", "int8"]
    if hybrid and table.AsymmetricQuantizeInputs():
        raise Unsupported("quantises its input around a zero point")
    return FullyConnected(keep_num_dims=bool(table.KeepNumDims()), activation=_activation(table))


def _read_batch_matmul(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read which operands of a matrix product are transposed."""
    table = options(operator, tflite.BatchMatMulOptions)
    return BatchMatmul(adj_x=bool(table.AdjX()), adj_y=bool(table.AdjY()))


def _read_pooling(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read window, stride, padding and activation of a pool."""
    table = options(operator, tflite.Pool2DOptions)
    window = _pair("window", table.FilterHeight(), table.FilterWidth())
    stride = _pair("stride", table.StrideH(), table.StrideW())
    padding = _padding(table, _image_size(inputs, 0), window, stride, (1, 1))
    return Pool2D(window=window, stride=stride, padding=padding, activation=_activation(table))


def _read_softmax(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read the factor `beta` of a softmax."""
    beta = float(options(operator, tflite.SoftmaxOptions).Beta())
    if not 0 < beta < 2**20:
        raise Unsupported(f"must have a beta above 0 and below 2**20, not {beta}")
    return Softmax(beta=beta)


def _arithmetic_reader(options_class: type) -> Reader:
    """Return a reader of the activation in an operator's options, such as tflite.AddOptions."""

    def read(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
        """Read the fused activation from the operator's options."""
        return Arithmetic(activation=_activation(options(operator, options_class)))

    return read


def _read_leaky_relu(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read the slope of a leaky ReLU."""
    alpha = float(options(operator, tflite.LeakyReluOptions).Alpha())
    if not abs(alpha) < 2**20:
        raise Unsupported(f"must have an alpha below 2**20, not {alpha}")
    return LeakyRelu(alpha=alpha)


def _read_axis(table: Any, rank: int) -> Attributes:
    """Return the axis of an operator from its options, as a number from 0 to `rank` - 1."""
    axis = table.Axis()
    if not -rank <= axis < rank:
        raise Contradiction(f"must have an axis of {-rank} to {rank - 1}, not {axis}")
    return Axis(axis=axis % rank)


def _read_concatenation(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Read the axis of a concatenation, which must have no activation."""
    table = options(operator, tflite.ConcatenationOptions)
    if _activation(table) is not Activation.NONE:
        raise Unsupported("has a fused activation")
    return _read_axis(table, len(inputs[0].shape))


def _read_pack(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read the axis of PACK, which its output has and its inputs lack."""
    return _read_axis(options(operator, tflite.PackOptions), len(inputs[0].shape) + 1)


def _read_unpack(operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Attributes:
    """Read the axis of UNPACK, which its input has and its outputs lack."""
    return _read_axis(options(operator, tflite.UnpackOptions), len(inputs[0].shape))


def _read_no_attributes(
    operator: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Attributes:
    """Return empty attributes, for operators without options."""
    return Attributes()


READERS: dict[Op, Reader] = {
    **PARAMETER_READERS,
    Op.ADD: _arithmetic_reader(tflite.AddOptions),
    Op.BATCH_MATMUL: _read_batch_matmul,
    Op.AVERAGE_POOL_2D: _read_pooling,
    Op.CONCATENATION: _read_concatenation,
    Op.CONV_2D: _read_convolution,
    Op.DEPTHWISE_CONV_2D: _read_depthwise,
    Op.DEQUANTIZE: _read_no_attributes,
    Op.EXPAND_DIMS: _read_no_attributes,
    Op.FULLY_CONNECTED: _read_dense,
    Op.HARD_SWISH: _read_no_attributes,
    Op.LEAKY_RELU: _read_leaky_relu,
    Op.LOGISTIC: _read_no_attributes,
    Op.LOG_SOFTMAX: _read_no_attributes,
    Op.MAXIMUM: _read_no_attributes,
    Op.MAX_POOL_2D: _read_pooling,
    Op.MINIMUM: _read_no_attributes,
    Op.MUL: _arithmetic_reader(tflite.MulOptions),
    Op.PACK: _read_pack,
    Op.PRELU: _read_no_attributes,
    Op.QUANTIZE: _read_no_attributes,
    Op.RELU: _read_no_attributes,
    Op.RELU6: _read_no_attributes,
    Op.RESHAPE: _read_no_attributes,
    Op.SOFTMAX: _read_softmax,
    Op.SQUARED_DIFFERENCE: _read_no_attributes,
    Op.SQUEEZE: _read_no_attributes,
    Op.SUB: _arithmetic_reader(tflite.SubOptions),
    Op.TANH: _read_no_attributes,
    Op.UNPACK: _read_unpack,
}
