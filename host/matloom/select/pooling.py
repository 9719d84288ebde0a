"""Stages of pooling: maxima, averages and sums over windows, with a single weight tile."""

from dataclasses import replace

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.arch.numerics import Rounding, reciprocal
from matloom.select.constant import ConstantWeights
from matloom.select.context import Context, NotOnEngine
from matloom.select.depthwise_windows import DepthwiseWindow, depthwise_window, widest_tile
from matloom.select.layout.base import Grid
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.loop_nest import ExecLoops
from matloom.select.operand import constant_weights, same_weights
from matloom.select.requantisation import Requantisation
from matloom.select.shapes import WindowShape, window_shapes
from matloom.select.sliding import SlidingWindow
from matloom.select.stage import ArrayStage, OutputRegion
from matloom.select.summed_rows import sum_with_map_as_weights
from matloom.select.weights import identity_tile, repeated_identity
from matloom.select.window import Window, covering_regions, tap_loop_nest


def _pooling_stage(
    context: Context,
    window: Window,
    regions: tuple[OutputRegion, ...],
    pad_value: int = 0,
    maximum: bool = False,
) -> ArrayStage:
    """Return the pooling stage of a window: tap by tap or sliding, whichever seems faster."""
    found = None if maximum else _whole_image(context, window)
    if found is None:
        stage = _tap_by_tap_stage(context, window, regions, pad_value, maximum=maximum)
    else:
        stage = _whole_stage(context, *found, regions)
    if maximum or context.output.element_bytes > 1 or context.mode != "i8xi8":
        return stage
    return sum_with_map_as_weights(stage, window, context.config)


