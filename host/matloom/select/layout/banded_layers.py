"""Rewrites stages so that depthwise layers of few channels process two bands of rows at once.

The bands are those of `select.layout.row_bands`.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.select.constant import ConstantWeights
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.layout.row_bands import BandedLoopNest, BandedWindow, RowBands
from matloom.select.loop_nest import LoopNest, as_loop_nest
from matloom.select.sliding import SlidingWindow, as_sliding_window
from matloom.select.stage import ArrayStage, OutputRegion, Stage
from matloom.select.weights import repeat_columns, repeat_parameters

#: Maximum number of neighbouring positions that share the columns of a producer. A POST of the
#: second one also writes the first, to bytes that are still unused; there are none for more.
_MOST_PACKED = 2
#: Minimum number of rows of an image that is cut into two bands.
_LEAST_ROWS = 4


def band_depthwise_layers(
    stages: Sequence[Stage], internal: Collection[str], config: Config
) -> tuple[list[Stage], dict[str, int]]:
    """Put upper and lower half of narrow depthwise layers' tensors side by side; return stages.

    A convolution must produce the input, only the depthwise layer may read it, and only a 1x1
    convolution may read the result, one band after the other.

    Parameters
    ----------
    internal:
        Tensors with one producer and one consumer within the segment.

    Returns
    -------
    tuple
        All stages, and the sizes of the tensors that lie in bands.
    """
    rewritten, sizes = list(stages), dict[str, int]()
    for index, each in enumerate(stages):
        layer = each.array
        if layer is None or not {layer.output, *layer.inputs} <= set(internal):
            continue
        name, output = layer.inputs[0], layer.output
        made_at = next(at for at, stage in enumerate(rewritten) if stage.output == name)
        read_at = next(at for at, stage in enumerate(rewritten) if output in stage.inputs)
        producer, reader = rewritten[made_at].array, rewritten[read_at].array
        if producer is None or reader is None:
            continue
        layout = _band_layout(producer, layer, config)
        rows = layer.grid.rows
        if layout is None or not can_read_bands(reader, layout.channels, rows, config):
            continue
        sizes |= {name: layout.size, output: layer.size}
        rewritten[made_at] = replace(
            producer, output_layout=layout, regions=split_region(producer.regions, layout.half)
        )
        rewritten[index] = slide_over_bands(layer, layout, config)
        rewritten[read_at] = read_bands_one_by_one(reader, layout.channels, layout.half)
    return rewritten, sizes


def _band_layout(producer: ArrayStage, layer: ArrayStage, config: Config) -> RowBands | None:
    """Return the layout, in bands, of the tensor between a convolution and a 3x3 depthwise layer.

    Return None if bands are impossible.
    """
    window, rows = bandable_window(layer, config), layer.grid.rows
    if window is None or as_loop_nest(producer.loop_nest) is None:
        return None
    packed, rest = divmod(producer.grid.position_bytes, window.depth)
    if not writes_single_block(producer) or rest or packed > _MOST_PACKED:
        return None
    if (producer.grid.rows, producer.grid.width * packed) != (rows, window.in_width):
        return None
    layout = RowBands(grid=producer.grid, channels=window.depth, pad_value=window.pad_value)
    return layout if layout.size <= config.spad_bytes else None


def bandable_window(layer: ArrayStage, config: Config) -> SlidingWindow | None:
    """Return the window of a depthwise layer that can slide over two bands; None if it cannot."""
    window, rows = as_sliding_window(layer.loop_nest), layer.grid.rows
    if window is None or 2 * window.depth > config.columns:
        return None
    kernel = (window.kernel_rows, window.kernel_width, window.y_step, window.stride_x)
    if kernel != (WINDOW_TAPS, WINDOW_TAPS, 1, 1) or window.pad_top != 1:
        return None
    if (
        not writes_single_block(layer)
        or rows != layer.input_layout.rows
        or rows % 2
        or rows < _LEAST_ROWS
    ):
        return None
    return window


def writes_single_block(stage: ArrayStage) -> bool:
    """Return whether a stage makes a single image, with one output block of bytes per position."""
    one = stage.grid.images == stage.grid.blocks == len(stage.regions) == 1
    return one and stage.makes_dense_bytes


def can_read_bands(consumer: ArrayStage, channels: int, rows: int, config: Config) -> bool:
    """Return whether a stage is a 1x1 convolution that can read one band after the other."""
    nest = consumer.loop_nest
    if type(nest) is not LoopNest:
        return False
    single = nest.steps == nest.y_step == consumer.grid.images == len(consumer.regions) == 1
    dense = nest.x_step == channels and nest.oc_step == nest.pad_top == 0
    same = consumer.input_layout.rows == consumer.grid.rows == rows
    bytes_alone = (consumer.addend is None or consumer.adds_results) and consumer.weights.steps == 1
    if not (single and dense and same and bytes_alone) or nest.pad_left_bytes:
        return False
    if not isinstance(consumer.weights, ConstantWeights):
        return False
    # A run of several taps would need the next position, which is elsewhere.
    tiles = consumer.weights.tiles.reshape(-1, config.rows, config.columns)
    return not tiles[:, channels:].any()


def split_region(regions: tuple[OutputRegion, ...], half: int) -> tuple[OutputRegion, ...]:
    """Split the only region in two at row `half`, so that no tile has rows of both bands."""
    (whole,) = regions
    return replace(whole, end_row=half), replace(whole, first_row=half)


def slide_over_bands(layer: ArrayStage, layout: RowBands, config: Config) -> ArrayStage:
    """Return a depthwise layer that processes both bands, with weights and parameters for each."""
    assert isinstance(layer.weights, ConstantWeights)
    (region,), tiles = layer.regions, layer.weights.tiles
    # The rows above and below each band are stored.
    stored = {"pad_top": 0, "depth": layout.position_bytes}
    grid = replace(layer.grid, rows=layout.half, position_bytes=2 * layout.channels)
    return replace(
        layer,
        input_layout=layout,
        output_layout=Dense(grid=grid),
        loop_nest=BandedWindow(**{**vars(layer.loop_nest), **stored}),
        regions=(replace(region, end_row=layout.half),),
        weights=ConstantWeights(tiles=repeat_columns(tiles, layout.channels, config.columns)),
        params=repeat_parameters(layer.params, layout.channels, config.columns),
    )


def read_bands_one_by_one(consumer: ArrayStage, channels: int, half: int) -> ArrayStage:
    """Return a convolution that reads the rows of one band, then those of the other."""
    nest = BandedLoopNest(
        **{**vars(consumer.loop_nest), "x_step": 2 * channels},
        half=half,
        channels=channels,
    )
    result = DenseInput(rows=half, row_bytes=2 * consumer.input_layout.row_bytes)
    regions = split_region(consumer.regions, half)
    return replace(consumer, input_layout=result, loop_nest=nest, regions=regions)
