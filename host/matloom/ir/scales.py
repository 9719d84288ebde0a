"""Integer multipliers and limits from scales, exactly as TensorFlow Lite Micro derives them."""

from dataclasses import dataclass

import numpy as np

from matloom.arch.numerics import quantize_multiplier
from matloom.ir.attributes import Activation, Softmax
from matloom.ir.graph import Array, Graph, Node, Op, Tensor

__all__ = [
    "Addition",
    "activation_range",
    "addition",
    "channel_multipliers",
    "rescale_multiplier",
    "round_half_away",
    "softmax_scale",
]

#: Bits that ADD shifts its inputs up before scaling them.
ADD_LEFT_SHIFT = 20


def round_half_away(x: Array | np.float32) -> Array:
    """Return `x` rounded to integers in float64, halves away from zero (C's ``round``).

    For float32 values, where adding a half in float64 is exact.
    """
    wide = np.asarray(x, np.float64)
    result: Array = np.copysign(np.floor(np.abs(wide) + 0.5), wide)
    return result


def channel_multipliers(graph: Graph, node: Node) -> tuple[Array, Array]:
    """Return a multiplier and a shift for each output channel, as int64.

    For CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED: input scale times weight scale over output
    scale, in float64. A dense layer of one weight scale has the product rounded to float32 first.
    """
    given, weights = (graph.tensors[number] for number in node.inputs[:2])
    output = graph.tensors[node.output]
    assert weights.quantisation is not None
    scales = weights.quantisation.scale
    if node.op is Op.FULLY_CONNECTED and len(scales) == 1:
        products = [float(np.float32(given.scale) * np.float32(scales[0]))]
    else:
        products = [given.scale * scale for scale in scales]
    pairs = [quantize_multiplier(product / output.scale) for product in products]
    channels = output.shape[-1]
    multipliers, shifts = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return np.broadcast_to(multipliers, channels), np.broadcast_to(shifts, channels)


def rescale_multiplier(source: Tensor, target: Tensor) -> tuple[int, int]:
    """Return multiplier and shift from one tensor's scale to another's."""
    pair: tuple[int, int] = quantize_multiplier(source.scale / target.scale)
    return pair


@dataclass(frozen=True, kw_only=True)
class Addition:
    """Multipliers and shifts of ADD.

    Each input without its zero point, shifted left by `left_shift`, is multiplied by its pair of
    `inputs`; their sum, multiplied by `output`, gets the output's zero point.
    """

    left_shift: int
    inputs: tuple[tuple[int, int], tuple[int, int]]
    output: tuple[int, int]


def addition(graph: Graph, node: Node) -> Addition:
    """Return the multipliers of an ADD of 8-bit integers."""
    first, second = (graph.tensors[number].scale for number in node.inputs)
    twice = 2 * max(first, second)
    output = twice / ((1 << ADD_LEFT_SHIFT) * graph.tensors[node.output].scale)
    return Addition(
        left_shift=ADD_LEFT_SHIFT,
        inputs=(quantize_multiplier(first / twice), quantize_multiplier(second / twice)),
        output=quantize_multiplier(output),
    )


def softmax_scale(graph: Graph, node: Node) -> tuple[int, int]:
    """Return multiplier and left shift that take differences of inputs to Q5.26."""
    beta = node.attributes_as(Softmax).beta
    pair: tuple[int, int] = quantize_multiplier(beta * graph.tensors[node.inputs[0]].scale * 2**26)
    return pair


def activation_range(activation: Activation, output: Tensor) -> tuple[int, int]:
    """Return the least and greatest integer that `activation` lets into `output`.

    Raises
    ------
    ValueError
        The limit of the activation has no integer of 32 bits at the output's scale.
    """
    limits = np.iinfo(output.dtype)
    low, high = int(limits.min), int(limits.max)

    def integer(value: float) -> int:
        with np.errstate(over="ignore"):
            quotient = np.float32(value) / np.float32(output.scale)
        if not abs(quotient) < 2**31:
            raise ValueError(
                f"the output's scale must keep {value} below 2**31, not {output.scale}"
            )
        return output.zero_point + int(round_half_away(quotient))

    if activation in (Activation.RELU, Activation.RELU6):
        low = max(low, integer(0.0))
    if activation is Activation.RELU6:
        high = min(high, integer(6.0))
    if activation is Activation.RELU_N1_TO_1:
        low, high = max(low, integer(-1.0)), min(high, integer(1.0))
    return low, high
