"""Operators that change type or shape: QUANTIZE, DEQUANTIZE, RESHAPE, SQUEEZE, EXPAND_DIMS."""

from collections.abc import Sequence

import numpy as np

from matloom.arch.numerics import clamp
from matloom.ir.graph import Array, Graph, Node
from matloom.ir.scales import rescale_multiplier, round_half_away
from matloom.kernels.requantise import convert, scale


def quantize(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """QUANTIZE: float32 to integers, or integers to another scale.

    The float32 quotient is rounded, halves away from zero; NaN becomes the zero point. Conversions
    to float16, and to bf16 patterns in uint16, round to nearest even.
    """
    data, output = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    if output.dtype in ("float16", "uint16"):
        return convert(inputs[0], output.dtype)
    limits = np.iinfo(output.dtype)
    if data.dtype == "float32":
        with np.errstate(over="ignore"):
            quotients = inputs[0] / np.float32(output.scale)
        rounded = round_half_away(np.nan_to_num(quotients)) + output.zero_point
        clipped: Array = np.clip(rounded, limits.min, limits.max).astype(output.dtype)
        return clipped
    centred = inputs[0].astype(np.int64) - data.zero_point
    values = scale(centred, *rescale_multiplier(data, output)) + output.zero_point
    result: Array = clamp(values, int(limits.min), int(limits.max)).astype(output.dtype)
    return result


def dequantize(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """DEQUANTIZE: integers or float16 to float32."""
    data = graph.tensors[node.inputs[0]]
    if data.dtype == "float16":
        return inputs[0].astype(np.float32)
    return (data.scale * (inputs[0].astype(np.float64) - data.zero_point)).astype(np.float32)


def reshape(graph: Graph, node: Node, inputs: Sequence[Array]) -> Array:
    """RESHAPE, SQUEEZE and EXPAND_DIMS: the same elements in the output's shape.

    If input and output are declared with the same shape, the input is returned unchanged, because
    its actual shape may be known only at run time.
    """
    shape = graph.tensors[node.output].shape
    return inputs[0] if shape == graph.tensors[node.inputs[0]].shape else inputs[0].reshape(shape)
