"""Builds the stages of dense and depthwise convolutions from window, filters, bias and scales."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from matloom.arch.config import Config
from matloom.arch.modes import NARROW_MODES
from matloom.select.constant import ConstantWeights
from matloom.select.depthwise_windows import depthwise_window, streamed_vectors, widest_tile
from matloom.select.dilated import dilated_phases
from matloom.select.layout.base import Grid, OutputLayout
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.layout.placed import interleaved_layout
from matloom.select.loop_nest import ExecLoops, LoopNest
from matloom.select.operand import Operand, constant_weights
from matloom.select.packing import pack_positions
from matloom.select.requantisation import Requantisation
from matloom.select.shared_tails import share_tails
from matloom.select.stage import ArrayStage
from matloom.select.two_parts import TwoPartWeights
from matloom.select.used_channels import used_channels
from matloom.select.weights import (
    block_diagonal,
    depthwise_as_dense,
    fold_zero_point,
    parameter_blocks,
    run_matrices,
    weight_tiles,
)
from matloom.select.window import Window, covering_regions, tap_loop_nest


def _repeat_for_positions(values: np.ndarray | int, channels: int, pack: int) -> np.ndarray:
    """Return a value for each channel, repeated for `pack` positions that share the columns."""
    return np.tile(np.broadcast_to(np.asarray(values), (channels,)), pack)


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """Convolution with constant filters, and its context in the graph.

    Members
    -------
    name, nodes:
        As in `ArrayStage`.
    tensors:
        Names of the input and the output.
    window:
        Its depth is in input elements for a depthwise convolution, else in bytes (an int16 element
        has two).
    filters:
        int8, or int16 of nine bits: (channels, rows, columns, depth), or depthwise (rows, columns,
        output channels).
    bias:
        int32 (channels,).
    macs:
        Number of multiply-accumulates of the operator; None for as many as the filters take.
    place:
        Function that makes the layout of outputs in a tensor shared with other stages, or None.
    whole_rows:
        Whether adjacent positions of a row are also adjacent in the tensor that `place` shares.
    mode:
        As in `ArrayStage`.
    limbs:
        Number of bytes of each sum that are stored, as in `OutputLayout`.
    pooled:
        Whether a later pass may let the stage compute the MAX_POOL_2D that follows: adjacent
        positions then do not share the array's columns.
    """

    name: str
    nodes: tuple[int, ...]
    tensors: tuple[str, str]
    window: Window
    filters: np.ndarray
    bias: np.ndarray
    input_zero: int
    scale: Requantisation
    config: Config
    macs: int | None = None
    place: Callable[..., OutputLayout] | None = None
    whole_rows: bool = False
    mode: str = "i8xi8"
    limbs: int = 1
    pooled: bool = False

    @property
    def has_adjacent_positions(self) -> bool:
        """Whether adjacent positions are adjacent in the output, which lets them share columns."""
        return self.place is None or self.whole_rows

    @property
    def outputs_size(self) -> int:
        """Number of output elements."""
        window = self.window
        return window.images * window.out_height * window.out_width * len(self.bias)

    @property
    def input_element_bytes(self) -> int:
        """Size in bytes of an input element."""
        return 2 if self.mode == "i16xi8" else 1

    @property
    def parts(self) -> tuple[np.ndarray, ...]:
        """The filters as one int8 array, or as two int8 arrays that add up to them."""
        if self.filters.dtype == np.int8:
            return (self.filters,)
        first = np.clip(self.filters, -128, 127)
        return first.astype(np.int8), (self.filters - first).astype(np.int8)

    @property
    def all_macs(self) -> int:
        """Number of multiply-accumulates of the operator."""
        positions = self.window.images * self.window.out_height * self.window.out_width
        return positions * self.filters.size if self.macs is None else self.macs

    def params(self, sums: np.ndarray, channels: int, pack: int, accumulators: int) -> np.ndarray:
        """Return POST's parameters (bias, multiplier, shift), with channels repeated `pack` times.

        `sums` has the sum of each channel's filter, to correct the bias for the zero point. There
        are `accumulators` per column and output block.
        """
        by_channel = None
        if self.scale.varies_by_channel:
            by_channel = (
                _repeat_for_positions(self.scale.multiplier, channels, pack),
                _repeat_for_positions(self.scale.shift, channels, pack),
            )
        folded = fold_zero_point(self.bias, sums, self.input_zero)
        bias = _repeat_for_positions(folded, channels, pack)
        return parameter_blocks(bias, by_channel, self.config, accumulators=accumulators)

    def stage(
        self, window: Window, pack: int, block: int, widest: int | None = None, **members: Any
    ) -> ArrayStage:
        """Return a stage that computes `pack` positions at a time, in blocks of `block` channels.

        The depth of `window` is in bytes; `members` are further members of the `ArrayStage`. No
        tile is wider than `widest` positions, if given.
        """
        channels, size = len(self.bias), self.scale.element_bytes
        grid = Grid(
            images=window.images,
            rows=window.out_height,
            width=window.out_width // pack,
            position_bytes=pack * channels * size,
            block_bytes=block * size,
        )
        dense = Dense(grid=grid, limbs=self.limbs)
        return ArrayStage(
            name=self.name,
            nodes=self.nodes,
            inputs=self.tensors[:1],
            output=self.tensors[1],
            input_layout=DenseInput(
                rows=window.in_height, row_bytes=window.in_width * window.depth
            ),
            output_layout=dense if self.place is None else self.place(grid=grid),
            regions=covering_regions(
                window, grid.width, {"channel_bias": 1, **self.scale.post()}, widest
            ),
            macs=self.all_macs,
            mode=self.mode,
            element_bytes=size,
            **members,
        )


def convolution_stage(layer: Convolution) -> ArrayStage:
    """Return the stage of a dense convolution."""
    window, config = layer.window, layer.config
    channels, accumulators = layer.filters.shape[0], 2 if layer.mode in NARROW_MODES else 1
    block = accumulators * config.columns
    single_run = window.dilation_x == 1
    pack = 1
    if single_run and layer.has_adjacent_positions and not layer.pooled:
        rows_follow = layer.place is None
        window, pack = pack_positions(window, channels, block, config, rows_follow=rows_follow)
    shift = window.stride_x * window.depth
    cut = partial(run_matrices, single_run=single_run, pack=pack, shift=shift)
    parts = list(map(cut, layer.parts))
    matrices = parts[0]
    loop_nest = LoopNest(
        kernel_rows=window.kernel_height,
        kernel_row_step=window.dilation_y,
        kernel_cols=matrices.shape[1],
        kernel_col_step=0 if single_run else window.dilation_x * window.depth,
        blocks=-(-matrices.shape[2] // config.rows),
        x_step=pack * shift,
        y_step=window.stride_y,
        pad_top=window.pad_top,
        pad_left_bytes=window.pad_left * window.depth,
        pad_value=layer.input_zero,
    )
    if window.kernel_width == pack == len(parts) == 1:
        loop_nest, matrices = used_channels(
            loop_nest, matrices, config.rows, block, layer.input_element_bytes
        )
        parts = [matrices]
    sums = layer.filters.astype(np.int64).sum(axis=(1, 2, 3))
    return layer.stage(
        window,
        pack,
        block,
        loop_nest=loop_nest,
        weights=_dense_weights(layer, parts, loop_nest, window),
        params=layer.params(sums, channels, pack, accumulators),
    )


def _dense_weights(
    layer: Convolution, parts: Sequence[np.ndarray], nest: LoopNest, window: Window
) -> Operand:
    """Return the weights of a dense convolution, packed from `run_matrices` of its parts."""
    config, narrow = layer.config, layer.mode in NARROW_MODES
    tiles = [weight_tiles(matrices, config, narrow=narrow) for matrices in parts]
    weights = _constant_operand(tiles, nest, layer)
    if not isinstance(weights, ConstantWeights) or layer.mode != "i8xi8" or layer.place is not None:
        return weights
    return share_tails(weights, nest, window, config)


def _constant_operand(parts: Sequence[np.ndarray], nest: ExecLoops, layer: Convolution) -> Operand:
    """Return weights of int8, or of nine bits as two int8 parts that add up to them."""
    first, *others = [constant_weights(tiles, layer.mode, layer.config) for tiles in parts]
    if not others:
        return first
    fields = nest.fields((0, 1), (0, 1), 0)
    column, row = fields["blocks"], fields["kernel_cols"] * fields["blocks"]
    return TwoPartWeights(first=first, second=others[0], column_steps=column, row_steps=row)


def depthwise_stage(layer: Convolution) -> ArrayStage:
    """Return the stage of a depthwise convolution of int8, or of int16 in mode i16xi8.

    An int8 layer with a multiplier of 1 uses a sliding window if the engine has windows and the
    strides fit. Otherwise, a layer with few channels, or with a multiplier that does not divide the
    columns, becomes a dense convolution padded with zero weights. In all other layers, each output
    block reads only its own input channels.
    """
    window, filters, config = layer.window, layer.filters, layer.config
    channels = filters.shape[2]
    multiplier = channels // window.depth
    word = layer.input_element_bytes
    in_bytes = replace(window, depth=word * window.depth)
    sliding = None
    if multiplier == word == 1:
        sliding = depthwise_window(window, layer.input_zero, config)
    dense = channels <= config.columns or window.depth == 1 or config.columns % multiplier
    if dense and sliding is None:
        spread = np.repeat(depthwise_as_dense(filters, window.depth), word, axis=3)
        return convolution_stage(
            replace(layer, window=in_bytes, filters=spread, macs=layer.all_macs)
        )
    loop_nest: ExecLoops
    if sliding is not None:
        loop_nest = sliding
        tiles = [sliding.tiles(part, config) for part in layer.parts]
    else:
        span = word * config.columns // multiplier
        blocks = -(-span // config.rows)
        loop_nest = tap_loop_nest(in_bytes, layer.input_zero, blocks=blocks, oc_step=span)
        tiles = [block_diagonal(part, window.depth, config, word=word) for part in layer.parts]
    sums = filters.astype(np.int64).sum(axis=(0, 1))
    return layer.stage(
        in_bytes,
        1,
        config.columns,
        None if sliding is None else widest_tile(sliding),
        loop_nest=loop_nest,
        weights=_constant_operand(tiles, loop_nest, layer),
        params=layer.params(sums, channels, 1, 1),
    )


def dilated_stages(layer: Convolution) -> tuple[ArrayStage, ...]:
    """Return a dilated depthwise convolution of int8 as one stage per phase of its input.

    The result is empty for any other layer, if single taps are faster, or if a phase has no sliding
    window or POST cannot write outputs that far apart.
    """
    window, channels = layer.window, layer.filters.shape[2]
    size, steps = (window.out_height, window.out_width), (window.dilation_y, window.dilation_x)
    stages, vectors = [], 0
    is_depthwise = max(steps) > 1 and channels == window.depth and layer.mode != "i16xi8"
    phases = list(dilated_phases(window)) if is_depthwise else []
    for phase in phases:
        nest = depthwise_window(phase.window, layer.input_zero, layer.config)
        place = interleaved_layout(size, channels, steps=steps, first=phase.first)
        if nest is None or place is None:
            return ()
        place = partial(place, complete=layer.outputs_size if phase is phases[-1] else 0)
        stages.append(depthwise_stage(replace(layer, window=phase.window, place=place)))
        vectors += streamed_vectors(nest, phase.window)
    taps = window.kernel_height * window.kernel_width
    return tuple(stages) if vectors < taps * size[0] * size[1] else ()
