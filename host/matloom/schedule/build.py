"""Stages from the plain numbers of an operator: convolution, depthwise, pooling, element-wise."""

from dataclasses import dataclass

import numpy as np

from matloom.arch.config import NARROW_MODES, WINDOW_TAPS, Config
from matloom.arch.isa import Destination, Source
from matloom.arch.numerics import Rounding, reciprocal
from matloom.schedule.sliding import LONGEST_LINE, LONGEST_SKIP, SlidingWalk, sliding_tiles
from matloom.schedule.stage import ArrayStage, Part, Region, VectorStage, Walk
from matloom.schedule.weights import (
    block_diagonal,
    depthwise_as_dense,
    fold_zero_point,
    identity_tile,
    parameter_blocks,
    run_matrices,
    weight_tiles,
)

__all__ = [
    "Requantisation",
    "Window",
    "add_stage",
    "average_stage",
    "convolution_stage",
    "depthwise_stage",
    "maximum_stage",
    "product_stage",
    "requantise_stage",
    "sum_stage",
]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Shapes of an operator that slides a window: NHWC input and output, strides, padding.

    Padding is what the window reaches beyond the first row and column; what it reaches beyond
    the last follows from the output's size.
    """

    images: int
    in_height: int
    in_width: int
    depth: int
    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1
    dilation_x: int = 1
    pad_top: int = 0
    pad_left: int = 0


@dataclass(frozen=True, kw_only=True)
class Requantisation:
    """From sums to bytes: multiplier and shift (scalars, or arrays by channel), zero, clamp."""

    multiplier: np.ndarray | int
    shift: np.ndarray | int
    zero: int
    low: int
    high: int

    @property
    def by_channel(self) -> bool:
        """Whether channels differ."""
        return len(set(self.pairs)) > 1

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Multiplier and shift of each channel, or the only pair."""
        multipliers, shifts = np.atleast_1d(self.multiplier), np.atleast_1d(self.shift)
        return list(zip(multipliers.tolist(), shifts.tolist(), strict=True))

    def post(self, rounding: Rounding = Rounding.DOUBLE) -> dict[str, int]:
        """Return the fields of POST that it fixes."""
        multiplier, shift = (0, 0) if self.by_channel else self.pairs[0]
        return {
            "rounding": rounding,
            "channel_scale": int(self.by_channel),
            "multiplier": multiplier,
            "shift": shift,
            "output_zero": self.zero,
            "clamp_low": self.low,
            "clamp_high": self.high,
        }


def _whole(window: Window, width: int, post: dict[str, int]) -> tuple[Region, ...]:
    return (Region(first_row=0, end_row=window.out_height, first_x=0, end_x=width, post=post),)


