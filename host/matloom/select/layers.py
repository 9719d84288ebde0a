"""Stages of operators that slide a window or have weights."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from matloom.arch.modes import FLOAT_MODES, NARROW_MODES
from matloom.arch.numerics import LARGEST_LIMBS, LIMBS
from matloom.ir.attributes import (
    Activation,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Pool2D,
)
from matloom.ir.graph import Array
from matloom.ir.products import has_computed_weights
from matloom.ir.scales import (
    activation_range,
    sums_are_wide,
)
from matloom.select.build import Convolution, convolution_stage, depthwise_stage, dilated_stages
from matloom.select.context import Context, NotOnEngine
from matloom.select.float_layers import float_stage
from matloom.select.matmul import dense_product
from matloom.select.multiplied import depth_multiplier_stages
from matloom.select.pooled import is_pooled
from matloom.select.requantisation import UNSCALED
from matloom.select.row_folds import fastest_row_folding
from matloom.select.stage import ArrayStage, Stage
from matloom.select.weights import depthwise_as_dense
from matloom.select.window import Window, pointwise_window

#: Largest magnitude of int16.
_MAX_INT16 = 2**15
#: Values of int4.
INT4 = range(-8, 8)


def _layer_window(context: Context, attributes: Conv2D | Pool2D, kernel: tuple[int, int]) -> Window:
    """Return the shape of a layer's sliding window: input, output, kernel, strides and padding."""
    images, in_height, in_width, depth = context.inputs[0].shape
    dilation = attributes.dilation if isinstance(attributes, Conv2D) else (1, 1)
    return Window(
        images=images,
        in_height=in_height,
        in_width=in_width,
        depth=depth,
        out_height=context.output.shape[1],
        out_width=context.output.shape[2],
        kernel_height=kernel[0],
        kernel_width=kernel[1],
        stride_y=attributes.stride[0],
        stride_x=attributes.stride[1],
        dilation_y=dilation[0],
        dilation_x=dilation[1],
        pad_top=attributes.padding.top,
        pad_left=attributes.padding.left,
    )


def convolution(context: Context) -> Stage:
    """Return CONV_2D as a stage, the form in which the engine runs an operator."""
    attributes = context.node.attributes_as(Conv2D)
    weights = context.inputs[1]
    window = _layer_window(context, attributes, (weights.shape[1], weights.shape[2]))
    if attributes.mode in FLOAT_MODES:
        filters = context.filters
        return float_stage(context, window, filters, attributes.activation, attributes.mode)
    if context.inputs[0].dtype == "int16":
        return _int16_convolution(context, window, context.filters, attributes.activation)
    return _dense_convolution(
        context, window, context.filters, attributes.activation, attributes.mode
    )


def _int16_convolution(
    context: Context, window: Window, filters: Array, activation: Activation
) -> Stage:
    """Return the stage of an int16 convolution; both bytes of an element have the same weight."""
    _check_int16(context, filters, activation)
    limbs = _limb_count(context, filters, _MAX_INT16)
    return convolution_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=context.input_and_output,
            window=replace(window, depth=2 * window.depth),
            filters=np.repeat(filters, 2, axis=3),
            bias=context.bias(filters.shape[0]),
            input_zero=0,
            scale=UNSCALED if limbs > 1 else context.result_by_channel(activation),
            config=context.config,
            limbs=limbs,
            macs=window.images * window.out_height * window.out_width * filters.size,
            mode="i16xi8",
        )
    )


def _check_int16(context: Context, filters: Array, activation: Activation) -> None:
    """Raise `NotOnEngine` without an int16 mode, or if sums of filters (channels, ...) overflow.

    Sums that the reference kernels keep in 32 bits may wrap, as they do in the kernels.
    """
    context.require_words()
    wide = sums_are_wide(context.graph, context.node)
    if not wide and context.output.dtype == "int16":
        return
    shifts = np.maximum(context.result_by_channel(activation).shift, 0) if wide else 0
    largest = int((_largest_sums(context, filters, _MAX_INT16) << shifts).max())
    if largest >= 2**31:
        raise NotOnEngine(f"sums must fit 32 bits whatever the input, and may be {largest}")


def _largest_sums(context: Context, filters: Array, max_abs: int) -> Array:
    """Return the largest possible magnitude of each channel's sum, (channels,).

    Inputs differ from their zero point by at most `max_abs`.
    """
    weights = np.abs(filters.astype(np.int64)).reshape(len(filters), -1).sum(axis=1)
    bias = np.abs(context.bias(len(filters)).astype(np.int64))
    largest: Array = weights * max_abs + bias
    return largest


def _limb_count(context: Context, filters: Array, max_abs: int) -> int:
    """Return how many byte limbs of each sum are stored: one for bytes, or all of an int32 sum.

    Raises
    ------
    NotOnEngine
        A sum may be too large for the limbs.
    """
    if context.output.dtype != "int32":
        return 1
    largest = int(_largest_sums(context, filters, max_abs).max())
    if largest >= LARGEST_LIMBS:
        raise NotOnEngine(f"sums must be below {LARGEST_LIMBS} to be read, and may be {largest}")
    return len(LIMBS)


