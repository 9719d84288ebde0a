"""Stages of dense and depthwise convolutions, from window, filters, bias and scales."""

from dataclasses import replace

import numpy as np

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.arch.modes import NARROW_MODES
from matloom.select.requantisation import Requantisation
from matloom.select.sliding import LONGEST_LINE, LONGEST_SKIP, SlidingWindow, sliding_tiles
from matloom.select.stage import ArrayStage, LoopNest, OutputPlacement
from matloom.select.weights import (
    block_diagonal,
    depthwise_as_dense,
    fold_zero_point,
    parameter_blocks,
    run_matrices,
    weight_tiles,
)
from matloom.select.window import Window, tap_loop_nest, whole

__all__ = ["convolution_stage", "depthwise_stage"]


def _pack(window: Window, channels: int, columns: int, config: Config) -> int:
    """Return how many neighbouring output positions should share the array's columns.

    Each position lengthens the run of bytes by its distance from the first, so this pays where
    neighbours share bytes, or where the run leaves rows of the array idle.
    """
    run, shift = window.kernel_width * window.depth, window.stride_x * window.depth
    positions = window.out_width * window.out_height

    def cycles(pack: int) -> int:
        blocks = -(-(run + (pack - 1) * shift) // config.rows)
        return blocks * max(positions // pack, config.tile_load_cycles, 4)

    maximum = max(1, columns // channels)
    fitting = [pack for pack in range(1, maximum + 1) if window.out_width % pack == 0]
    return min(fitting, key=cycles)


def _columns(values: np.ndarray | int, channels: int, pack: int) -> np.ndarray:
    return np.tile(np.broadcast_to(np.asarray(values), (channels,)), pack)


def convolution_stage(
    *,
    name: str,
    nodes: tuple[int, ...],
    tensors: tuple[str, str],
    window: Window,
    filters: np.ndarray,
    bias: np.ndarray,
    input_zero: int,
    scale: Requantisation,
    config: Config,
    macs: int | None = None,
    placement: OutputPlacement | None = None,
    mode: str = "i8xi8",
    digits: int = 1,
) -> ArrayStage:
    """Return a dense convolution; `filters` are int8 (channels, rows, columns, depth).

    Depth is in bytes of the input; an int16 element has two.
    """
    channels, halves = filters.shape[0], 2 if mode in NARROW_MODES else 1
    block = halves * config.columns
    single_run = window.dilation_x == 1
    pack = _pack(window, channels, block, config) if single_run and placement is None else 1
    shift = window.stride_x * window.depth
    matrices = run_matrices(filters, single_run=single_run, pack=pack, shift=shift)
    sums = filters.astype(np.int64).sum(axis=(1, 2, 3))
    folded = fold_zero_point(bias, sums, input_zero)
    by_channel = None
    if scale.by_channel:
        by_channel = (
            _columns(scale.multiplier, channels, pack),
            _columns(scale.shift, channels, pack),
        )
    oc_blocks = -(-pack * channels // block)
    loop_nest = LoopNest(
        kernel_rows=window.kernel_height,
        kernel_row_step=window.dilation_y,
        kernel_cols=matrices.shape[1],
        kernel_col_step=0 if single_run else window.dilation_x * window.depth,
        blocks=-(-matrices.shape[2] // config.rows),
        oc_step=0,
        x_step=pack * shift,
        y_step=window.stride_y,
        pad_top=window.pad_top,
        pad_left_bytes=window.pad_left * window.depth,
        pad_value=input_zero,
    )
    width, size = window.out_width // pack, scale.element_bytes
    return ArrayStage(
        name=name,
        nodes=nodes,
        inputs=tensors[:1],
        output=tensors[1],
        images=window.images,
        in_rows=window.in_height,
        in_row_bytes=window.in_width * window.depth,
        out_rows=window.out_height,
        width=width,
        position_bytes=pack * channels * size,
        oc_blocks=oc_blocks,
        block_bytes=block * size,
        tail=(pack * channels - (oc_blocks - 1) * block) * size,
        loop_nest=loop_nest,
        regions=whole(window, width, {"channel_bias": 1, **scale.post()}),
        weights=weight_tiles(matrices, config, narrow=halves > 1),
        params=parameter_blocks(
            _columns(folded, channels, pack), by_channel, config, halves=halves
        ),
        macs=_macs(window, filters.size) if macs is None else macs,
        placement=placement,
        mode=mode,
        element_bytes=size,
        digits=digits,
    )


def _macs(window: Window, filter_elements: int) -> int:
    return window.images * window.out_height * window.out_width * filter_elements


def depthwise_stage(
    *,
    name: str,
    nodes: tuple[int, ...],
    tensors: tuple[str, str],
    window: Window,
    filters: np.ndarray,
    bias: np.ndarray,
    input_zero: int,
    scale: Requantisation,
    config: Config,
    mode: str = "i8xi8",
) -> ArrayStage:
    """Return a depthwise convolution; `filters` are int8 (rows, columns, output channels).

    Depth is in elements: int8, or int16 in the mode i16xi8. A sliding window computes it where the
    engine has windows and the strides fit. Otherwise a layer of few channels, or of a multiplier
    that does not divide the columns, becomes a dense convolution whose other weights are zero. In
    all others each output block reads its own input channels alone.
    """
    channels = filters.shape[2]
    multiplier = channels // window.depth
    macs = _macs(window, filters.size)
    word = 2 if mode == "i16xi8" else 1
    slides = word == 1 and _slides(window, multiplier, config)
    in_bytes = replace(window, depth=word * window.depth)
    dense = channels <= config.columns or window.depth == 1 or config.columns % multiplier
    if dense and not slides:
        return convolution_stage(
            name=name,
            nodes=nodes,
            tensors=tensors,
            window=in_bytes,
            filters=np.repeat(depthwise_as_dense(filters, window.depth), word, axis=3),
            bias=bias,
            input_zero=input_zero,
            scale=scale,
            config=config,
            macs=macs,
            mode=mode,
        )
    folded = fold_zero_point(bias, filters.astype(np.int64).sum(axis=(0, 1)), input_zero)
    by_channel = None
    if scale.by_channel:
        by_channel = (_columns(scale.multiplier, channels, 1), _columns(scale.shift, channels, 1))
    loop_nest: LoopNest | SlidingWindow
    if slides:
        loop_nest, weights = (
            _sliding_window(window, input_zero, config),
            sliding_tiles(filters, config),
        )
    else:
        span = word * config.columns // multiplier
        loop_nest = tap_loop_nest(
            in_bytes, input_zero, blocks=-(-span // config.rows), oc_step=span
        )
        weights = block_diagonal(filters, window.depth, config, word=word)
    size = scale.element_bytes
    return ArrayStage(
        name=name,
        nodes=nodes,
        inputs=tensors[:1],
        output=tensors[1],
        images=window.images,
        in_rows=window.in_height,
        in_row_bytes=window.in_width * in_bytes.depth,
        out_rows=window.out_height,
        width=window.out_width,
        position_bytes=channels * size,
        oc_blocks=-(-channels // config.columns),
        block_bytes=config.columns * size,
        tail=((channels - 1) % config.columns + 1) * size,
        loop_nest=loop_nest,
        regions=whole(window, window.out_width, {"channel_bias": 1, **scale.post()}),
        weights=weights,
        params=parameter_blocks(folded, by_channel, config),
        macs=macs,
        mode=mode,
        element_bytes=size,
    )


def _slides(window: Window, multiplier: int, config: Config) -> bool:
    """Return whether a sliding window can compute a depthwise convolution."""
    line = (window.out_width - 1) * window.stride_x + WINDOW_TAPS
    return (
        config.window_lines > 0
        and multiplier == 1
        and window.depth > 1
        and window.dilation_y == window.dilation_x == 1
        and max(window.stride_y, window.stride_x) <= LONGEST_SKIP + 1
        and line <= LONGEST_LINE
    )


def _sliding_window(window: Window, input_zero: int, config: Config) -> SlidingWindow:
    return SlidingWindow(
        lines=config.window_lines,
        in_width=window.in_width,
        depth=window.depth,
        kernel_rows=window.kernel_height,
        kernel_width=window.kernel_width,
        y_step=window.stride_y,
        stride_x=window.stride_x,
        pad_top=window.pad_top,
        pad_left=window.pad_left,
        pad_value=input_zero,
        oc_step=config.columns,
    )
