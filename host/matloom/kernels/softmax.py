"""SOFTMAX and LOG_SOFTMAX along the last axis."""

import math
from collections.abc import Sequence

import numpy as np

from matloom.arch.numerics import clamp, rounding_divide_by_pot
from matloom.ir.attributes import Softmax
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import softmax_scale
from matloom.kernels.fixedpoint import (
    exp_of_negative,
    log_of_sum,
    multiply,
    reciprocal_of_sum,
)
from matloom.kernels.requantise import scale

#: Sums of exponentials have the format Q12.19, so that 4095 terms fit.
SUM_BITS = 12


def softmax(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """SOFTMAX of int8 in fixed point, of uint8 with a table of floats, or of float32.

    The last bit of float32 results may differ from TensorFlow Lite Micro's, as it depends on the C
    library.
    """
    if inputs[0].dtype == np.float32:
        return _float_softmax(inputs[0], node.attributes_as(Softmax).beta)
    if inputs[0].dtype == np.uint8:
        return _table_softmax(graph, node, inputs[0])
    powers = exponentials(graph, node)[_distance_below_largest(inputs[0])]
    reciprocal, exponent = reciprocal_of_sum(_sum_of_powers(powers), SUM_BITS)
    quotients = rounding_divide_by_pot(multiply(reciprocal, powers), exponent + 31 - 8)
    result: Array = clamp(quotients - 128, -128, 127).astype(np.int8)
    return result


def exponentials(graph: Graph, node: Node) -> Array:
    """Return the exponentials of an int8 SOFTMAX, by the distance below the row's largest byte.

    They are int64 (256,) in Q0.31.
    """
    scaled, fits = _scaled_differences(graph, node)
    return np.where(fits, exp_of_negative(scaled), 0)


def _scaled_differences(graph: Graph, node: Node) -> tuple[Array, Array]:
    """Return the differences 0 to -255 from a row's largest byte, scaled to real numbers in Q5.26.

    Also returns whether each difference fits Q5.26; those that do not are 0. Both arrays have shape
    (256,).
    """
    multiplier, shift = softmax_scale(graph, node)
    least = math.floor(31 * 2**26 / 2**shift)
    below = np.arange(256)
    fits = below <= least
    return scale(np.where(fits, -below, 0), multiplier, shift), fits


def _distance_below_largest(x: Array) -> Array:
    """Return how far each byte is below the largest of its row."""
    result: Array = x.max(axis=-1, keepdims=True).astype(np.int64) - x
    return result


def _sum_of_powers(powers: Array) -> Array:
    """Return the sum along the last axis, Q12.19, of exponentials, Q0.31."""
    terms: Array = rounding_divide_by_pot(powers, SUM_BITS).sum(axis=-1, keepdims=True)
    return terms


def _exp(x: Array) -> Array:
    """Return exp(x) in float32, rounded from float64, as the C library's nearly always is."""
    return np.exp(x.astype(np.float64)).astype(np.float32)


def _sum_in_order(x: Array) -> Array:
    """Return the sum along the last axis, adding elements one by one in float32."""
    return np.add.accumulate(x, axis=-1, dtype=np.float32)[..., -1:]


def _float_softmax(x: Array, beta: float) -> Array:
    """Return the softmax of float32 numbers along the last axis."""
    powers = _exp((x - x.max(axis=-1, keepdims=True)) * np.float32(beta))
    result: Array = powers / _sum_in_order(powers)
    return result


def _table_softmax(graph: Graph, node: Node, x: Array) -> Array:
    """Return the results of LiteRT's uint8 kernel: a table of exponentials, sums in float32."""
    step = np.float32(graph.tensors[node.inputs[0]].scale) * np.float32(
        node.attributes_as(Softmax).beta
    )
    table = _exp(-step * np.arange(256, dtype=np.float32))
    powers = table[x.max(axis=-1, keepdims=True).astype(np.int64) - x]
    inverse = np.float32(1) / (_sum_in_order(powers) * np.float32(graph.tensors[node.output].scale))
    result: Array = np.clip(np.floor(powers * inverse + np.float32(0.5)), 0, 255).astype(np.uint8)
    return result


def log_softmax(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """LOG_SOFTMAX of int8 in fixed point, or of float32, whose last bits are as in `softmax`."""
    if inputs[0].dtype == np.int8:
        below = _distance_below_largest(inputs[0])
        logarithm = log_of_sum(_sum_of_powers(exponentials(graph, node)[below]), SUM_BITS)
        scaled, counts = _scaled_differences(graph, node)
        sixteenths = rounding_divide_by_pot(scaled[below] - logarithm, 22)
        rounded = np.where(counts[below], clamp(sixteenths + 127, -128, 127), -128)
        return rounded.astype(np.int8)
    centred = inputs[0] - inputs[0].max(axis=-1, keepdims=True)
    result: Array = centred - np.log(_sum_in_order(_exp(centred)).astype(np.float64)).astype(
        np.float32
    )
    return result
