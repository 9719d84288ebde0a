"""Requantises sums to the output's numbers: the last step of every kernel."""

import numpy as np

from matloom.arch.floats import FLOAT_FORMATS, narrow
from matloom.arch.numerics import (
    Rounding,
    clamp,
    multiply_by_quantized_multiplier,
    requantize,
    requantize_wide,
    wrap32,
)
from matloom.ir.attributes import Activation
from matloom.ir.graph import Array, Graph, Node, Op, Tensor
from matloom.ir.scales import (
    activation_range,
    channel_multipliers,
    layer_rounding,
    sums_are_wide,
)

#: Range of results of each activation, in real numbers.
_LIMITS = {
    Activation.RELU: (0.0, np.inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def scale(x: Array, multiplier: int | Array, shift: int | Array) -> Array:
    """Return int64 ``x * multiplier * 2**(shift - 31)``, rounded twice, as gemmlowp does.

    Multipliers and shifts may differ along the last axis.
    """
    result: Array = multiply_by_quantized_multiplier(x, multiplier, shift)
    return result


def _scale_in_place(sums: Array, multiplier: Array, shift: Array) -> Array:
    """Return 32-bit sums scaled as by `scale`; may overwrite `sums` with intermediate values."""
    if shift.max(initial=0) > 0:
        return scale(sums, multiplier, shift)
    right = -shift
    sums *= multiplier
    sums += 2**30
    sums >>= 31
    # Halves round away from zero: a negative number is decremented before the shift.
    borrow = sums >> 63
    if not right.all():
        borrow *= right > 0
    sums += borrow
    sums += (1 << right) >> 1
    sums >>= right
    return sums


def _wrap_to_32_bits(sums: Array) -> Array:
    """Return sums wrapped to 32 bits, as in kernels written in C."""
    if sums.size and sums.min() >= -(2**31) and sums.max() < 2**31:
        return sums
    result: Array = wrap32(sums)
    return result


def clamp_to_output(x: Array, activation: Activation, output: Tensor) -> Array:
    """Add the output's zero point to scaled sums, clamp to the activation's range, and cast."""
    low, high = activation_range(activation, output)
    x = np.asarray(x + output.zero_point)
    if low > high:
        crossed: Array = clamp(x, low, high)
        return crossed.astype(output.dtype)
    np.maximum(x, low, out=x)
    np.minimum(x, high, out=x)
    return x.astype(output.dtype)


def limit(x: Array, activation: Activation) -> Array:
    """Return float32 `x` limited to the range of the activation."""
    if activation is Activation.NONE:
        return x
    low, high = _LIMITS[activation]
    return np.clip(x, np.float32(low), np.float32(high))


def convert(x: Array, dtype: str) -> Array:
    """Return float32 `x` in a dtype: float32, float16, or bf16 patterns in uint16."""
    if dtype == "uint16":
        patterns = np.ascontiguousarray(x).view(np.uint32).astype(np.int64)
        return np.asarray(narrow(patterns, FLOAT_FORMATS["bf16"])).astype(np.uint16)
    with np.errstate(over="ignore"):
        return x.astype(dtype, copy=False)


def requantise_sums(
    graph: Graph, node: Node, sums: Array, bias: Array | None, activation: Activation
) -> Array:
    """Return the output of a layer with weights from its int64 sums (any, output channels).

    `sums` is used as working memory, so its values may be lost.
    """
    if bias is not None:
        sums += bias.reshape(-1).astype(np.int64)
    output = graph.tensors[node.output]
    if sums_are_wide(graph, node):
        scaled: Array = requantize_wide(sums, *channel_multipliers(graph, node))
        return clamp_to_output(scaled, activation, output).reshape(output.shape)
    sums = _wrap_to_32_bits(sums)
    if output.dtype == "int32":
        unscaled: Array = sums.astype(np.int32).reshape(output.shape)
        return unscaled
    multipliers, shifts = channel_multipliers(graph, node)
    uint8_dense = output.dtype == "uint8" and node.op is Op.FULLY_CONNECTED
    if uint8_dense or layer_rounding(node) is Rounding.SINGLE:
        # TensorFlow Lite Micro has no uint8 kernel for this, and LiteRT's rounds once.
        scaled = requantize(sums, multipliers, shifts, Rounding.SINGLE)
    else:
        scaled = _scale_in_place(sums, multipliers, shifts)
    return clamp_to_output(scaled, activation, output).reshape(output.shape)
