"""Stages of the operators that slide a window or have weights."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from matloom.arch.isa import Opcode, largest
from matloom.arch.modes import FLOAT_MODES, NARROW_MODES
from matloom.arch.numerics import DIGITS, LARGEST_DIGITS
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Pool2D,
    Reduce,
    TransposeConv,
)
from matloom.ir.graph import Array
from matloom.ir.scales import (
    activation_range,
    product_multiplier,
    reduction_multiplier,
    sums_are_wide,
)
from matloom.select.build import Convolution, convolution_stage, depthwise_stage
from matloom.select.context import Context, Unsupported
from matloom.select.copies import planes
from matloom.select.elementwise import product
from matloom.select.float_layers import float_stage
from matloom.select.fold_rows import fastest
from matloom.select.pooling import sum_stage
from matloom.select.requantisation import Requantisation
from matloom.select.stage import ArrayStage, OutputPlacement, Stage
from matloom.select.weights import depthwise_as_dense
from matloom.select.window import Window

__all__ = [
    "channel_factors",
    "convolution",
    "dense",
    "depthwise",
    "multiplication",
    "pooling",
    "reduction",
    "scaled_channels",
    "transposed_convolution",
]

#: The maximum magnitude of int16.
_MAX_INT16 = 2**15

#: The scale of a stage that stores byte limbs, whose POSTs have scales of their own.
_UNSCALED = Requantisation(multiplier=2**30, shift=1, zero=0, low=-128, high=127)

#: The maximum of stages of a transposed convolution.
_MAX_PHASES = 64

#: The maximum of taps of a window in each direction.
_MAX_TAPS = min(largest(Opcode.EXEC, "kernel_rows"), largest(Opcode.EXEC, "kernel_cols"))


def _window(context: Context, attributes: Conv2D | Pool2D, kernel: tuple[int, int]) -> Window:
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


def _dense_window(images: int, size: tuple[int, int], depth: int) -> Window:
    """Return the window of one tap on an image of a height and width."""
    return Window(
        images=images,
        in_height=size[0],
        in_width=size[1],
        depth=depth,
        out_height=size[0],
        out_width=size[1],
        kernel_height=1,
        kernel_width=1,
    )


def convolution(context: Context) -> Stage:
    """Return CONV_2D."""
    attributes = context.node.attributes_as(Conv2D)
    weights = context.inputs[1]
    window = _window(context, attributes, (weights.shape[1], weights.shape[2]))
    if attributes.mode in FLOAT_MODES:
        filters = context.constant(1)
        return float_stage(context, window, filters, attributes.activation, attributes.mode)
    if context.inputs[0].dtype == "int16":
        return _int16_convolution(context, window, context.constant(1), attributes.activation)
    return _dense_convolution(
        context, window, context.constant(1), attributes.activation, attributes.mode
    )


def _int16_convolution(
    context: Context, window: Window, filters: Array, activation: Activation
) -> Stage:
    """Return a convolution of int16: both bytes of an element meet the same weight."""
    _check_int16(context, filters, activation)
    digits = _digits(context, filters, _MAX_INT16)
    return convolution_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=context.ends,
            window=replace(window, depth=2 * window.depth),
            filters=np.repeat(filters, 2, axis=3),
            bias=context.bias(filters.shape[0]),
            input_zero=0,
            scale=_UNSCALED if digits > 1 else context.by_channel(activation),
            config=context.config,
            digits=digits,
            macs=window.images * window.out_height * window.out_width * filters.size,
            mode="i16xi8",
        )
    )


def _check_int16(context: Context, filters: Array, activation: Activation) -> None:
    """Raise `Unsupported` where there is no mode for int16, or filters (channels, ...) overflow.

    Sums that the reference kernels keep in 32 bits may wrap, as they do there.
    """
    built = context.config.mac_modes
    if "i16xi8" not in built:
        raise Unsupported(f"the engine is built with {', '.join(built)}, not i16xi8")
    wide = sums_are_wide(context.graph, context.node)
    if not wide and context.output.dtype == "int16":
        return
    shifts = np.maximum(context.by_channel(activation).shift, 0) if wide else 0
    largest = int((_largest_sums(context, filters, _MAX_INT16) << shifts).max())
    if largest >= 2**31:
        raise Unsupported(f"sums must fit 32 bits whatever the input, and may be {largest}")


def _largest_sums(context: Context, filters: Array, max_abs: int) -> Array:
    """Return the maximum magnitude of each channel's sum, of inputs within `max_abs` of zero."""
    weights = np.abs(filters.astype(np.int64)).reshape(len(filters), -1).sum(axis=1)
    bias = np.abs(context.bias(len(filters)).astype(np.int64))
    largest: Array = weights * max_abs + bias
    return largest


