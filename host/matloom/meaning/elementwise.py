"""Definitions of element-wise operators on probes, numbers that stand for unknown bytes."""

import numpy as np

from matloom.arch.numerics import Rounding, multiply_by_quantized_multiplier, wrap32
from matloom.ir.attributes import Activation, Arithmetic, LeakyRelu
from matloom.ir.curves import CURVES, curve_scale
from matloom.ir.graph import Op
from matloom.ir.scales import (
    Addition,
    Multiplier,
    activation_range,
    addition_scales,
    layer_rounding,
    leaky_scales,
    prelu_scales,
    product_multiplier,
    square_scales,
    unary_multiplier,
)
from matloom.kernels.kernels import kernel_of
from matloom.kernels.softmax import exponentials
from matloom.kernels.two_slopes import TwoSlopes, two_slopes
from matloom.meaning.context import FORMATS, NodeInputs, Unproven
from matloom.meaning.float_layers import float_add, float_limit
from matloom.meaning.terms import (
    Integers,
    Scale,
    apply_curve,
    apply_softmax,
    look_up,
    peaks,
    requantise,
)

#: Operators of int8 that the engine always computes by a table, if it has tables.
_BY_TABLE = (Op.HARD_SWISH, Op.LOGISTIC, Op.LOOKUP, Op.QUANTIZE, Op.TANH)


def _broadcast(context: NodeInputs, values: Integers) -> Integers:
    """Return an input broadcast to the output's shape."""
    return np.broadcast_to(values, context.output.shape)


def _scaled_sums(values: Integers, pair: Multiplier, pre_shift: int) -> Integers:
    """Return `values` as sums, shifted left by `pre_shift` and scaled by (multiplier, shift)."""
    multiplier, shift = pair
    scale = Scale(multiplier=multiplier, shift=shift, pre_shift=pre_shift)
    return requantise(values, 0, scale, "sum")


def add(context: NodeInputs) -> list[Integers]:
    """Compute ADD and SUB: scale differences from zero points, add or subtract, scale again."""
    if context.is_floating:
        return float_add(context)
    scales = addition_scales(context.graph, context.node)
    left = scales.left_shift
    first = _scaled_sums(context.without_zero_point(0), scales.inputs[0], left)
    centred = context.without_zero_point(1)
    if context.node.op is Op.ADD:
        second = _scaled_sums(centred, scales.inputs[1], left)
    elif _is_odd(context, scales.inputs[1], left) or _may_negate_before_scaling(context, scales):
        context.note(-1 - context.values(1), "complement of the second input")
        second = _scaled_sums(-centred, scales.inputs[1], left)
    else:
        second = -_scaled_sums(centred, scales.inputs[1], left)
    total = wrap32(_broadcast(context, first) + _broadcast(context, second))
    activation = context.node.attributes_as(Arithmetic).activation
    return context.to_bytes(context.result(total, *scales.output, activation))


def squared_difference(context: NodeInputs) -> list[Integers]:
    """Compute SQUARED_DIFFERENCE: scale differences from zero points, subtract, square, scale."""
    scales = square_scales(context.graph, context.node)
    first, second = (
        _broadcast(
            context, _scaled_sums(context.without_zero_point(index), pair, scales.left_shift)
        )
        for index, pair in enumerate(scales.inputs)
    )
    difference = wrap32(first - second)
    with np.errstate(over="ignore"):
        squares = wrap32(difference * difference)
    return context.to_bytes(context.result(squares, *scales.output))


def _is_odd(context: NodeInputs, pair: Multiplier, left_shift: int) -> bool:
    """Return whether scaling is an odd function for every byte of the second input.

    It is if negated differences from the zero point give negated results.
    """
    differences = (np.arange(-128, 128) - context.inputs[1].zero_point) << left_shift
    above = multiply_by_quantized_multiplier(differences, *pair)
    return bool(np.all(multiply_by_quantized_multiplier(-differences, *pair) == -above))


def _may_negate_before_scaling(context: NodeInputs, scales: Addition) -> bool:
    """Return whether a SUB has the same results if its second input is negated before scaling.

    All pairs of bytes are tried; the result is False unless the output is int8.
    """
    if context.output.dtype != "int8":
        return False
    every = np.arange(-128, 128)
    sums = []
    for sign in (1, -1):
        terms = [
            multiply_by_quantized_multiplier(
                factor * (every - tensor.zero_point) << scales.left_shift, *pair
            )
            for factor, tensor, pair in zip((1, sign), context.inputs, scales.inputs, strict=True)
        ]
        sums.append(np.subtract.outer(*terms) if sign == 1 else np.add.outer(*terms))
    limits = activation_range(context.node.attributes_as(Arithmetic).activation, context.output)
    wanted, found = (
        np.clip(
            multiply_by_quantized_multiplier(total, *scales.output) + context.output.zero_point,
            *limits,
        )
        for total in sums
    )
    return np.array_equal(wanted, found)


def multiply(context: NodeInputs) -> list[Integers]:
    """Compute MUL: products of differences from the zero points."""
    first, second = (_broadcast(context, context.without_zero_point(index)) for index in (0, 1))
    with np.errstate(over="ignore"):
        products = wrap32(first * second)
    pair = product_multiplier(context.graph, context.node)
    activation = context.node.attributes_as(Arithmetic).activation
    rounding = layer_rounding(context.node)
    return context.to_bytes(context.result(products, *pair, activation, rounding=rounding))


def rescale(context: NodeInputs) -> list[Integers]:
    """Compute QUANTIZE between integers of the same size, and RELU."""
    if is_table(context):
        return table(context)
    if context.is_floating or context.output.dtype in FORMATS:
        return float_limit(context)
    activation = Activation.RELU if context.node.op is Op.RELU else Activation.NONE
    pair = unary_multiplier(context.graph, context.node)
    return context.to_bytes(context.result(context.without_zero_point(0), *pair, activation))


