"""Chooses tile sizes of array stages: rows, positions per row, output blocks."""

import random

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.schedule import tuning
from matloom.schedule.params import UNBOUNDED, Order, TilingParams
from matloom.schedule.tiling.split_k import long_rows, shortest
from matloom.select.exec_steps import read_bytes
from matloom.select.loop_nest import Walk
from matloom.select.stage import ArrayStage, OutputRegion

__all__ = ["LARGEST_FIELD", "Sizes"]

#: Rows, or positions of a row, that EXEC and POST count.
LARGEST_FIELD = min(largest(Opcode.EXEC, "height"), largest(Opcode.POST, "width"))


class Sizes:
    """Rows, positions and blocks of a tile in a region."""

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
            self.width = min(self.width, _fitting_width(stage, limits, config))
        single = stage.grid.block_bytes < config.columns * stage.element_bytes
        self.blocks = 1 if single else max(1, min(blocks, half // self.width))
        most = max(1, min(half // (self.width * self.blocks), LARGEST_FIELD))
        fit = max(1, (limits.tile_bytes - halo) // row_bytes)
        if stage.loop_nest.is_long:
            fit = max(fit, long_rows(stage, config))
        self.shortest = -(-shortest(config) // self.width)
        passes = config.columns // config.lanes
        self.last = -(-max(config.tile_load_cycles, 8 * passes) // self.width)
        rows = -(-stage.output_layout.tiled_rows(height) // limits.tiles)
        wanted = max(rows, self.shortest)
        self.height = max(1, min(most, fit, wanted, height))
        if nest.slides and limits.tile_bytes >= UNBOUNDED:
            # All of the input is on chip: no block reads it from memory again.
            self._make_taller(nest, half, wanted, height)
        if limits.order is Order.BY_BLOCKS and self.width * height <= half:
            self.height = min(height, fit)
            positions = self.width * self.height
            self.blocks = min(self.blocks, -(-tuning.BLOCK_ENTRIES // positions), half // positions)
        if draw is not None:
            self._draw(draw, half, min(fit, height), 1 if single else blocks)

    def _draw(self, draw: random.Random, half: int, rows: int, blocks: int) -> None:
        """Draw sizes at random, with at most this many rows and blocks."""
        self.width = draw.randint(1, self.width)
        self.height = draw.randint(1, max(1, min(half // self.width, rows)))
        most = half // (self.width * self.height)
        self.blocks = 1 if blocks == 1 else draw.randint(1, max(1, min(blocks, most)))

    def _make_taller(self, nest: Walk, half: int, wanted: int, height: int) -> None:
        """Take fewer output blocks and more rows if that saves cycles.

        A tile of windows streams a few more lines than it produces, so fewer and taller tiles
        stream less.
        """

        def rows_of(blocks: int) -> int:
            return max(1, min(half // (self.width * blocks), LARGEST_FIELD, wanted, height))

        def vectors(blocks: int) -> int:
            rows = rows_of(blocks)
            whole, rest = divmod(height, rows)
            return whole * nest.vectors(rows, self.width) + (
                nest.vectors(rest, self.width) if rest else 0
            )

        fewest = min(range(self.blocks, 0, -1), key=vectors)
        if vectors(fewest) <= tuning.TALLER_TILES * vectors(self.blocks):
            self.blocks, self.height = fewest, rows_of(fewest)


def _fitting_width(stage: ArrayStage, limits: TilingParams, config: Config) -> int:
    """Return how many positions per row fit the bytes of a tile, at least one."""
    one, two = (
        read_bytes(stage.loop_nest.fields((0, 1), (0, width), 0), config.rows)
        + width * stage.grid.position_bytes
        for width in (1, 2)
    )
    return max(1, 1 + (limits.tile_bytes - one) // max(1, two - one))
