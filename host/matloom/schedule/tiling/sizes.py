"""Chooses tile sizes of array stages: rows, positions per row, output blocks."""

import random

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.schedule import tuning
from matloom.schedule.params import (
    UNBOUNDED,
    ExternalTensors,
    TileOrder,
    TilingParams,
    WeightsLifetime,
)
from matloom.schedule.tiling.split_k import long_rows, min_positions, step_parts
from matloom.select.exec_steps import limit_steps, read_bytes
from matloom.select.layout.dense import DenseInput
from matloom.select.stage import ArrayStage, OutputRegion

#: Maximum number of rows, and of positions of a row, of an EXEC or POST.
LARGEST_FIELD = min(largest(Opcode.EXEC, "height"), largest(Opcode.POST, "width"))


class Sizes:
    """Rows, positions and channel blocks of tiles in a region, and rows of a strip (0: none).

    Maps that stay in external memory come in strips: whole input rows, contiguous there, for as
    many output rows as fit `tile_bytes`. All tiles of these rows read the same buffer. So a tile
    may have few blocks and many rows, which suits windows, and only rows at the border of two
    strips are read again: `kernel_rows - y_step` of them, whatever the size of the accumulators.
    """

    def __init__(
        self,
        stage: ArrayStage,
        region: OutputRegion,
        limits: TilingParams,
        config: Config,
        blocks: int,
        draw: random.Random | None,
    ):
        half = stage.entries(config)
        width = region.end_x - region.first_x
        height = region.end_row - region.first_row
        nest, in_row_bytes = stage.loop_nest, stage.input_layout.row_bytes
        row_bytes = in_row_bytes * max(1, nest.y_step) + stage.grid.row_bytes
        halo = (nest.kernel_rows - 1) * nest.kernel_row_step * in_row_bytes
        self.width = min(width, half, LARGEST_FIELD)
        if halo + row_bytes > limits.tile_bytes:
            self.width = min(self.width, _fitting_width(stage, limits, config, width, blocks))
        single = stage.grid.block_bytes < config.columns * stage.element_bytes
        self.blocks = 1 if single else max(1, min(blocks, half // self.width))
        most = max(1, min(half // (self.width * self.blocks), LARGEST_FIELD))
        fit = max(1, (limits.tile_bytes - halo) // row_bytes)
        if stage.loop_nest.is_long:
            fit = max(fit, long_rows(stage, config))
        self.min_rows = -(-min_positions(config) // self.width)
        passes = config.columns // config.lanes
        self.last = -(-max(config.tile_load_cycles, 8 * passes) // self.width)
        rows = -(-stage.output_layout.tiled_rows(height) // limits.tiles)
        wanted = max(rows, self.min_rows, _streamed_rows(stage, limits, config, self.width))
        self.height = max(1, min(most, fit, wanted, height))
        self._half, self._least = half, _min_blocks(stage, limits, config)
        self._reshape(stage, limits, wanted, (height, fit))
        if limits.order is TileOrder.BY_ROWS and not self.strip:
            self._cut_rows(limits.tiles // height, min_positions(config))
        if draw is not None and not stage.shares_sums:
            limit = min(fit, height), 1 if single else blocks
            self._draw(draw, half, limit, strips=not limits.turn_rows)

    def _reshape(
        self, stage: ArrayStage, limits: TilingParams, wanted: int, most: tuple[int, int]
    ) -> None:
        """Change a tile's rows and channel blocks if that saves cycles; choose its strip of rows.

        `wanted` is the maximum of rows that the limits allow; `most` has the rows of the region,
        and the rows that fit `tile_bytes`.
        """
        height, fit = most
        slides, width = stage.loop_nest.slides, self.width
        if slides and (limits.tile_bytes >= UNBOUNDED or limits.outside is ExternalTensors.OUTPUT):
            # The whole input is on chip: no block reloads it.
            self._make_taller(stage, wanted, height)
        if stage.output_layout.row_stride > 1:
            self._trade_blocks_for_rows(stage, limits.tiles, height, fit)
        if limits.order is TileOrder.BY_BLOCKS and width * height <= self._half:
            self.width, self.height = width, min(height, fit)
            positions = width * self.height
            least = -(-tuning.BLOCK_ENTRIES // positions)
            self.blocks = min(self.blocks, least, self._half // positions)
        self.strip = 0
        whole = all(each.end_x - each.first_x == width for each in stage.regions)
        if whole and limits.turn_rows:
            self.strip = min(limits.turn_rows, height)
            self._fill_strips(stage)
        elif whole and _has_strips(stage, limits):
            self._cut_strips(stage, limits, height)

    def _trade_blocks_for_rows(self, stage: ArrayStage, tiles: int, height: int, fit: int) -> None:
        """Make tiles taller, with fewer channel blocks, if each block needs a POST of its own.

        A POST takes some cycles more than it has vectors, which matters unless EXEC works much
        longer on a block. The `height` rows of a region are cut into at least `tiles` tiles, each
        of at most `fit` rows.
        """
        least = -(-tiles // stage.grid.blocks)
        rows = -(-height // (stage.output_layout.row_stride * least))
        rows = min(rows, fit, self._half // self.width)
        longer = (stage.steps - 1) * self.width * self.height
        if longer <= tuning.RESULT_LATENCY and rows >= 2 * self.height:
            self.height = rows
            self.blocks = max(1, min(self.blocks, self._half // (self.width * rows)))

    def _cut_rows(self, pieces: int, least: int) -> None:
        """Cut each row into at most `pieces` parts of about `least` positions or more."""
        pieces = min(pieces, self.width // least)
        if pieces > 1:
            self.width = -(-self.width // pieces)

    def _draw(self, draw: random.Random, half: int, most: tuple[int, int], *, strips: bool) -> None:
        """Draw sizes at random, up to the rows and the channel blocks in `most`.

        A tile has at most `half` entries of the accumulators. With `strips`, the height of strips
        is drawn as well.
        """
        rows, blocks = most
        self.width = draw.randint(1, self.width)
        self.height = draw.randint(1, max(1, min(half // self.width, rows)))
        blocks = min(blocks, half // (self.width * self.height))
        self.blocks = draw.randint(1, blocks) if blocks > 1 else 1
        if strips:
            self.strip = self.strip and draw.randint(self.height, max(self.height, 2 * rows))

    def _cut_strips(self, stage: ArrayStage, limits: TilingParams, height: int) -> None:
        """Make strips as tall as `tile_bytes` allows next to the results of a tile.

        `height` is the number of rows in a region.
        """
        nest, row_bytes = stage.loop_nest, stage.input_layout.row_bytes
        halo = (nest.kernel_rows - 1) * nest.kernel_row_step * row_bytes
        room = limits.tile_bytes - halo - self._half * stage.grid.block_bytes
        rows = min(max(room // (row_bytes * max(1, nest.y_step)), self.height), height)
        self.strip = -(-height // -(-height // rows))
        self._fill_strips(stage)

    def _fill_strips(self, stage: ArrayStage) -> None:
        """Set the height of tiles to the largest that strips and accumulators allow."""
        if stage.loop_nest.slides:
            self._make_taller(stage, self.strip, self.strip)
        else:
            most = min(self._half // (self.width * self.blocks), LARGEST_FIELD)
            self.height = min(self.strip, max(1, most))

    def _make_taller(self, stage: ArrayStage, wanted: int, height: int) -> None:
        """Take more rows, and fewer channel blocks or shorter rows, if that saves cycles.

        A tile gets at most `wanted` of the `height` rows. A tile of a sliding window streams a few
        more rows than it makes, and a few more positions of each. Rows are split only if the input
        has the dense layout.
        """
        nest = stage.loop_nest

        def rows_of(blocks: int, width: int) -> int:
            """Return how many rows of `width` positions fit a tile of `blocks` channel blocks."""
            return max(1, min(self._half // (width * blocks), LARGEST_FIELD, wanted, height))

        def vectors(shape: tuple[int, int]) -> int:
            """Return the vectors that tiles of this shape (blocks, width) stream for all rows."""
            rows, pieces = rows_of(*shape), -(-self.width // shape[1])
            whole, rest = divmod(height, rows)
            streamed = whole * nest.vectors_per_step(rows, shape[1])
            return pieces * (streamed + (nest.vectors_per_step(rest, shape[1]) if rest else 0))

        before = (self.blocks, self.width)
        counts = range(self.blocks, min(self.blocks, self._least) - 1, -1)
        fewest = min(((blocks, self.width) for blocks in counts), key=vectors)
        if isinstance(stage.input_layout, DenseInput):
            pieces = range(1, -(-self.width * min(wanted, height) // self._half) + 1)
            parts = ((fewest[0], -(-self.width // count)) for count in pieces)
            fewest = min(parts, key=vectors)
        if vectors(fewest) <= tuning.TALLER_TILES * vectors(before):
            self.height = rows_of(*fewest)
            self.blocks, self.width = fewest


def _min_blocks(stage: ArrayStage, limits: TilingParams, config: Config) -> int:
    """Return the minimum of channel blocks of a tile, for STOREs of long enough rows."""
    if ExternalTensors.OUTPUT not in limits.outside:
        return 1
    return -(-tuning.STORED_BEATS * config.bus_bytes // stage.grid.block_bytes)


def _streamed_rows(stage: ArrayStage, limits: TilingParams, config: Config, width: int) -> int:
    """Return the number of rows with which a tile computes for as long as its weights load.

    The result is 1 unless each tile loads weights.
    """
    if limits.weights is not WeightsLifetime.STREAMED or not stage.loads_weights:
        return 1
    return -(-2 * stage.weight_tile_bytes // (config.bus_bytes * width))


def _has_strips(stage: ArrayStage, limits: TilingParams) -> bool:
    """Return whether tiles share rows of the input, which is loaded in strips."""
    layout, nest = stage.input_layout, stage.loop_nest
    dense = layout.source is None and not layout.plane_bytes
    once = limits.weights is WeightsLifetime.RESIDENT or stage.grid.blocks == 1
    several = nest.kernel_rows > 1 and stage.output_layout.row_stride == 1
    return ExternalTensors.INPUT in limits.outside and dense and once and several


def _fitting_width(
    stage: ArrayStage, limits: TilingParams, config: Config, width: int, blocks: int
) -> int:
    """Return how many of a row's `width` positions fit in `limits.tile_bytes`, at least 1.

    A tile may exceed the limit slightly if the row's `blocks` output blocks then need fewer tiles,
    unless the limit is below a quarter of the scratchpad.
    """
    one, two = (
        _read_bytes(stage, limits, config, count) + count * stage.grid.position_bytes
        for count in (1, 2)
    )

    def fitting(size: int) -> int:
        """Return how many positions fit in `size` bytes, at least 1."""
        return max(1, 1 + (size - one) // max(1, two - one))

    def tiles(count: int) -> int:
        """Return the number of tiles for a row if each has `count` positions."""
        at_once = max(1, min(blocks, stage.entries(config) // count))
        return -(-width // count) * -(-blocks // at_once)

    fits = fitting(limits.tile_bytes)
    if limits.tile_bytes < config.spad_bytes // 4:
        # The limit was tightened because a plan did not fit.
        return fits
    most = fitting(int(tuning.WIDER_TILES * limits.tile_bytes))
    wider = -(-width // -(-width // most))
    return wider if wider > fits and tiles(wider) < tiles(fits) else fits


def _read_bytes(stage: ArrayStage, limits: TilingParams, config: Config, count: int) -> int:
    """Return the number of input bytes from which a tile makes `count` positions of a row.

    If all kernel taps read more than `tile_bytes`, pooling adds the taps part by part.
    """
    fields = stage.loop_nest.fields((0, 1), (0, count), 0)
    every = read_bytes(fields, config.rows)
    if every <= limits.tile_bytes or not stage.loop_nest.weights_fixed:
        return every
    parts = step_parts(stage, limits, config)
    return max(read_bytes(limit_steps(fields, *part, config.rows), config.rows) for part in parts)
