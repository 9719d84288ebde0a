"""Stages of the operators that compute byte by byte: sums, limits, changes of scale."""

import numpy as np

from matloom.arch.numerics import multiply_by_quantized_multiplier
from matloom.ir.attributes import Activation, Arithmetic, LeakyRelu
from matloom.ir.graph import Op
from matloom.ir.scales import (
    Multiplier,
    activation_range,
    addition,
    leaky_scales,
    rescale_multiplier,
)
from matloom.schedule.build import Requantisation, add_stage, requantise_stage
from matloom.schedule.context import SAME, Context, Unfit
from matloom.schedule.copies import copy_stage, lines
from matloom.schedule.stage import Stage, VectorStage

__all__ = ["add", "leaky_relu", "limit", "quantize", "relu", "relu6", "subtract"]


def _requantised(
    context: Context, zero: int, scale: Requantisation, target: str = ""
) -> VectorStage:
    return requantise_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=(context.sources[0], target or context.results[0]),
        size=context.output.size,
        granule=context.granule,
        input_zero=zero,
        scale=scale,
    )


def _sum(context: Context, sources: tuple[str, str], zeros: tuple[int, int]) -> VectorStage:
    """Return the sum of two tensors by the scales of ADD and SUB."""
    attributes = context.node.attributes_as(Arithmetic)
    scales = addition(context.graph, context.node)
    return add_stage(
        name=context.name,
        nodes=context.nodes,
        inputs=sources,
        output=context.results[0],
        size=context.output.size,
        granule=context.granule,
        zeros=zeros,
        scales=scales.inputs,
        left_shift=scales.left_shift,
        result=context.result(*scales.output, attributes.activation),
    )


def _check_shapes(context: Context) -> None:
    """Raise `Unfit` where a computed input is broadcast; the program holds constants broadcast."""
    for tensor in context.inputs:
        if tensor.data is None and tensor.shape != context.output.shape:
            raise Unfit(f"it broadcasts {tensor.shape} to {context.output.shape}")


def add(context: Context) -> Stage:
    """Return ADD."""
    _check_shapes(context)
    first, second = (tensor.zero_point for tensor in context.inputs)
    return _sum(context, (context.sources[0], context.sources[1]), (first, second))


def _odd(scale: Multiplier, left_shift: int, zero: int) -> bool:
    """Return whether bytes and their negatives are scaled to negatives of each other."""
    values = (np.arange(-128, 128) - zero) << left_shift
    above, below = (multiply_by_quantized_multiplier(x, *scale) for x in (values, -values))
    return bool(np.all(above == -below))


def subtract(context: Context) -> tuple[Stage, ...]:
    """Return SUB: the sum of the first and of the second's complement, -1 less each byte.

    The complement of the zero point is the complement's zero point, so that differences from it
    are negated. Rounding is halves up before it is halves away from zero, which is the same for
    negated numbers unless a half occurs.
    """
    _check_shapes(context)
    scales = addition(context.graph, context.node)
    first, second = (tensor.zero_point for tensor in context.inputs)
    if not _odd(scales.inputs[1], scales.left_shift, second):
        raise Unfit("its second input at this scale rounds halves")
    negated = f"{context.results[0]} negated"
    size, granule = context.output.size, context.granule
    complement = copy_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=(context.sources[1], negated),
        copy=lines(size // granule, granule, context.config),
        config=context.config,
        complement=True,
    )
    return complement, _sum(context, (context.sources[0], negated), (first, -1 - second))


def quantize(context: Context) -> Stage:
    """Return QUANTIZE from int8 to int8."""
    data = context.inputs[0]
    scale = context.result(*rescale_multiplier(data, context.output), Activation.NONE)
    return _requantised(context, data.zero_point, scale)


def relu(context: Context) -> Stage:
    """Return RELU, to another scale."""
    data = context.inputs[0]
    scale = context.result(*rescale_multiplier(data, context.output), Activation.RELU)
    return _requantised(context, data.zero_point, scale)


def _limited(context: Context, low: int, high: int) -> Stage:
    scale = Requantisation(multiplier=SAME[0], shift=SAME[1], zero=0, low=low, high=high)
    return _requantised(context, 0, scale)


def relu6(context: Context) -> Stage:
    """Return RELU6, whose scale stays the input's."""
    return _limited(context, *activation_range(Activation.RELU6, context.inputs[0]))


def limit(context: Context) -> Stage:
    """Return MAXIMUM and MINIMUM with one constant."""
    data = context.inputs[0]
    value = context.constant(1)
    if value.size != 1:
        raise Unfit("the engine compares with one constant")
    if data.data is not None or data.shape != context.output.shape:
        raise Unfit(f"it broadcasts {data.shape} to {context.output.shape}")
    level = int(value.reshape(-1)[0])
    limits = (level, 127) if context.node.op is Op.MAXIMUM else (-128, level)
    return _limited(context, *limits)


def leaky_relu(context: Context) -> tuple[Stage, ...]:
    """Return LEAKY_RELU: what lies above zero and what lies below, each by its scale, added.

    Parts count from the ends of a byte, where the other half is; a part of more than a byte
    saturates, and so does the result.
    """
    if context.node.attributes_as(LeakyRelu).alpha < 0:
        raise Unfit("its slope must be 0 or more")
    above, below = leaky_scales(context.graph, context.node)
    zero = context.inputs[0].zero_point
    names, parts = [], []
    for what, (multiplier, shift), start in (("above", above, -128), ("below", below, 127)):
        names.append(f"{context.results[0]} {what}")
        scale = Requantisation(multiplier=multiplier, shift=shift, zero=start, low=-128, high=127)
        parts.append(_requantised(context, zero, scale, names[-1]))
    result = add_stage(
        name=context.name,
        nodes=context.nodes,
        inputs=(names[0], names[1]),
        output=context.results[0],
        size=context.output.size,
        granule=context.granule,
        zeros=(-128, 127),
        scales=(SAME, SAME),
        left_shift=0,
        result=context.result(*SAME, Activation.NONE),
    )
    return *parts, result
