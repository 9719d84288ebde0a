"""Depthwise layers of few channels take two bands of rows at once (decision 0018)."""

from collections import Counter
from dataclasses import replace

import numpy as np

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.schedule.segment import Segment
from matloom.select.banded import BandedLoopNest, BandedWindow
from matloom.select.row_bands import MOST_PACKED, Bands
from matloom.select.sliding import SlidingWindow
from matloom.select.stage import ArrayStage, LoopNest, Region, Stage

__all__ = ["in_bands"]


def in_bands(segment: Segment, config: Config) -> Segment | None:
    """Return a segment whose depthwise layers of few channels read and make bands; None for none.

    A convolution makes the tensor, the depthwise layer alone reads it, and a convolution of one
    tap alone reads its result, band by band.
    """
    made = Counter(stage.output for stage in segment.stages)
    read = Counter(name for stage in segment.stages for name in stage.inputs)
    inside = {
        name
        for name in made
        if made[name] == read[name] == 1
        and name not in segment.sources
        and name not in segment.results
    }
    stages: list[Stage] = list(segment.stages)
    sizes, on_chip = dict(segment.sizes), set(segment.on_chip)
    for index, layer in enumerate(segment.stages):
        if not isinstance(layer, ArrayStage) or len(layer.inputs) > 1:
            continue
        (name,) = layer.inputs
        if not {layer.output, name} <= inside:
            continue
        before = next(at for at, stage in enumerate(stages) if stage.output == name)
        after = next(at for at, stage in enumerate(stages) if layer.output in stage.inputs)
        maker, reader = stages[before], stages[after]
        bands = _bands(maker, layer, config)
        if (
            bands is None
            or bands.size > config.spad_bytes
            or not _takes_bands(reader, bands, config)
        ):
            continue
        assert isinstance(maker, ArrayStage)
        assert isinstance(reader, ArrayStage)
        sizes[name] = bands.size
        on_chip |= {name, layer.output}
        stages[before] = replace(maker, bands=bands, regions=_halves(maker.regions, bands.half))
        stages[index] = _layer(layer, bands, config)
        stages[after] = _reader(reader, bands)
    if on_chip == segment.on_chip:
        return None
    return replace(segment, stages=tuple(stages), sizes=sizes, on_chip=frozenset(on_chip))


def _bands(maker: Stage, layer: ArrayStage, config: Config) -> Bands | None:
    """Return the layout between a convolution and a 3x3 layer of windows, if it may have one."""
    window = layer.loop_nest
    if not isinstance(window, SlidingWindow) or 2 * window.depth > config.columns:
        return None
    kernel = (window.kernel_rows, window.kernel_width, window.y_step, window.stride_x)
    if kernel != (WINDOW_TAPS, WINDOW_TAPS, 1, 1) or window.pad_top != 1:
        return None
    height = layer.out_rows
    if not _is_plain(layer) or height != layer.in_rows or height % 2 or height < 4:
        return None
    if not isinstance(maker, ArrayStage) or not isinstance(maker.loop_nest, LoopNest):
        return None
    packed = maker.position_bytes // window.depth
    if not _is_plain(maker) or maker.position_bytes % window.depth or packed > MOST_PACKED:
        return None
    if (maker.out_rows, maker.width * packed) != (height, window.in_width):
        return None
    return Bands(
        height=height,
        width=window.in_width,
        channels=window.depth,
        packed=packed,
        pad_value=window.pad_value,
    )


def _is_plain(stage: ArrayStage) -> bool:
    """Return whether a stage makes one block of bytes for each position of one image."""
    return (
        stage.images == stage.oc_blocks == stage.halves == stage.limbs == stage.element_bytes == 1
        and all(each is None for each in (stage.placement, stage.blocks, stage.bands))
        and stage.addend_post is None
        and len(stage.regions) == 1
    )


def _takes_bands(reader: Stage, bands: Bands, config: Config) -> bool:
    """Return whether a stage is a convolution of one tap over the result."""
    if not isinstance(reader, ArrayStage) or type(reader.loop_nest) is not LoopNest:
        return False
    nest = reader.loop_nest
    single = nest.steps == nest.y_step == reader.images == len(reader.regions) == 1
    dense = nest.x_step == bands.channels and nest.oc_step == nest.pad_top == 0
    rows = reader.in_rows == reader.out_rows == bands.height
    bytes_alone = reader.addend_post is None and reader.weights.shape[1] == config.tile_bytes
    if not (single and dense and rows and bytes_alone) or nest.pad_left_bytes:
        return False
    # The next position is not there: a run of several taps has weights for it.
    tiles = reader.weights.reshape(len(reader.weights), config.rows, config.columns)
    return not tiles[:, bands.channels :].any()


def _halves(regions: tuple[Region, ...], half: int) -> tuple[Region, ...]:
    """Return the only region in two, so that no tile has rows of both bands."""
    (whole,) = regions
    return replace(whole, end_row=half), replace(whole, first_row=half)


def _layer(layer: ArrayStage, bands: Bands, config: Config) -> ArrayStage:
    """Return the depthwise layer of both bands: each channel's weights and scale serve twice."""
    assert isinstance(layer.loop_nest, SlidingWindow)
    (region,) = layer.regions
    # What lies above and below each band is stored.
    stored = {"pad_top": 0, "depth": bands.position_bytes}
    window = BandedWindow(**{**vars(layer.loop_nest), **stored})
    both = 2 * bands.channels
    return replace(
        layer,
        in_rows=bands.rows,
        in_row_bytes=bands.row_bytes,
        out_rows=bands.half,
        position_bytes=both,
        tail=both,
        loop_nest=window,
        regions=(replace(region, end_row=bands.half),),
        weights=_twice(layer.weights, bands.channels, config.columns),
        params=_twice_params(layer.params, bands.channels, config.columns),
    )


def _twice(values: np.ndarray, channels: int, columns: int) -> np.ndarray:
    """Return values of columns, in the last axis by turns, with those of the channels twice."""
    by_column = values.reshape(len(values), -1, columns).copy()
    by_column[:, :, channels : 2 * channels] = by_column[:, :, :channels]
    return by_column.reshape(values.shape)


def _twice_params(params: np.ndarray, channels: int, columns: int) -> np.ndarray:
    """Return parameter blocks likewise: 32-bit numbers of all columns, one or two, then bytes."""
    words, rest = divmod(params.shape[1], 4 * columns)
    wide = np.ascontiguousarray(params[:, : 4 * columns * words]).view("<i4")
    parts = [_twice(wide, channels, columns).view(np.uint8)]
    if rest:
        parts.append(_twice(params[:, 4 * columns * words :], channels, columns))
    return np.concatenate(parts, axis=1)


def _reader(reader: ArrayStage, bands: Bands) -> ArrayStage:
    """Return the convolution over the result: the rows of one band, then those of the other."""
    assert isinstance(reader.loop_nest, LoopNest)
    nest = BandedLoopNest(
        **{**vars(reader.loop_nest), "x_step": 2 * bands.channels},
        half=bands.half,
        channels=bands.channels,
    )
    return replace(
        reader,
        in_rows=bands.half,
        in_row_bytes=2 * reader.in_row_bytes,
        loop_nest=nest,
        regions=_halves(reader.regions, bands.half),
    )