def _digits(context: Context, filters: Array, max_abs: int) -> int:
    """Return the byte limbs in which results leave: one, or those of a whole sum."""
    if context.output.dtype != "int32":
        return 1
    largest = int(_largest_sums(context, filters, max_abs).max())
    if largest >= LARGEST_DIGITS:
        raise Unsupported(f"sums must be below {LARGEST_DIGITS} to be read, and may be {largest}")
    return len(DIGITS)


def _mode(context: Context, filters: Array, asked: str | None) -> str:
    """Return the mode of a layer: `asked`, or packed int4 where all weights fit four bits."""
    narrow = filters.min() >= -8 and filters.max() <= 7
    built = context.config.mac_modes
    if asked is None:
        return "i8xi4" if narrow and "i8xi4" in built else "i8xi8"
    if asked not in built or asked == "i16xi8":
        raise Unsupported(f"the engine is built with {', '.join(built)}, not {asked}")
    if asked in NARROW_MODES and not narrow:
        raise Unsupported(f"weights of {asked} must be -8 to 7")
    zero = context.inputs[0].zero_point
    if asked == "i4xi4" and not -8 <= zero <= 7:
        raise Unsupported(f"a zero point of {asked} must be -8 to 7, not {zero}")
    return asked


def _dense_convolution(
    context: Context,
    window: Window,
    filters: Array,
    activation: Activation,
    asked: str | None = "i8xi8",
) -> Stage:
    """Return a convolution with filters (channels, rows, columns, depth) over the whole depth."""
    mode = _mode(context, filters, asked)
    data = context.inputs[0]
    max_abs = max(127 - data.zero_point, data.zero_point + 128)
    digits = _digits(context, filters, max_abs)

    def make(window: Window, filters: Array, tensor: str) -> ArrayStage:
        return convolution_stage(
            Convolution(
                name=context.name,
                nodes=context.nodes,
                tensors=(tensor, context.ends[1]),
                window=window,
                filters=filters,
                bias=context.bias(filters.shape[0]),
                input_zero=zero,
                scale=_UNSCALED if digits > 1 else context.by_channel(activation),
                config=context.config,
                mode=mode,
                digits=digits,
            )
        )

    tensor, zero = context.ends[0], context.inputs[0].zero_point
    if not context.external:
        return make(window, filters, tensor)
    return fastest(
        make, window=window, filters=filters, tensor=tensor, zero=zero, machine=context.machine
    )


def depthwise(context: Context) -> Stage:
    """Return DEPTHWISE_CONV_2D."""
    attributes = context.node.attributes_as(DepthwiseConv2D)
    data, weights = context.inputs[:2]
    window = _window(context, attributes, (weights.shape[1], weights.shape[2]))
    filters, mode = context.constant(1)[0], "i8xi8"
    if data.dtype == "int16":
        mode = "i16xi8"
        _check_int16(context, filters.transpose(2, 0, 1), attributes.activation)
    elif data.shape[3] == 1:
        dense_filters = depthwise_as_dense(filters, 1)
        return _dense_convolution(context, window, dense_filters, attributes.activation)
    return depthwise_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=context.ends,
            window=window,
            filters=filters,
            bias=context.bias(weights.shape[3]),
            input_zero=data.zero_point,
            scale=context.by_channel(attributes.activation),
            config=context.config,
            mode=mode,
        )
    )


