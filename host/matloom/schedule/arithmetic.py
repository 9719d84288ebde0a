"""Multipliers, shifts and limits of an operator, as TensorFlow Lite Micro prepares them."""

import math

import numpy as np

from matloom.arch.numerics import quantize_multiplier
from matloom.ir.attributes import Activation
from matloom.ir.graph import Tensor
from matloom.schedule.build import Requantisation

__all__ = [
    "ADD_LEFT_SHIFT",
    "activation_limits",
    "add_scales",
    "convolution_scale",
    "dense_scale",
    "rescale",
]

#: Both inputs of an ADD are scaled from this many bits up.
ADD_LEFT_SHIFT = 20


def _round_away(value: float) -> int:
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def activation_limits(activation: Activation, output: Tensor) -> tuple[int, int]:
    """Return the smallest and the largest output (CalculateActivationRangeQuantized)."""

    def quantised(value: float) -> int:
        ratio = np.float32(value) / np.float32(output.scale)
        return output.zero_point + _round_away(float(ratio))

    low, high = -128, 127
    if activation in (Activation.RELU, Activation.RELU6):
        low = max(low, quantised(0.0))
    if activation is Activation.RELU6:
        high = min(high, quantised(6.0))
    if activation is Activation.RELU_N1_TO_1:
        low, high = max(low, quantised(-1.0)), min(high, quantised(1.0))
    return low, high


def _requantisation(ratios: list[float], output: Tensor, activation: Activation) -> Requantisation:
    pairs = [quantize_multiplier(ratio) for ratio in ratios]
    low, high = activation_limits(activation, output)
    return Requantisation(
        multiplier=np.array([multiplier for multiplier, _ in pairs], np.int64),
        shift=np.array([shift for _, shift in pairs], np.int64),
        zero=output.zero_point,
        low=low,
        high=high,
    )


def _weight_scales(weights: Tensor) -> tuple[float, ...]:
    assert weights.quantisation is not None
    return weights.quantisation.scale


def convolution_scale(
    data: Tensor, weights: Tensor, output: Tensor, activation: Activation
) -> Requantisation:
    """Return the scales by channel (PopulateConvolutionQuantizationParams: all in double)."""
    ratios = [data.scale * scale / output.scale for scale in _weight_scales(weights)]
    return _requantisation(ratios, output, activation)


def dense_scale(
    data: Tensor, weights: Tensor, output: Tensor, activation: Activation
) -> Requantisation:
    """Return the scale of a dense layer.

    Source: GetQuantizedConvolutionMultipler, whose product of scales is a float32, unless each
    channel has a scale of its own.
    """
    scales = _weight_scales(weights)
    if len(scales) > 1:
        return convolution_scale(data, weights, output, activation)
    product = float(np.float32(data.scale) * np.float32(scales[0]))
    return _requantisation([product / output.scale], output, activation)


def add_scales(
    first: Tensor, second: Tensor, output: Tensor, activation: Activation
) -> tuple[tuple[tuple[int, int], tuple[int, int]], Requantisation]:
    """Return multiplier and shift of both inputs, and what follows the sum (AddPrepare)."""
    twice = 2.0 * max(first.scale, second.scale)
    inputs = (quantize_multiplier(first.scale / twice), quantize_multiplier(second.scale / twice))
    ratio = twice / ((1 << ADD_LEFT_SHIFT) * output.scale)
    return inputs, _requantisation([ratio], output, activation)


def rescale(data: Tensor, output: Tensor) -> Requantisation:
    """Return the change from one int8 scale to another (QUANTIZE of int8)."""
    return _requantisation([data.scale / output.scale], output, Activation.NONE)