def limit(context: NodeInputs) -> list[Integers]:
    """Compute RELU6, and MAXIMUM and MINIMUM with a constant."""
    if context.is_floating:
        return float_limit(context)
    every = np.iinfo(context.output.dtype)
    low, high = int(every.min), int(every.max)
    if context.node.op is Op.RELU6:
        low, high = activation_range(Activation.RELU6, context.inputs[0])
    else:
        level = context.inputs[1].data
        if level is None or level.size != 1:
            raise Unproven("limits that are computed, or differ by element")
        value = int(level.reshape(-1)[0])
        low, high = (value, high) if context.node.op is Op.MAXIMUM else (low, value)
    scale = Scale(low=low, high=high)
    return context.to_bytes(requantise(context.values(0), 0, scale, context.output_kind))


def is_table(context: NodeInputs) -> bool:
    """Return whether the engine computes an operator by a lookup table of its results."""
    types = context.inputs[0].dtype, context.output.dtype
    if context.node.op is Op.QUANTIZE and "uint8" in types:
        return "int16" not in types
    if set(types) != {"int8"} or not context.config.tables:
        return False
    return context.node.op in _BY_TABLE or context.node.op is Op.LEAKY_RELU


def table_and_source(context: NodeInputs) -> tuple[Integers, Integers]:
    """Return the lookup table of an operator (256,), and the bytes that are looked up in it.

    Entry n is the result for unsigned byte n. If the first input is itself looked up in a table
    (`NodeInputs.lookup`), both tables are combined, and the bytes are those that the first one is
    applied to.
    """
    every = np.arange(256, dtype=np.uint8).view(context.inputs[0].dtype)
    results = kernel_of(context.node, [every])(context.graph, context.node, [every])
    assert isinstance(results, np.ndarray)
    entries = results.view(np.int8).astype(np.int64)
    if context.lookup is None:
        return entries, context.values(0)
    inner, values = context.lookup
    return entries[inner & 255], values


def sigmoid(context: NodeInputs) -> list[Integers]:
    """Compute LOGISTIC and TANH: a curve if the output is int16, otherwise a table."""
    if context.output.dtype != "int16":
        return table(context)
    multiplier, right = curve_scale(context.graph, context.node)
    scale = Scale(multiplier=multiplier << 16, shift=15 - right, rounding=Rounding.SINGLE)
    arguments = requantise(context.values(0), 0, scale, "sum")
    return context.to_bytes(apply_curve(arguments, CURVES[context.node.op]))


def table(context: NodeInputs) -> list[Integers]:
    """Return the output of an operator on bytes, by a lookup table of its results."""
    entries, values = table_and_source(context)
    return context.to_bytes(look_up(entries[np.newaxis], values))


def softmax(context: NodeInputs) -> list[Integers]:
    """Compute SOFTMAX along the last axis, by its table of exponentials."""
    entries = np.frombuffer(exponentials(context.graph, context.node).astype("<u4"), np.int8)
    return context.to_bytes(apply_softmax(entries.astype(np.int64), context.values(0)))


def _scaled_positive_part(context: NodeInputs, pair: Multiplier) -> Integers:
    """Return the first input scaled where it is positive, and the output's zero point elsewhere."""
    positive = context.result(context.without_zero_point(0), *pair, low=context.output.zero_point)
    return context.note(positive, "part above zero")


def _sum_of_parts(context: NodeInputs, above: Integers, below: Integers) -> list[Integers]:
    """Return the sum of two tensors, one of which is at the output's zero point at each element."""
    total = wrap32(above + below - 2 * context.output.zero_point)
    return context.to_bytes(context.result(total, 2**30, 1))


def leaky_relu(context: NodeInputs) -> list[Integers]:
    """Compute LEAKY_RELU: a table of bytes, the larger of two sums, or the sum of two parts."""
    if is_table(context):
        return table(context)
    slopes = two_slopes(context.graph, context.node, context.config)
    if slopes is not None:
        return context.to_bytes(_larger_sum(context, slopes))
    if context.node.attributes_as(LeakyRelu).alpha < 0:
        raise Unproven("a LEAKY_RELU with a slope below zero, without tables")
    above, below = leaky_scales(context.graph, context.node)
    positive = _scaled_positive_part(context, above)
    negative = context.result(context.without_zero_point(0), *below, high=context.output.zero_point)
    return _sum_of_parts(context, positive, context.note(negative, "part below zero"))


def _larger_sum(context: NodeInputs, slopes: TwoSlopes) -> Integers:
    """Return LEAKY_RELU as the larger of two sums."""
    steep, shallow = slopes.sums(context.values(0))
    multiplier, shift = slopes.scale
    low, high = activation_range(Activation.NONE, context.output)
    zero = context.output.zero_point
    scale = Scale(
        multiplier=multiplier,
        shift=shift,
        rounding=slopes.rounding,
        zero=zero,
        low=low,
        high=high,
    )
    return requantise(wrap32(wrap32(steep) + peaks(shallow)), slopes.bias, scale)


def prelu(context: NodeInputs) -> list[Integers]:
    """Compute PRELU: the positive part plus the negative part times the slopes."""
    above, below = prelu_scales(context.graph, context.node)
    given = context.inputs[0]
    positive = _broadcast(context, _scaled_positive_part(context, above))
    kept = requantise(context.values(0), 0, Scale(high=given.zero_point), "byte")
    context.note(kept, "part below zero")
    with np.errstate(over="ignore"):
        products = wrap32((kept - given.zero_point) * context.without_zero_point(1))
    negative = context.note(context.result(products, *below), "part below zero, scaled")
    return _sum_of_parts(context, positive, negative)