def layer_mode(context: Context, filters: Array, requested: str | None) -> str:
    """Return a layer's mode (number format): `requested`, or by default i8xi4 or i8xi8.

    Raises
    ------
    NotOnEngine
        The engine, the weights or the zero point do not permit `requested`.
    """
    narrow = filters.min() in INT4 and filters.max() in INT4
    built = context.config.mac_modes
    if requested is None:
        return "i8xi4" if narrow and "i8xi4" in built else "i8xi8"
    if requested not in built or requested == "i16xi8":
        raise NotOnEngine(f"the engine is built with {', '.join(built)}, not {requested}")
    if requested in NARROW_MODES and not narrow:
        raise NotOnEngine(f"weights of {requested} must be -8 to 7")
    zero = context.inputs[0].zero_point
    if requested == "i4xi4" and zero not in INT4:
        raise NotOnEngine(f"a zero point of {requested} must be -8 to 7, not {zero}")
    return requested


def _dense_convolution(
    context: Context,
    window: Window,
    filters: Array,
    activation: Activation,
    requested: str | None = "i8xi8",
) -> Stage:
    """Return the stage of a convolution with filters (channels, rows, columns, depth)."""
    mode = layer_mode(context, filters, requested)
    if context.output.dtype == "int16":
        context.require_words()
    data = context.inputs[0]
    max_abs = max(127 - data.zero_point, data.zero_point + 128)
    limbs = _limb_count(context, filters, max_abs)

    def make(window: Window, filters: Array, tensor: str) -> ArrayStage:
        """Return the stage of the convolution with this window and filters that reads `tensor`."""
        return convolution_stage(
            Convolution(
                name=context.name,
                nodes=context.nodes,
                tensors=(tensor, context.input_and_output[1]),
                window=window,
                filters=filters,
                bias=context.bias(filters.shape[0]),
                input_zero=zero,
                scale=UNSCALED if limbs > 1 else context.result_by_channel(activation),
                config=context.config,
                mode=mode,
                limbs=limbs,
                pooled=_is_pooled(context),
            )
        )

    tensor, zero = context.input_and_output[0], context.inputs[0].zero_point
    if not context.external or filters.dtype != np.int8:
        return make(window, filters, tensor)
    return fastest_row_folding(
        make, window=window, filters=filters, tensor=tensor, zero=zero, machine=context.machine
    )


def depthwise(context: Context) -> Stage | tuple[Stage, ...]:
    """Return DEPTHWISE_CONV_2D as stages, the form in which the engine runs operators."""
    attributes = context.node.attributes_as(DepthwiseConv2D)
    data, weights = context.inputs[:2]
    window = _layer_window(context, attributes, (weights.shape[1], weights.shape[2]))
    filters, mode = context.filters[0], "i8xi8"
    if window.is_column:
        # The bytes are the same either way, and windows slide along rows.
        window, filters = window.transposed, filters.swapaxes(0, 1)
    if data.dtype == "int16":
        mode = "i16xi8"
        _check_int16(context, filters.transpose(2, 0, 1), attributes.activation)
    elif data.shape[3] == 1:
        dense_filters = depthwise_as_dense(filters, 1)
        return _dense_convolution(context, window, dense_filters, attributes.activation)
    layer = Convolution(
        name=context.name,
        nodes=context.nodes,
        tensors=context.input_and_output,
        window=window,
        filters=filters,
        bias=context.bias(weights.shape[3]),
        input_zero=data.zero_point,
        scale=context.result_by_channel(attributes.activation),
        config=context.config,
        mode=mode,
        pooled=_is_pooled(context),
    )
    return (
        dilated_stages(layer)
        or depth_multiplier_stages(layer, context.buffer_name("repeated"))
        or depthwise_stage(layer)
    )


def dense(context: Context) -> Stage | tuple[Stage, ...]:
    """Return FULLY_CONNECTED as stages, the form in which the engine runs operators."""
    attributes = context.node.attributes_as(FullyConnected)
    data, weights = context.inputs[:2]
    if has_computed_weights(context.node, context.inputs):
        return dense_product(context, attributes.activation)
    channels, depth = weights.shape
    batch = data.size // depth
    # Samples are positions of a row if there are too few channels for all columns, else rows.
    wide = 2 * channels <= context.config.columns
    height, width = (1, batch) if wide else (batch, 1)
    filters = context.filters.reshape(channels, 1, 1, depth)
    if attributes.mode in FLOAT_MODES:
        window = pointwise_window(1, (batch, 1), depth)
        return float_stage(context, window, filters, attributes.activation, attributes.mode)
    window = pointwise_window(1, (height, width), depth)
    if data.dtype == "int16":
        return _int16_convolution(context, window, filters, attributes.activation)
    return convolution_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=context.input_and_output,
            window=window,
            filters=filters,
            bias=context.bias(channels),
            input_zero=data.zero_point,
            scale=context.result_by_channel(attributes.activation),
            config=context.config,
            mode=layer_mode(context, filters, attributes.mode),
        )
    )


def pooling(
    make: Callable[[Context, Window, int, int], ArrayStage],
) -> Callable[[Context], Stage]:
    """Return a function that builds a pooling operator's stage by `make`, from its `Context`.

    `make` builds the stage from the context, the window, and the limits of the results.
    """

    def pool(context: Context) -> Stage:
        """Return the stage of the pooling operator of a context."""
        context.check_words()
        attributes = context.node.attributes_as(Pool2D)
        low, high = activation_range(attributes.activation, context.output)
        window = _layer_window(context, attributes, attributes.window)
        return make(context, window, low, high)

    return pool


def _is_pooled(context: Context) -> bool:
    """Return whether POST can write the maxima of the MAX_POOL_2D that reads a layer's results."""
    return bool(context.config.pooling) and is_pooled(context.graph, context.node.outputs[0])
