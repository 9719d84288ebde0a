"""Attributes of operators from their option tables: one entry of a table each."""

from collections.abc import Callable, Sequence
from typing import Any

import tflite

from matloom.frontend.errors import ModelError
from matloom.frontend.flatbuffer import enum_name, options
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
from matloom.ir.graph import Op, Tensor
from matloom.ir.shapes import same_padding

__all__ = ["READERS"]

Reader = Callable[[Any, Sequence[Tensor]], Attributes]
Pair = tuple[int, int]


def _activation(table: Any) -> Activation:
    name = enum_name(tflite.ActivationFunctionType, table.FusedActivationFunction())
    if name not in Activation.__members__:
        raise ModelError(f"must have an activation of {', '.join(Activation)}, not {name}")
    return Activation(name)


def _pair(what: str, height: int, width: int) -> Pair:
    if height < 1 or width < 1:
        raise ModelError(f"must have a {what} of at least 1, not {(height, width)}")
    return height, width


def _image(inputs: Sequence[Tensor], at: int) -> Pair:
    """Return height and width of an input in the layout (any, height, width, any)."""
    shape = inputs[at].shape if at < len(inputs) else ()
    if len(shape) != 4:
        raise ModelError(f"must have an input {at} of 4 dimensions, not {shape}")
    return shape[1], shape[2]


def _padding(table: Any, image: Pair, kernel: Pair, stride: Pair, dilation: Pair) -> Padding:
    kind = table.Padding()
    if kind == tflite.Padding.SAME:
        return same_padding(image, kernel, stride, dilation)
    if kind == tflite.Padding.VALID:
        return Padding(top=0, bottom=0, left=0, right=0)
    raise ModelError(f"must have a padding of SAME or VALID, not {kind}")


def _windowed(table: Any, inputs: Sequence[Tensor]) -> dict[str, Any]:
    """Return what both kinds of convolution share."""
    stride = _pair("stride", table.StrideH(), table.StrideW())
    dilation = _pair("dilation", table.DilationHFactor(), table.DilationWFactor())
    padding = _padding(table, _image(inputs, 0), _image(inputs, 1), stride, dilation)
    return {
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "activation": _activation(table),
    }


def _convolution(operator: Any, inputs: Sequence[Tensor]) -> Attributes:
    return Conv2D(**_windowed(options(operator, tflite.Conv2DOptions), inputs))


def _depthwise(operator: Any, inputs: Sequence[Tensor]) -> Attributes:
    shared = _windowed(options(operator, tflite.DepthwiseConv2DOptions), inputs)
    # The file's depth_multiplier may be wrong; kernels go by the shapes.
    channels, outputs = inputs[0].shape[3], inputs[1].shape[3]
    if channels < 1 or outputs % channels:
        raise ModelError(f"must have a multiple of {channels} output channels, not {outputs}")
    return DepthwiseConv2D(depth_multiplier=outputs // channels, **shared)


def _dense(operator: Any, inputs: Sequence[Tensor]) -> Attributes:
    table = options(operator, tflite.FullyConnectedOptions)
    if table.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise ModelError(f"must have weights of format DEFAULT, not {table.WeightsFormat()}")
    return FullyConnected(keep_num_dims=bool(table.KeepNumDims()), activation=_activation(table))


def _pooling(operator: Any, inputs: Sequence[Tensor]) -> Attributes:
    table = options(operator, tflite.Pool2DOptions)
    window = _pair("window", table.FilterHeight(), table.FilterWidth())
    stride = _pair("stride", table.StrideH(), table.StrideW())
    padding = _padding(table, _image(inputs, 0), window, stride, (1, 1))
    return Pool2D(window=window, stride=stride, padding=padding, activation=_activation(table))


def _softmax(operator: Any, inputs: Sequence[Tensor]) -> Attributes:
    beta = float(options(operator, tflite.SoftmaxOptions).Beta())
    if not 0 < beta < 2**20:
        raise ModelError(f"must have a beta above 0 and below 2**20, not {beta}")
    return Softmax(beta=beta)


def _sum(operator: Any, inputs: Sequence[Tensor]) -> Attributes:
    return Arithmetic(activation=_activation(options(operator, tflite.AddOptions)))


def _nothing(operator: Any, inputs: Sequence[Tensor]) -> Attributes:
    return Attributes()


READERS: dict[Op, Reader] = {
    Op.ADD: _sum,
    Op.AVERAGE_POOL_2D: _pooling,
    Op.CONV_2D: _convolution,
    Op.DEPTHWISE_CONV_2D: _depthwise,
    Op.DEQUANTIZE: _nothing,
    Op.FULLY_CONNECTED: _dense,
    Op.LOG_SOFTMAX: _nothing,
    Op.MAX_POOL_2D: _pooling,
    Op.QUANTIZE: _nothing,
    Op.RESHAPE: _nothing,
    Op.SOFTMAX: _softmax,
}
