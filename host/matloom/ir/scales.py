"""Derives operators' integer parameters from scales, exactly as TensorFlow Lite Micro does."""

import functools
import math
from dataclasses import dataclass

import numpy as np

from matloom.arch.numerics import Rounding, quantize_multiplier, short_multiplier
from matloom.ir.attributes import Activation, LeakyRelu, Reduce, Resize
from matloom.ir.graph import Array, Graph, Node, Op, Tensor
from matloom.ir.shapes import MULTIPLIERS

#: Multiplier and shift of a scaling (`numerics.requantize`).
Multiplier = tuple[int, int]

#: Index of the optional input with multipliers and shifts, int32 (2, channels), by operator.
MULTIPLIER_INPUT = {
    **dict.fromkeys((Op.BATCH_MATMUL, Op.MUL), 2),
    **dict.fromkeys(
        (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED, Op.TRANSPOSE_CONV), MULTIPLIERS
    ),
}
#: Number of bits by which ADD and SUB shift inputs left before scaling them, by type.
ADD_LEFT_SHIFT = {"int8": 20, "int16": 15, "uint8": 20}
#: Number of bits by which SQUARED_DIFFERENCE shifts inputs left before scaling them.
SQUARE_BITS = 7
#: Largest left shift of 64-bit sums.
_MOST_WIDE_SHIFT = 7
#: Largest ratio of a SOFTMAX. With larger ones, every element but the largest is zero, as with
#: TensorFlow Lite's limit of 2**31.
_MOST_SOFTMAX_RATIO = 2.0**30 - 1


def round_half_away(x: Array | np.float32) -> Array:
    """Return `x` rounded to integers in float64, halves away from zero (C's ``round``).

    Values must be float32 numbers, to which a half can be added exactly in float64.
    """
    wide = np.asarray(x, np.float64)
    result: Array = np.copysign(np.floor(np.abs(wide) + 0.5), wide)
    return result


def nearest_positions(attributes: Resize, source: int, target: int) -> Array:
    """Return the nearest of `source` input positions for each of `target` output positions."""
    corners = attributes.align_corners
    ratio = (source - 1, target - 1) if corners and target > 1 else (source, target)
    step = np.float32(ratio[0]) / np.float32(ratio[1])
    offset = np.float32(0.5 if attributes.half_pixel_centers else 0)
    places = (np.arange(target, dtype=np.float32) + offset) * step
    rounded = round_half_away(places) if corners else np.floor(places)
    return np.clip(rounded.astype(np.int64), 0, source - 1)


def sums_are_wide(graph: Graph, node: Node) -> bool:
    """Return whether a layer has 64-bit sums: if its output is int16, unless its bias is int32."""
    if graph.tensors[node.output].dtype != "int16":
        return False
    return "int32" not in [graph.tensors[number].dtype for number in node.inputs[2:]]


def has_explicit_multipliers(node: Node) -> bool:
    """Return whether a layer or a product has an input with multipliers and shifts."""
    return len(node.inputs) > MULTIPLIER_INPUT.get(node.op, len(node.inputs))


def layer_rounding(node: Node) -> Rounding:
    """Return the rule by which an int8 layer or product rounds its scaled sums."""
    return Rounding.SINGLE if has_explicit_multipliers(node) else Rounding.DOUBLE


def channel_multipliers(graph: Graph, node: Node) -> tuple[Array, Array]:
    """Return a multiplier and a shift for each output channel of a layer with weights, as int64.

    They represent input scale times weight scale over output scale, in float64. LiteRT's uint8
    kernels, which TensorFlow Lite Micro does not have, multiply the first two in float32, except
    for dense layers.

    A layer may instead have them as constant input 3 (2, channels); its sums are then rounded once
    (`layer_rounding`). Layers from ONNX do, because ONNX Runtime rounds float32 products.
    """
    if has_explicit_multipliers(node):
        stated = graph.tensors[node.inputs[3]].data
        if stated is None:
            raise ValueError("the multipliers must be constant")
        multiplier, shift = stated.astype(np.int64)
        return multiplier, shift
    data, weights = (graph.tensors[number] for number in node.inputs[:2])
    output = graph.tensors[node.output]
    assert weights.quantisation is not None
    multipliers, shifts = _layer_multipliers(
        data.scale,
        weights.quantisation.scale,
        output.scale,
        short=weights.dtype == "uint8" and node.op is not Op.FULLY_CONNECTED,
        wide=sums_are_wide(graph, node),
    )
    channels = output.shape[-1]
    return np.broadcast_to(multipliers, channels), np.broadcast_to(shifts, channels)


