"""Activation functions: RELU, RELU6, LEAKY_RELU, HARD_SWISH, LOGISTIC, TANH, and LOOKUP."""

import math
from collections.abc import Sequence

import numpy as np

from matloom.arch.curves import SIGMOIDS, apply_curve
from matloom.arch.numerics import clamp, rounding_divide_by_pot
from matloom.ir.attributes import Activation, LeakyRelu, Lookup
from matloom.ir.curves import CURVES, curve_scale
from matloom.ir.graph import Array, Graph, Node, Op
from matloom.ir.scales import (
    activation_range,
    hard_swish_scales,
    leaky_scales,
    round_half_away,
    sigmoid_scale,
    unary_multiplier,
)
from matloom.kernels.fixedpoint import logistic as fixed_logistic
from matloom.kernels.fixedpoint import tanh as fixed_tanh
from matloom.kernels.requantise import clamp_to_output, convert, limit, scale

_SHORT = (-(2**15), 2**15 - 1)
_SIGMOIDS = np.array(SIGMOIDS)

#: Bits of the mask of remainders in gemmlowp's division of 16-bit integers.
_MASK_BITS = 16
#: Arguments below which the reference kernel returns exp(x) as the logistic function.
_EXP_BELOW = -9


def _subtract_zero_point(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """Return the first input less its zero point, as int64."""
    result: Array = inputs[0].astype(np.int64) - graph.tensors[node.inputs[0]].zero_point
    return result


def relu(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """RELU of 8-bit integers with a change of scale."""
    scaled = scale(_subtract_zero_point(graph, node, inputs), *unary_multiplier(graph, node))
    return clamp_to_output(scaled, Activation.RELU, graph.tensors[node.output])


def relu6(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """RELU6 of 8-bit integers, which keeps the input's scale."""
    low, high = activation_range(Activation.RELU6, graph.tensors[node.inputs[0]])
    result: Array = clamp(inputs[0].astype(np.int64), low, high).astype(inputs[0].dtype)
    return result


def leaky_relu(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """LEAKY_RELU of 8-bit integers."""
    centred = _subtract_zero_point(graph, node, inputs)
    above, below = leaky_scales(graph, node)
    scaled = np.where(centred >= 0, scale(centred, *above), scale(centred, *below))
    return clamp_to_output(scaled, Activation.NONE, graph.tensors[node.output])


def lookup(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """LOOKUP of int8: replaces each byte by its entry in a table that starts at -128."""
    table = np.array(node.attributes_as(Lookup).table, np.int8)
    result: Array = table[inputs[0].astype(np.int64) + 128]
    return result


def _high_product(x: Array, multiplier: int) -> Array:
    """Return gemmlowp's saturating rounding doubling high multiply of 16-bit integers."""
    return (x * multiplier + 2**14) >> 15


def _saturating_shift(x: Array, bits: int) -> Array:
    """Return numbers shifted left, limited to int16."""
    result: Array = clamp(x << bits, *_SHORT)
    return result


def _divide_by_power_of_two(x: Array, exponent: int) -> Array:
    """Return gemmlowp's RoundingDivideByPOT of 16-bit integers.

    Its mask has only 16 bits: for exponents of 16 or more every remainder counts as a half, so
    results are 1 for non-negative and -1 for negative values.
    """
    if exponent < _MASK_BITS:
        result: Array = rounding_divide_by_pot(x, exponent)
        return result
    return np.where(x < 0, -1, 1)


def hard_swish(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """HARD_SWISH of 8-bit integers, in 16-bit fixed point.

    Source: tensorflow/lite/kernels/internal/reference/hard_swish.h.
    """
    scales = hard_swish_scales(graph, node)
    fine = _subtract_zero_point(graph, node, inputs) << 7
    (output_multiplier, output_shift), (multiplier, shift) = scales.output, scales.gate
    gate = _saturating_shift(fine, shift - 1) if shift > 0 else fine
    gate = _high_product(gate, multiplier)
    if shift > 0:
        gate = _saturating_shift(gate, 1)
    elif shift < 0:
        gate = _divide_by_power_of_two(gate, -shift)
    gate = (gate + 2**15) >> 1
    product = gate * _high_product(fine, output_multiplier)
    # This product is truncated towards zero.
    product = np.sign(product) * (np.abs(product) >> 15)
    scaled = _divide_by_power_of_two(product, -output_shift)
    return clamp_to_output(scaled, Activation.NONE, graph.tensors[node.output])


def sigmoid(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """Return LOGISTIC or TANH of integers, whichever operator `node` is.

    The output of LOGISTIC of int8 has scale 1/256 and zero point -128, that of TANH 1/128 and 0;
    outputs of int16 have 2**-15 and 0. For uint8, which TensorFlow Lite Micro does not support, the
    results are those of LiteRT, which uses a table computed in floating point.
    """
    if inputs[0].dtype == np.uint8:
        return _sigmoid_by_table(graph, node, inputs[0])
    if inputs[0].dtype == np.int16:
        return _curve(graph, node, inputs[0])
    centred = _subtract_zero_point(graph, node, inputs)
    multiplier, shift = sigmoid_scale(graph, node)
    # Beyond this, scaled inputs do not fit Q4.27.
    radius = math.floor(15 * 2**27 / 2**shift)
    inside = np.abs(centred) < radius
    argument = scale(np.where(inside, centred, 0), multiplier, shift)
    if node.op is Op.LOGISTIC:
        values = rounding_divide_by_pot(fixed_logistic(argument), 23) - 128
    else:
        values = rounding_divide_by_pot(fixed_tanh(argument), 24)
    saturated = np.where(centred > 0, 127, -128)
    result: Array = clamp(np.where(inside, values, saturated), -128, 127).astype(np.int8)
    return result


def _curve(graph: Graph, node: Node, x: Array) -> Array:
    """Return sigmoid or tanh of int16 numbers by interpolation in a table."""
    multiplier, right = curve_scale(graph, node)
    scaled = (x.astype(np.int64) * multiplier + ((1 << right) >> 1)) >> right
    result: Array = apply_curve(scaled, CURVES[node.op], _SIGMOIDS).astype(np.int16)
    return result


def _sigmoid_by_table(graph: Graph, node: Node, x: Array) -> Array:
    """Return sigmoid of uint8 numbers by a table of 256 values that floats gave."""
    data, output = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    levels = np.arange(256) - data.zero_point
    floats = float_sigmoid(graph, node, [np.float32(data.scale) * levels.astype(np.float32)])
    rounded = round_half_away(floats * (np.float32(1) / np.float32(output.scale)))
    table = np.clip(rounded + output.zero_point, 0, 255).astype(np.uint8)
    result: Array = table[x]
    return result


def float_relu(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """RELU and RELU6 of float32; the result may be rounded to fp16 or bf16."""
    return convert(limit(inputs[0], Activation(node.op)), graph.tensors[node.output].dtype)


def float_leaky_relu(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """LEAKY_RELU of float32."""
    alpha = np.float32(node.attributes_as(LeakyRelu).alpha)
    return np.where(inputs[0] > 0, inputs[0], inputs[0] * alpha)


def float_hard_swish(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """HARD_SWISH of float32."""
    gate = np.clip(inputs[0] + np.float32(3), np.float32(0), np.float32(6))
    result: Array = inputs[0] * gate / np.float32(6)
    return result


def float_sigmoid(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """LOGISTIC and TANH of float32; the last bit may differ between C libraries."""
    wide = inputs[0].astype(np.float64)
    if node.op is Op.TANH:
        return np.tanh(wide).astype(np.float32)
    with np.errstate(over="ignore"):
        result = 1 / (1 + np.exp(-wide))
    below: Array = np.where(wide < _EXP_BELOW, np.exp(np.minimum(wide, 0)), result).astype(
        np.float32
    )
    return below