def dense(context: Context) -> Stage:
    """Return FULLY_CONNECTED."""
    attributes = context.node.attributes_as(FullyConnected)
    data, weights = context.inputs[:2]
    channels, depth = weights.shape
    batch = data.size // depth
    # Samples are positions of a row where few channels leave columns idle, else rows.
    wide = 2 * channels <= context.config.columns
    height, width = (1, batch) if wide else (batch, 1)
    filters = context.constant(1).reshape(channels, 1, 1, depth)
    if attributes.mode in FLOAT_MODES:
        window = _dense_window(1, (batch, 1), depth)
        return float_stage(context, window, filters, attributes.activation, attributes.mode)
    window = _dense_window(1, (height, width), depth)
    if data.dtype == "int16":
        return _int16_convolution(context, window, filters, attributes.activation)
    return convolution_stage(
        Convolution(
            name=context.name,
            nodes=context.nodes,
            tensors=context.ends,
            window=window,
            filters=filters,
            bias=context.bias(channels),
            input_zero=data.zero_point,
            scale=context.by_channel(attributes.activation),
            config=context.config,
            mode=_mode(context, filters, attributes.mode),
        )
    )


def pooling(
    make: Callable[[Context, Window, int, int], ArrayStage],
) -> Callable[[Context], Stage]:
    """Return the function that builds the stage of a pooling."""

    def pool(context: Context) -> Stage:
        context.check_words()
        attributes = context.node.attributes_as(Pool2D)
        low, high = activation_range(attributes.activation, context.output)
        window = _window(context, attributes, attributes.window)
        return make(context, window, low, high)

    return pool