@functools.lru_cache(maxsize=1024)
def _layer_multipliers(
    source: float, weights: tuple[float, ...], output: float, *, short: bool, wide: bool
) -> tuple[Array, Array]:
    """Return a layer's multipliers and shifts; `short` uses float32, `wide` is for 64-bit sums."""
    products = [source * scale for scale in weights]
    if short:
        products = np.array(products, np.float32).tolist()
    pairs = [quantize_multiplier(product / output) for product in products]
    if wide and max(shift for _multiplier, shift in pairs) > _MOST_WIDE_SHIFT:
        raise ValueError(
            f"a scale ratio of 64-bit sums must be below 128, not {max(products) / output}"
        )
    multipliers, shifts = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    multipliers.flags.writeable = shifts.flags.writeable = False
    return multipliers, shifts


def rescale_multiplier(source: Tensor, target: Tensor) -> Multiplier:
    """Return the multiplier and shift from one tensor's scale to another's."""
    pair: Multiplier = quantize_multiplier(source.scale / target.scale)
    return pair


def unary_multiplier(graph: Graph, node: Node) -> Multiplier:
    """Return the multiplier and shift from the first input's scale to the output's."""
    return rescale_multiplier(graph.tensors[node.inputs[0]], graph.tensors[node.output])


def product_multiplier(graph: Graph, node: Node) -> Multiplier:
    """Return the multiplier and shift of a product of two tensors, such as MUL or BATCH_MATMUL.

    TensorFlow Lite Micro multiplies the scales of the inputs in float64, and divides by that of the
    output. Products from ONNX state both as a constant input, as layers do (`channel_multipliers`).
    """
    if has_explicit_multipliers(node):
        stated = graph.tensors[node.inputs[MULTIPLIER_INPUT[node.op]]].data
        if stated is None:
            raise ValueError("the multiplier must be constant")
        multiplier, shift = stated.reshape(-1).tolist()
        return multiplier, shift
    first, second = (graph.tensors[number].scale for number in node.inputs)
    pair: Multiplier = quantize_multiplier(first * second / graph.tensors[node.output].scale)
    return pair


def prelu_scales(graph: Graph, node: Node) -> tuple[Multiplier, Multiplier]:
    """Return multipliers and shifts of PRELU, for values >= 0 and for negative values."""
    return unary_multiplier(graph, node), product_multiplier(graph, node)


def leaky_scales(graph: Graph, node: Node) -> tuple[Multiplier, Multiplier]:
    """Return multipliers and shifts of LEAKY_RELU, for values >= 0 and for negative values."""
    scale, output = graph.tensors[node.inputs[0]].scale, graph.tensors[node.output].scale
    alpha = node.attributes_as(LeakyRelu).alpha
    below = quantize_multiplier(scale * alpha / output)
    if alpha < 0 and below[0] % 2**22 == 0:
        # Products of 8-bit integers may be halves, which the reference kernel rounds differently.
        raise ValueError(f"a slope below 0 must never give a half, unlike {alpha}")
    return unary_multiplier(graph, node), below


def reduction_multiplier(graph: Graph, node: Node) -> Multiplier:
    """Return the multiplier and shift of SUM or MEAN; for MEAN, they also divide by the count.

    The multiplier is shifted left by fewer bits than the number of elements has, then divided.
    """
    data = graph.tensors[node.inputs[0]]
    multiplier, shift = unary_multiplier(graph, node)
    if node.op is Op.SUM:
        return multiplier, shift
    count = math.prod(data.shape[axis] for axis in node.attributes_as(Reduce).axes)
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << extra) // count, shift - extra


@dataclass(frozen=True, kw_only=True)
class HardSwish:
    """16-bit multipliers and shifts of HARD_SWISH.

    `output` converts inputs, shifted left by 7 bits, to the output's scale; `gate` converts them to
    a scale at which 2**15 represents 3.
    """

    output: Multiplier
    gate: Multiplier