def _pack(window: Window, channels: int, columns: int, config: Config) -> int:
    """Return how many output positions of a row are best put side by side into the columns.

    Each makes the run of bytes longer by its distance, so that only neighbours that share
    bytes, or a run with rows to spare, gain.
    """
    run, shift = window.kernel_width * window.depth, window.stride_x * window.depth
    positions = window.out_width * window.out_height

    def cycles(pack: int) -> int:
        blocks = -(-(run + (pack - 1) * shift) // config.rows)
        return blocks * max(positions // pack, config.tile_load_cycles, 4)

    most = max(1, columns // channels)
    fitting = [pack for pack in range(1, most + 1) if window.out_width % pack == 0]
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
    part: Part | None = None,
    mode: str = "i8xi8",
    digits: int = 1,
) -> ArrayStage:
    """Return a dense convolution; `filters` are int8 (channels, rows, columns, depth)."""
    channels, halves = filters.shape[0], 2 if mode in NARROW_MODES else 1
    block = halves * config.columns
    single_run = window.dilation_x == 1
    pack = _pack(window, channels, block, config) if single_run and part is None else 1
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
    walk = Walk(
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
    width = window.out_width // pack
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
        position_bytes=pack * channels,
        oc_blocks=oc_blocks,
        block_bytes=block,
        tail=pack * channels - (oc_blocks - 1) * block,
        walk=walk,
        regions=_whole(window, width, {"channel_bias": 1, **scale.post()}),
        weights=weight_tiles(matrices, config, narrow=halves > 1),
        params=parameter_blocks(
            _columns(folded, channels, pack), by_channel, config, halves=halves
        ),
        macs=_macs(window, filters.size) if macs is None else macs,
        part=part,
        mode=mode,
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
) -> ArrayStage:
    """Return a depthwise convolution; `filters` are int8 (rows, columns, output channels).

    Windows slide where the engine has them and the strides fit. Otherwise few channels, or a
    multiplier that does not divide the columns, make it a dense convolution with zeros, and
    in what remains each output block meets its own input channels alone.
    """
    channels = filters.shape[2]
    multiplier = channels // window.depth
    macs = _macs(window, filters.size)
    slides = _slides(window, multiplier, config)
    dense = channels <= config.columns or window.depth == 1 or config.columns % multiplier
    if dense and not slides:
        return convolution_stage(
            name=name,
            nodes=nodes,
            tensors=tensors,
            window=window,
            filters=depthwise_as_dense(filters, window.depth),
            bias=bias,
            input_zero=input_zero,
            scale=scale,
            config=config,
            macs=macs,
        )
    folded = fold_zero_point(bias, filters.astype(np.int64).sum(axis=(0, 1)), input_zero)
    by_channel = None
    if scale.by_channel:
        by_channel = (_columns(scale.multiplier, channels, 1), _columns(scale.shift, channels, 1))
    walk: Walk | SlidingWalk
    if slides:
        walk, weights = _sliding_walk(window, input_zero, config), sliding_tiles(filters, config)
    else:
        span = config.columns // multiplier
        walk = _tap_walk(window, input_zero, blocks=-(-span // config.rows), oc_step=span)
        weights = block_diagonal(filters, window.depth, config)
    return ArrayStage(
        name=name,
        nodes=nodes,
        inputs=tensors[:1],
        output=tensors[1],
        images=window.images,
        in_rows=window.in_height,
        in_row_bytes=window.in_width * window.depth,
        out_rows=window.out_height,
        width=window.out_width,
        position_bytes=channels,
        oc_blocks=-(-channels // config.columns),
        block_bytes=config.columns,
        tail=(channels - 1) % config.columns + 1,
        walk=walk,
        regions=_whole(window, window.out_width, {"channel_bias": 1, **scale.post()}),
        weights=weights,
        params=parameter_blocks(folded, by_channel, config),
        macs=macs,
    )


def _slides(window: Window, multiplier: int, config: Config) -> bool:
    """Return whether sliding windows can compute a depthwise convolution, and gain by it."""
    line = (window.out_width - 1) * window.stride_x + WINDOW_TAPS
    return (
        config.window_lines > 0
        and multiplier == 1
        and window.depth > 1
        and window.dilation_y == window.dilation_x == 1
        and max(window.stride_y, window.stride_x) <= LONGEST_SKIP + 1
        and line <= LONGEST_LINE
    )


def _sliding_walk(window: Window, input_zero: int, config: Config) -> SlidingWalk:
    return SlidingWalk(
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


def _tap_walk(
    window: Window,
    pad_value: int,
    *,
    blocks: int,
    oc_step: int,
    maximum: bool = False,
    fixed: bool = False,
) -> Walk:
    """Return a walk in which each tap is a step of its own."""
    return Walk(
        kernel_rows=window.kernel_height,
        kernel_row_step=window.dilation_y,
        kernel_cols=window.kernel_width,
        kernel_col_step=window.dilation_x * window.depth,
        blocks=blocks,
        oc_step=oc_step,
        x_step=window.stride_x * window.depth,
        y_step=window.stride_y,
        pad_top=window.pad_top,
        pad_left_bytes=window.pad_left * window.depth,
        pad_value=pad_value,
        maximum=maximum,
        weights_fixed=fixed,
    )


def _pooling_stage(
    name: str,
    nodes: tuple[int, ...],
    tensors: tuple[str, str],
    window: Window,
    walk: Walk,
    regions: tuple[Region, ...],
    config: Config,
) -> ArrayStage:
    """Return a stage whose weights are one identity tile for all taps and channels."""
    block_bytes = min(config.rows, config.columns)
    oc_blocks = -(-window.depth // block_bytes)
    tail = window.depth - (oc_blocks - 1) * block_bytes
    width, position_bytes = window.out_width, window.depth
    if window.out_width == 1 and window.depth % block_bytes == 0:
        # The blocks of the only column are positions: one step serves all of them.
        walk = Walk(**{**vars(walk), "x_step": block_bytes, "oc_step": 0})
        width, position_bytes, oc_blocks, tail = oc_blocks, block_bytes, 1, block_bytes
        regions = tuple(Region(**{**vars(region), "end_x": width}) for region in regions)
    tile = identity_tile(config)
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
        position_bytes=position_bytes,
        oc_blocks=oc_blocks,
        block_bytes=block_bytes,
        tail=tail,
        walk=walk,
        regions=regions,
        weights=np.broadcast_to(tile, (oc_blocks, tile.size)),
        params=np.zeros((oc_blocks, 0), np.uint8),
        macs=0,
    )


def maximum_stage(
    *,
    name: str,
    nodes: tuple[int, ...],
    tensors: tuple[str, str],
    window: Window,
    low: int,
    high: int,
    config: Config,
) -> ArrayStage:
    """Return a maximum pooling, clamped to ``low .. high``."""
    block = min(config.rows, config.columns)
    walk = _tap_walk(window, -128, blocks=1, oc_step=block, maximum=True, fixed=True)
    scale = Requantisation(multiplier=2**30, shift=1, zero=0, low=low, high=high)
    regions = _whole(window, window.out_width, scale.post())
    return _pooling_stage(name, nodes, tensors, window, walk, regions, config)


def _spans(size: int, out: int, kernel: int, stride: int, pad: int) -> list[tuple[int, int, int]]:
    """Return runs of output indices (half open) with the same number of valid taps."""
    runs: list[tuple[int, int, int]] = []
    for index in range(out):
        first = index * stride - pad
        valid = min(first + kernel, size) - max(first, 0)
        if runs and runs[-1][2] == valid:
            runs[-1] = (runs[-1][0], index + 1, valid)
        else:
            runs.append((index, index + 1, valid))
    return runs


def average_stage(
    *,
    name: str,
    nodes: tuple[int, ...],
    tensors: tuple[str, str],
    window: Window,
    low: int,
    high: int,
    config: Config,
) -> ArrayStage:
    """Return an average pooling over the valid taps of each window, clamped to ``low .. high``."""
    block = min(config.rows, config.columns)
    walk = _tap_walk(window, 0, blocks=1, oc_step=block, fixed=True)
    regions = []
    for first_row, end_row, valid_rows in _spans(
        window.in_height, window.out_height, window.kernel_height, window.stride_y, window.pad_top
    ):
        for first_x, end_x, valid_columns in _spans(
            window.in_width, window.out_width, window.kernel_width, window.stride_x, window.pad_left
        ):
            count = valid_rows * valid_columns
            multiplier, shift = reciprocal(count)
            scale = Requantisation(multiplier=multiplier, shift=shift, zero=0, low=low, high=high)
            post = {"bias": count // 2, **scale.post(Rounding.AVERAGE)}
            regions.append(
                Region(
                    first_row=first_row, end_row=end_row, first_x=first_x, end_x=end_x, post=post
                )
            )
    return _pooling_stage(name, nodes, tensors, window, walk, tuple(regions), config)


def sum_stage(
    *,
    name: str,
    nodes: tuple[int, ...],
    tensors: tuple[str, str],
    window: Window,
    bias: int,
    scale: Requantisation,
    config: Config,
) -> ArrayStage:
    """Return the sum over each window, which must lie within the image, requantised."""
    block = min(config.rows, config.columns)
    walk = _tap_walk(window, 0, blocks=1, oc_step=block, fixed=True)
    regions = _whole(window, window.out_width, {"bias": bias, **scale.post()})
    return _pooling_stage(name, nodes, tensors, window, walk, regions, config)


def requantise_stage(
    *,
    name: str,
    nodes: tuple[int, ...],
    tensors: tuple[str, str],
    size: int,
    granule: int,
    input_zero: int,
    scale: Requantisation,
) -> VectorStage:
    """Return a change of scale and zero point, byte by byte."""
    post = {"source": Source.SPAD, "destination": Destination.SPAD, "bias": -input_zero}
    return VectorStage(
        name=name,
        nodes=nodes,
        inputs=tensors[:1],
        output=tensors[1],
        size=size,
        granule=granule,
        posts=((0, {**post, **scale.post()}),),
    )


def add_stage(
    *,
    name: str,
    nodes: tuple[int, ...],
    inputs: tuple[str, str],
    output: str,
    size: int,
    granule: int,
    zeros: tuple[int, int],
    scales: tuple[tuple[int, int], tuple[int, int]],
    left_shift: int,
    result: Requantisation,
    period: int = 0,
    repeated: tuple[int, ...] = (),
) -> VectorStage:
    """Return an addition: both inputs scaled into the accumulators, their sum requantised."""
    posts = []
    for index, (zero, (multiplier, shift)) in enumerate(zip(zeros, scales, strict=True)):
        posts.append(
            (
                index,
                {
                    "source": Source.SPAD,
                    "destination": Destination.ACC_ADD if index else Destination.ACC_SET,
                    "rounding": Rounding.DOUBLE,
                    "bias": -zero,
                    "pre_shift": left_shift,
                    "multiplier": multiplier,
                    "shift": shift,
                },
            )
        )
    last = {"source": Source.ACC, "destination": Destination.SPAD, **result.post()}
    return VectorStage(
        name=name,
        nodes=nodes,
        inputs=inputs,
        output=output,
        size=size,
        granule=granule,
        period=period,
        repeated=repeated,
        posts=(*posts, (None, last)),
    )


def product_stage(
    *,
    name: str,
    nodes: tuple[int, ...],
    inputs: tuple[str, str],
    output: str,
    size: int,
    granule: int,
    zeros: tuple[int, int],
    result: Requantisation,
    period: int = 0,
    repeated: tuple[int, ...] = (),
) -> VectorStage:
    """Return a product: the first input into the accumulators, multiplied by the second's bytes."""
    factor = {
        "source": Source.SPAD,
        "destination": Destination.ACC_SET,
        "rounding": Rounding.DOUBLE,
        "bias": -zeros[0],
        "multiplier": 2**30,
        "shift": 1,
    }
    product = {
        "source": Source.SPAD,
        "destination": Destination.SPAD,
        "product": 1,
        "factor_zero": zeros[1],
        **result.post(),
    }
    return VectorStage(
        name=name,
        nodes=nodes,
        inputs=inputs,
        output=output,
        size=size,
        granule=granule,
        period=period,
        repeated=repeated,
        posts=((0, factor), (1, product)),
    )