def _phases(
    length: int, kernel: int, stride: int, pad: int
) -> list[tuple[int, int, list[int], int]]:
    """Return the phases of a transposed convolution along an axis (polyphase decomposition).

    A phase has the outputs whose positions leave one remainder by the stride: the first output
    and their number, the taps that meet inputs, in the inputs' order, and the padding before the
    image.
    """
    phases = []
    for phase in range(min(stride, length)):
        remainder = (phase + pad) % stride
        taps = list(range(remainder, kernel, stride))[::-1]
        count = -(-(length - phase) // stride)
        phases.append((phase, count, taps, max(len(taps), 1) - 1 - (phase + pad) // stride))
    return phases


def transposed_convolution(context: Context) -> tuple[Stage, ...]:
    """Return TRANSPOSE_CONV: for each phase of the strides a convolution with its taps."""
    attributes = context.node.attributes_as(TransposeConv)
    filters, scale = context.constant(1), context.by_channel(attributes.activation)
    mode = _mode(context, filters, None)
    images, in_height, in_width, depth = context.inputs[0].shape
    (height, width), outputs = attributes.size, filters.shape[0]
    rows = _phases(height, filters.shape[1], attributes.stride[0], attributes.padding.top)
    columns = _phases(width, filters.shape[2], attributes.stride[1], attributes.padding.left)
    if len(rows) * len(columns) > _MAX_PHASES:
        raise Unsupported(f"its strides must make {_MAX_PHASES} phases at most")
    stages = []
    for (y, out_height, down, top), (x, out_width, across, left) in itertools.product(
        rows, columns
    ):
        taps = filters[:, down][:, :, across]
        if not taps.size:
            # No tap meets these outputs: they are their biases.
            taps = np.zeros((outputs, 1, 1, depth), np.int8)
        stages.append(
            convolution_stage(
                Convolution(
                    name=context.name,
                    nodes=context.nodes,
                    tensors=context.ends,
                    window=Window(
                        images=images,
                        in_height=in_height,
                        in_width=in_width,
                        depth=depth,
                        out_height=out_height,
                        out_width=out_width,
                        kernel_height=taps.shape[1],
                        kernel_width=taps.shape[2],
                        pad_top=top,
                        pad_left=left,
                    ),
                    filters=taps,
                    bias=context.bias(outputs),
                    input_zero=context.inputs[0].zero_point,
                    scale=scale,
                    config=context.config,
                    mode=mode,
                    placement=OutputPlacement(
                        offset=(y * width + x) * outputs,
                        x_step=attributes.stride[1] * outputs,
                        row_step=attributes.stride[0] * width * outputs,
                        image_step=height * width * outputs,
                        finished=0,
                    ),
                )
            )
        )
    last = stages[-1]
    assert last.placement is not None
    return (
        *stages[:-1],
        replace(last, placement=replace(last.placement, finished=context.output.size)),
    )


def _taps(count: int) -> tuple[int, int]:
    """Return rows and columns of a window of `count` elements."""
    for columns in range(-(-count // _MAX_TAPS), min(count, _MAX_TAPS) + 1):
        if count % columns == 0:
            return count // columns, columns
    raise Unsupported(f"the engine sums {_MAX_TAPS} times {_MAX_TAPS} elements, not {count}")


def reduction(context: Context) -> Stage:
    """Return SUM and MEAN over neighbouring axes; along the last one, weights are ones."""
    context.check_words()
    shape = context.inputs[0].shape
    axes = [axis for axis in context.node.attributes_as(Reduce).axes if shape[axis] > 1]
    first, end = (axes[0], axes[-1] + 1) if axes else (0, 0)
    if any(shape[axis] > 1 and axis not in axes for axis in range(first, end)):
        raise Unsupported("the engine sums over neighbouring axes")
    outer, count, inner = (
        math.prod(part) for part in (shape[:first], shape[first:end], shape[end:])
    )
    scale = context.result(*reduction_multiplier(context.graph, context.node), Activation.NONE)
    zero = context.inputs[0].zero_point
    if count * _MAX_INT16 >= 2**31 and context.mode == "i16xi8":
        raise Unsupported(f"sums of words must fit 32 bits, and {count} might not")
    if inner == 1:
        images, rows = planes(outer)
        run = count * context.output.element_bytes
        return convolution_stage(
            Convolution(
                name=context.name,
                nodes=context.nodes,
                tensors=context.ends,
                window=_dense_window(images, (rows, 1), run),
                filters=np.ones((1, 1, 1, run), np.int8),
                bias=np.zeros(1, np.int32),
                input_zero=zero,
                scale=scale,
                config=context.config,
                macs=outer * count,
                mode=context.mode,
            )
        )
    height, width = _taps(count)
    window = Window(
        images=outer,
        in_height=height,
        in_width=width,
        depth=inner,
        out_height=1,
        out_width=1,
        kernel_height=height,
        kernel_width=width,
    )
    return sum_stage(context, window, -zero * count, scale)


def scaled_channels(
    context: Context,
    *,
    tensors: tuple[str, str],
    zero: int,
    factors: Array,
    scale: Requantisation,
) -> ArrayStage:
    """Return products by a factor for each channel: a depthwise convolution of one tap.

    Factors beyond a weight are sums of some, whose taps meet the same byte.
    """
    channels = context.output.shape[-1] if context.output.shape else 1
    taps = max(1, -(-int(np.abs(factors).max()) // 127))
    steps = np.arange(taps + 1).reshape(-1, 1, 1)
    edges = np.broadcast_to(factors.astype(np.int64).reshape(-1), (channels,)) * steps // taps
    images, rows = planes(context.output.size // channels)
    window = _dense_window(images, (rows, 1), channels)
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
    """Return a constant input without its zero point, where it is one for all or each channel."""
    tensor = context.inputs[index]
    # A constant of rank 0 has no last axis.
    if tensor.data is None or tensor.size not in (1, *tensor.shape[-1:]):
        return None
    factors: Array = tensor.data.astype(np.int64).reshape(-1) - tensor.zero_point
    return factors


def multiplication(context: Context) -> Stage:
    """Return MUL: by a constant for each channel through the array, else byte by byte in POST."""
    scale = context.result(
        *product_multiplier(context.graph, context.node),
        context.node.attributes_as(Arithmetic).activation,
    )
    for index, factor in ((0, 1), (1, 0)):
        data, factors = context.inputs[index], channel_factors(context, factor)
        if data.data is None and factors is not None and data.shape == context.output.shape:
            return scaled_channels(
                context,
                tensors=(context.sources[index], context.results[0]),
                zero=data.zero_point,
                factors=factors,
                scale=scale,
            )
    first, second = (tensor.zero_point for tensor in context.inputs)
    return product(context, (context.sources[0], context.sources[1]), (first, second), scale)