def _tap_by_tap_stage(
    context: Context,
    window: Window,
    regions: tuple[OutputRegion, ...],
    pad_value: int,
    *,
    maximum: bool,
) -> ArrayStage:
    """Return a stage that uses one weight tile for all taps and channels."""
    config, word = context.config, context.output.element_bytes
    window = replace(window, depth=word * window.depth)
    block = word * min(config.rows // word, config.columns)
    taps = 1 if maximum else _taps_per_vector(window, config, word)
    nest = replace(
        tap_loop_nest(window, pad_value, blocks=1, oc_step=block, maximum=maximum, fixed=True),
        kernel_cols=window.kernel_width // taps,
        kernel_col_step=taps * window.depth,
    )
    width, position_bytes = window.out_width, window.depth
    part, load = _largest_divisor(window.depth, block, word), config.tile_load_cycles
    if width == 1 and max(load, window.depth // part) <= load * -(-window.depth // block):
        # Parts of a position become positions of one column, so a single step handles them.
        nest = replace(nest, x_step=part, oc_step=0)
        width, position_bytes, block = position_bytes // part, part, part
        regions = tuple(replace(region, end_x=width) for region in regions)
    grid = Grid(
        images=window.images,
        rows=window.out_height,
        width=width,
        position_bytes=position_bytes,
        block_bytes=block,
    )
    tile = identity_tile(config, word=word)
    if taps > 1:
        tile = repeated_identity(config, taps, window.depth // word, word=word)
    return _stage_with_loops(context, window, grid, nest, regions, same_weights(tile, grid.blocks))


def _whole_image(context: Context, window: Window) -> tuple[Window, SlidingWindow] | None:
    """Return the window that sums a whole image, and the sliding window that computes it.

    A step of the sliding window has several taps; a step of a single tap would wait for the
    previous sum. The image may have another shape than before, with the same bytes. Return None if
    `window` does not cover the image, if elements have two bytes, or if single taps are as fast.
    """
    config, depth = context.config, window.depth
    if context.output.element_bytes > 1 or not window.covers_image:
        return None
    count = window.in_height * window.in_width
    blocks, latency = -(-depth // config.columns), config.acc_update_latency
    parts = depth // _largest_divisor(depth, min(config.rows, config.columns), 1)
    cycles = count // _taps_per_vector(window, config) * min(max(latency, parts), latency * blocks)
    found = None
    for shape in window_shapes(config):
        for rows in (each for each in range(1, shape.lines + 1) if count % each == 0):
            flat = _rows_window(window, rows)
            nest = _whole_image_window(flat, shape, config)
            streamed = nest.steps * nest.vectors_per_step(1, 1) * blocks
            if streamed < cycles and _fits_fields(nest.fields((0, 1), (0, 1), 0)):
                found, cycles = (flat, nest), streamed
    return found


def _rows_window(window: Window, rows: int) -> Window:
    """Return the window over a whole image after its bytes are reshaped to `rows` rows."""
    width = window.in_height * window.in_width // rows
    size = {"in_height": rows, "in_width": width, "kernel_height": rows, "kernel_width": width}
    return replace(window, **size)


def _whole_image_window(window: Window, shape: WindowShape, config: Config) -> SlidingWindow:
    """Return a sliding window that sums a whole image; taps beyond the image read padding."""
    return SlidingWindow(
        shape=shape,
        in_width=window.in_width,
        depth=window.depth,
        kernel_rows=window.kernel_height,
        kernel_width=window.kernel_width,
        y_step=1,
        stride_x=1,
        pad_top=0,
        pad_left=0,
        pad_value=0,
        oc_step=config.columns,
        weights_fixed=True,
    )


def _fits_fields(fields: dict[str, int]) -> bool:
    """Return whether loops and steps fit in the fields of an EXEC."""
    steps = ("kernel_rows", "kernel_cols", "kernel_col_step", "x_step")
    return all(fields[name] <= largest(Opcode.EXEC, name) for name in steps)


def _whole_stage(
    context: Context, window: Window, nest: SlidingWindow, regions: tuple[OutputRegion, ...]
) -> ArrayStage:
    """Return the stage that sums a whole image by a window with weights of one."""
    config = context.config
    grid = Grid(
        images=window.images,
        rows=1,
        width=1,
        position_bytes=window.depth,
        block_bytes=config.columns,
    )
    tile = np.zeros((config.rows, config.columns), np.uint8)
    tile[nest.shape.rows.reshape(-1)] = 1
    weights = same_weights(tile.reshape(-1), grid.blocks)
    return _stage_with_loops(context, window, grid, nest, regions, weights)


def _taps_per_vector(window: Window, config: Config, word: int = 1) -> int:
    """Return how many neighbouring taps, with all of their channels, fit in one vector.

    The result is 1 if the columns cannot hold all channels. The depth of `window` is in bytes, of
    which an element has `word`.
    """
    if window.depth // word > config.columns:
        return 1
    kernel, most = window.kernel_width, max(1, config.rows // window.depth)
    return max(taps for taps in range(1, most + 1) if kernel % taps == 0)


def _largest_divisor(depth: int, block: int, word: int) -> int:
    """Return the largest multiple of `word` bytes that divides `depth` and is at most `block`."""
    return max(each for each in range(word, block + 1, word) if depth % each == 0)


def _stage_with_loops(
    context: Context,
    window: Window,
    grid: Grid,
    nest: ExecLoops,
    regions: tuple[OutputRegion, ...],
    weights: ConstantWeights,
) -> ArrayStage:
    """Return a pooling stage with these loops and weights; the depth of `window` is in bytes."""
    return ArrayStage(
        name=context.name,
        nodes=context.nodes,
        inputs=context.sources[:1],
        output=context.results[0],
        input_layout=DenseInput(rows=window.in_height, row_bytes=window.in_width * window.depth),
        output_layout=Dense(grid=grid),
        loop_nest=nest,
        regions=regions,
        weights=weights,
        params=np.zeros((grid.blocks, 0), np.uint8),
        macs=0,
        mode=context.mode,
        element_bytes=context.output.element_bytes,
    )


def maximum_stage(context: Context, window: Window, low: int, high: int) -> ArrayStage:
    """Return the stage of max pooling, clamped to ``low .. high``."""
    if not context.config.maximum:
        raise NotOnEngine("it keeps maxima, and the configuration has maximum = 0")
    scale = Requantisation(multiplier=2**30, shift=1, zero=0, low=low, high=high)
    regions = covering_regions(window, window.out_width, scale.post())
    return _pooling_stage(context, window, regions, pad_value=-128, maximum=True)


def _equal_tap_ranges(
    size: int, out: int, kernel: int, stride: int, pad: int
) -> list[tuple[int, int, int]]:
    """Return (first, end, taps): ranges of outputs with equally many taps inside the image."""
    runs: list[tuple[int, int, int]] = []
    for index in range(out):
        first = index * stride - pad
        valid = min(first + kernel, size) - max(first, 0)
        if runs and runs[-1][2] == valid:
            runs[-1] = (runs[-1][0], index + 1, valid)
        else:
            runs.append((index, index + 1, valid))
    return runs


def average_stage(context: Context, window: Window, low: int, high: int) -> ArrayStage:
    """Return the stage of average pooling over valid taps, clamped to ``low .. high``."""
    regions, size = [], context.output.element_bytes
    for first_row, end_row, valid_rows in _equal_tap_ranges(
        window.in_height, window.out_height, window.kernel_height, window.stride_y, window.pad_top
    ):
        for first_x, end_x, valid_columns in _equal_tap_ranges(
            window.in_width, window.out_width, window.kernel_width, window.stride_x, window.pad_left
        ):
            count = valid_rows * valid_columns
            multiplier, shift = reciprocal(count)
            maximum = 2 ** (31 - shift) // count
            if count * 2 ** (8 * size - 1) + count // 2 >= maximum:
                raise NotOnEngine(f"sums of {count} numbers must be below {maximum} to be divided")
            scale = Requantisation(
                multiplier=multiplier,
                shift=shift,
                zero=0,
                low=low,
                high=high,
                rounding=Rounding.AVERAGE,
                element_bytes=size,
            )
            post = {"bias": count // 2, **scale.post()}
            regions.append(
                OutputRegion(
                    first_row=first_row, end_row=end_row, first_x=first_x, end_x=end_x, post=post
                )
            )
    nest = _summing_window(context, window, regions)
    if nest is not None:
        return _sliding_stage(context, window, tuple(regions), nest)
    return _pooling_stage(context, window, tuple(regions))


def _summing_window(
    context: Context, window: Window, regions: list[OutputRegion]
) -> DepthwiseWindow | None:
    """Return the sliding window that sums bytes with weights of one.

    Return None if no window can, or if single taps are as fast.
    """
    if context.output.element_bytes > 1:
        return None
    nest = depthwise_window(window, 0, context.config)
    if nest is None:
        return None
    sizes = [(each.end_row - each.first_row, each.end_x - each.first_x) for each in regions]
    widest = widest_tile(nest)
    if widest is not None and max(width for _height, width in sizes) > widest:
        return None
    vectors = nest.steps * sum(nest.vectors_per_step(*size) for size in sizes)
    # Elements are bytes here.
    taps = window.kernel_height * window.kernel_width // _taps_per_vector(window, context.config)
    return nest if vectors < taps * window.out_height * window.out_width else None


def _sliding_stage(
    context: Context, window: Window, regions: tuple[OutputRegion, ...], nest: DepthwiseWindow
) -> ArrayStage:
    """Return a stage that sums like a depthwise convolution with weights of one."""
    config = context.config
    grid = Grid(
        images=window.images,
        rows=window.out_height,
        width=window.out_width,
        position_bytes=window.depth,
        block_bytes=config.columns,
    )
    ones = np.ones((window.kernel_height, window.kernel_width, window.depth), np.int8)
    weights = constant_weights(nest.tiles(ones, config), context.mode, config)
    return _stage_with_loops(context, window, grid, nest, regions, weights)


def sum_stage(context: Context, window: Window, bias: int, scale: Requantisation) -> ArrayStage:
    """Return the stage of requantised sums over each window, which must lie within the image."""
    regions = covering_regions(window, window.out_width, {"bias": bias, **scale.post()})
    return _pooling_stage(context, window, regions)
