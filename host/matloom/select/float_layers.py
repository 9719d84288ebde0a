"""Stages of convolutions and dense layers in floating-point modes."""

from dataclasses import replace

import numpy as np

from matloom.arch.config import Config
from matloom.arch.floats import FLOAT_FORMATS, narrow
from matloom.ir.attributes import Activation, MatrixProduct
from matloom.ir.graph import Array
from matloom.select.context import Context, NotOnEngine
from matloom.select.float_posts import LIMITS, NOTHING, addend_post, float_post, result_post
from matloom.select.layout.base import Grid
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import constant_weights
from matloom.select.post_input import PostInput
from matloom.select.stage import ArrayStage
from matloom.select.weights import parameter_blocks
from matloom.select.window import Window, covering_regions, pointwise_window

#: Index of the optional input of MATRIX_PRODUCT that is added to its sums.
_RESIDUAL = 3


def _weight_tiles(patterns: Array, taps: int, config: Config) -> Array:
    """Return the weight tiles (output blocks, bytes) of a layer in a floating-point mode.

    `patterns` has the bit patterns of its weights, (channels, kernel rows, elements). A kernel row
    is cut into `taps` steps of `float_rows` elements, and padded with +0.
    """
    channels, rows = patterns.shape[:2]
    elements = config.float_rows
    blocks = -(-channels // config.columns)
    full = np.zeros((blocks * config.columns, rows, taps * elements), np.int64)
    full[:channels, :, : patterns.shape[2]] = patterns
    split = full.reshape(blocks, config.columns, rows, taps, elements).transpose(0, 2, 3, 4, 1)
    tiles = np.zeros((blocks, rows, taps, config.rows, config.columns), np.uint8)
    tiles[:, :, :, 0 : 2 * elements : 2] = split & 255
    tiles[:, :, :, 1 : 2 * elements : 2] = split >> 8
    return tiles.reshape(blocks, -1)


def _loop_nest(window: Window, taps: int, mode: str, config: Config) -> LoopNest:
    """Return the loops over kernel rows and the `taps` reduction steps of each."""
    number = FLOAT_FORMATS[mode].bytes
    pixel = window.depth * number
    return LoopNest(
        kernel_rows=window.kernel_height,
        kernel_row_step=window.dilation_y,
        kernel_cols=taps,
        kernel_col_step=config.float_rows * number,
        x_step=window.stride_x * pixel,
        y_step=window.stride_y,
        pad_top=window.pad_top,
        pad_left_bytes=window.pad_left * pixel,
    )


def _require_mode(mode: str, config: Config) -> None:
    """Raise `NotOnEngine` if the engine does not support a mode, a number format of the array."""
    if mode not in config.mac_modes:
        raise NotOnEngine(f"the engine is built with {', '.join(config.mac_modes)}, not {mode}")


def _require_supported(window: Window, activation: Activation, mode: str, config: Config) -> None:
    """Raise `NotOnEngine` if the engine does not support a window, an activation or a mode."""
    _require_mode(mode, config)
    if activation not in LIMITS:
        raise NotOnEngine(f"the engine has no {activation} of floating-point numbers")
    if window.dilation_x != 1 and window.kernel_width > 1:
        raise NotOnEngine("floating-point kernels must not be dilated sideways")


def float_stage(
    context: Context, window: Window, filters: Array, activation: Activation, mode: str
) -> ArrayStage:
    """Return the stage of a layer with float32 filters (channels, rows, columns, depth).

    Operands are rounded to the mode's format; the output is float32 or in that format.

    Raises
    ------
    NotOnEngine
        The engine does not support the mode, or a kernel row is not one run of bytes.
    """
    _require_supported(window, activation, mode, context.config)
    raw = np.ascontiguousarray(filters, np.float32).view(np.uint32).astype(np.int64)
    patterns = np.asarray(narrow(raw, FLOAT_FORMATS[mode])).reshape(*filters.shape[:2], -1)
    post = {"channel_bias": 1, **float_post(context.output.dtype, activation)}
    return _pattern_stage(context, window, patterns, mode, post)


def matrix_product(context: Context) -> ArrayStage:
    """Return the stage of MATRIX_PRODUCT: a dense layer whose weights are bit patterns.

    Raises
    ------
    NotOnEngine
        The engine does not support a format.
    """
    attributes = context.node.attributes_as(MatrixProduct)
    (rows, inner), result = context.inputs[0].shape, context.output.number_format
    assert result is not None
    _require_mode(attributes.mode, context.config)
    if result in FLOAT_FORMATS:
        _require_mode(result, context.config)
    window = pointwise_window(1, (rows, 1), inner)
    patterns = context.filters.astype(np.int64)[:, None]
    biases = context.constant(2).view(np.int32)
    bias = {"bias": NOTHING} if (biases == NOTHING).all() else {"channel_bias": 1}
    post = {**bias, **result_post(result, (attributes.low, attributes.high))}
    stage = _pattern_stage(context, window, patterns, attributes.mode, post)
    if len(context.inputs) <= _RESIDUAL:
        return stage
    inputs = (context.sources[0], context.sources[_RESIDUAL])
    return replace(stage, inputs=inputs, post_input=PostInput(post=addend_post(result)))


def _pattern_stage(
    context: Context, window: Window, patterns: Array, mode: str, post: dict[str, int]
) -> ArrayStage:
    """Return the stage of a layer whose filters are bit patterns in the format of `mode`.

    `patterns` has the axes (channels, kernel rows, elements).
    """
    config = context.config
    channels, number = len(patterns), FLOAT_FORMATS[mode].bytes
    pixel = window.depth * number
    taps = -(-window.kernel_width * window.depth // config.float_rows)
    size = context.output.element_bytes
    grid = Grid(
        images=window.images,
        rows=window.out_height,
        width=window.out_width,
        position_bytes=channels * size,
        block_bytes=config.columns * size,
    )
    params = np.zeros((grid.blocks, 0), np.uint8)
    if "channel_bias" in post:
        bias = context.bias(channels).astype(np.float32).view(np.int32)
        params = parameter_blocks(bias, None, config)
    return ArrayStage(
        name=context.name,
        nodes=context.nodes,
        inputs=context.input_and_output[:1],
        output=context.input_and_output[1],
        input_layout=DenseInput(rows=window.in_height, row_bytes=window.in_width * pixel),
        output_layout=Dense(grid=grid),
        loop_nest=_loop_nest(window, taps, mode, config),
        regions=covering_regions(window, window.out_width, post),
        weights=constant_weights(_weight_tiles(patterns, taps, config), mode, config),
        params=params,
        macs=window.images * window.out_height * window.out_width * patterns.size,
        mode=mode,
        element_bytes=size,
    )
