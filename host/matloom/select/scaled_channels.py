"""Stages of products by a constant per channel."""

from dataclasses import replace

import numpy as np

from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Array
from matloom.ir.scales import layer_rounding, product_multiplier
from matloom.ir.shapes import IMAGE_RANK
from matloom.select.build import Convolution, depthwise_stage
from matloom.select.context import Context
from matloom.select.copies import split_into_planes
from matloom.select.elementwise import product
from matloom.select.requantisation import Requantisation
from matloom.select.stage import ArrayStage, Stage
from matloom.select.window import pointwise_window


def scaled_channels(
    context: Context,
    *,
    tensors: tuple[str, str],
    zero: int,
    factors: Array,
    scale: Requantisation,
) -> ArrayStage:
    """Return the stage that multiplies channels by constants: a depthwise convolution of one tap.

    `factors` has one element, or one for each channel. A factor too large for one weight is split
    over several taps that read the same byte.
    """
    channels = context.output.shape[-1] if context.output.shape else 1
    taps = max(1, -(-int(np.abs(factors).max()) // 127))
    steps = np.arange(taps + 1).reshape(-1, 1, 1)
    edges = np.broadcast_to(factors.astype(np.int64).reshape(-1), (channels,)) * steps // taps
    shape = context.output.shape
    if len(shape) == IMAGE_RANK:
        images, size = shape[0], (shape[1], shape[2])
    else:
        images, rows = split_into_planes(context.output.size // channels)
        size = rows, 1
    window = pointwise_window(images, size, channels)
    if taps > 1:
        window = replace(window, kernel_height=taps, dilation_y=0)
    return depthwise_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=tensors,
            window=window,
            filters=np.diff(edges, axis=0).astype(np.int8),
            bias=np.zeros(channels, np.int32),
            input_zero=zero,
            scale=scale,
            config=context.config,
        )
    )


def channel_factors(context: Context, index: int) -> Array | None:
    """Return a constant input minus its zero point, as one value or one for each channel.

    Return None if the input is anything else.
    """
    tensor = context.inputs[index]
    # A constant of rank 0 has no last axis.
    if tensor.data is None or tensor.size not in (1, *tensor.shape[-1:]):
        return None
    factors: Array = tensor.data.astype(np.int64).reshape(-1) - tensor.zero_point
    return factors


def product_scale(context: Context) -> Requantisation:
    """Return the requantisation of the products of a MUL."""
    scale = context.result(
        *product_multiplier(context.graph, context.node),
        context.node.attributes_as(Arithmetic).activation,
    )
    return replace(scale, rounding=layer_rounding(context.node))


def multiplication(context: Context) -> Stage:
    """Return MUL as a stage, the form in which the engine runs an operator.

    The array multiplies by one constant or by constants per channel; POST computes any other
    product.
    """
    scale = product_scale(context)
    words = context.output.dtype == "int16"
    if words:
        context.check_words()
    for index, factor in () if words else ((0, 1), (1, 0)):
        data, factors = context.inputs[index], channel_factors(context, factor)
        if data.data is None and factors is not None and data.shape == context.output.shape:
            return scaled_channels(
                context,
                tensors=(context.sources[index], context.results[0]),
                zero=data.zero_point,
                factors=factors,
                scale=scale,
            )
    first, second = (tensor.zero_point for tensor in context.inputs[:2])
    return product(context, (context.sources[0], context.sources[1]), (first, second), scale)