def hard_swish_scales(graph: Graph, node: Node) -> HardSwish:
    """Return the multipliers of HARD_SWISH, from float32 ratios.

    Raises
    ------
    ValueError
        The output's scale is less than the input's scale divided by 128.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fine = np.float32(1 / 128) * np.float32(graph.tensors[node.inputs[0]].scale)
        units = np.float32(graph.tensors[node.output].scale), np.float32(3 / 32768)
        ratios = [float(fine / unit) for unit in units]
    pairs = []
    for ratio in ratios:
        multiplier, shift = quantize_multiplier(ratio)
        pairs.append((short_multiplier(multiplier), shift))
    if pairs[0][1] > 0:
        raise ValueError(f"the output's scale must be {fine} or more")
    return HardSwish(output=pairs[0], gate=pairs[1])


def sigmoid_scale(graph: Graph, node: Node) -> Multiplier:
    """Return the multiplier and shift that convert inputs of LOGISTIC and TANH to Q4.27."""
    data = graph.tensors[node.inputs[0]]
    multiplier, shift = quantize_multiplier(data.scale * 2**27)
    if (shift < 0 or multiplier == 0) and data.dtype == "int8":
        # The reference kernel shifts by a negative number of bits, which C leaves undefined.
        raise ValueError(f"the input's scale must be 2**-28 or more, not {data.scale}")
    return multiplier, shift


@dataclass(frozen=True, kw_only=True)
class Addition:
    """Multipliers and shifts of ADD, SUB and SQUARED_DIFFERENCE.

    Each input minus its zero point is shifted left by `left_shift` and multiplied by its pair in
    `inputs`. The sum, the difference or the squared difference is multiplied by `output`, and the
    output's zero point is added.
    """

    left_shift: int
    inputs: tuple[tuple[int, int], tuple[int, int]]
    output: tuple[int, int]


def addition_scales(graph: Graph, node: Node) -> Addition:
    """Return the multipliers of ADD or SUB; raise ValueError if the output's scale is too small."""
    left_shift = ADD_LEFT_SHIFT[graph.tensors[node.output].dtype]
    inputs, twice = _doubled_multipliers(graph, node)
    output = twice / ((1 << left_shift) * graph.tensors[node.output].scale)
    if output >= 1:
        # TensorFlow Lite Micro aborts, and LiteRT's sums exceed 32 bits.
        raise ValueError(f"the sum's scale over the output's must be below 1, not {output}")
    return Addition(left_shift=left_shift, inputs=inputs, output=quantize_multiplier(output))


def _doubled_multipliers(graph: Graph, node: Node) -> tuple[tuple[Multiplier, Multiplier], float]:
    """Return a multiplier for each of two inputs to twice the larger scale, and that scale."""
    first, second = (graph.tensors[number].scale for number in node.inputs)
    twice = 2 * max(first, second)
    return (quantize_multiplier(first / twice), quantize_multiplier(second / twice)), twice


def square_scales(graph: Graph, node: Node) -> Addition:
    """Return the multipliers of SQUARED_DIFFERENCE; raise ValueError if its scale is too small."""
    inputs, twice = _doubled_multipliers(graph, node)
    output = twice**2 / ((1 << 2 * SQUARE_BITS) * graph.tensors[node.output].scale)
    if output >= 1:
        # The reference kernels shift squares beyond 32 bits.
        raise ValueError(f"the square's scale over the output's must be below 1, not {output}")
    return Addition(left_shift=SQUARE_BITS, inputs=inputs, output=quantize_multiplier(output))


def softmax_scale(graph: Graph, node: Node) -> tuple[int, int]:
    """Return the multiplier and left shift that convert differences of inputs to Q5.26."""
    ratio = getattr(node.attributes, "beta", 1.0) * graph.tensors[node.inputs[0]].scale * 2**26
    pair: tuple[int, int] = quantize_multiplier(min(ratio, _MOST_SOFTMAX_RATIO))
    return pair


def activation_range(activation: Activation, output: Tensor) -> tuple[int, int]:
    """Return the smallest and largest integer that `activation` allows in `output`.

    Raises
    ------
    ValueError
        The limit of the activation is not a 32-bit integer at the output's scale.
    """
    limits = np.iinfo(output.dtype)
    low, high = int(limits.min), int(limits.max)

    def integer(value: float) -> int:
        """Return the output's integer for a real value; raise `ValueError` if it is too large."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
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
