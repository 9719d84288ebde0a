"""Tiles: the outputs that one EXEC and POST, or one set of POSTs, make."""

from dataclasses import dataclass
from typing import NamedTuple

from matloom.arch.config import Config
from matloom.schedule.tiling.prologue import PrologueSums
from matloom.select.exec_steps import Box, input_region, limit_steps
from matloom.select.stage import ArrayStage


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Weights that one LOAD brings: for some output blocks, a range of their steps (half open).

    A block is as many channels as the array has columns, a step is one weight tile of a block.
    """

    first_block: int
    end_block: int
    first_step: int
    end_step: int

    @property
    def blocks(self) -> slice:
        """The range of output blocks (groups of channels)."""
        return slice(self.first_block, self.end_block)

    @property
    def steps(self) -> slice:
        """The range of reduction steps (weight tiles of each block)."""
        return slice(self.first_step, self.end_step)


class ArrayTile(NamedTuple):
    """Part of a stage's output that one EXEC computes: ranges of rows, columns, blocks and steps.

    Ranges are half open. `x` counts positions in a row. The tile covers every row, or every other
    row if `row_step` is 2. If it belongs to a `strip` of output rows (half open), all tiles of the
    strip share a buffer with the input rows of the whole strip. `chunk` is the index of its weight
    chunk, and `post` has fields of POST that depend on the output region.
    """

    image: int
    first_row: int
    end_row: int
    first_x: int
    end_x: int
    first_block: int
    end_block: int
    first_step: int
    end_step: int
    chunk: int
    post: dict[str, int]
    prologue_sums: PrologueSums | None = None
    row_step: int = 1
    strip: tuple[int, int] | None = None

    @property
    def height(self) -> int:
        """Number of output rows."""
        return -((self.first_row - self.end_row) // self.row_step)

    @property
    def positions(self) -> int:
        """Number of output positions; each takes an accumulator entry for every block."""
        return self.height * (self.end_x - self.first_x)

    @property
    def entries(self) -> int:
        """Number of accumulator entries, if each output has one sum."""
        return self.positions * (self.end_block - self.first_block)

    @property
    def text(self) -> str:
        """Description of the outputs, for people; ends are exclusive."""
        return (
            f"image {self.image} rows {self.first_row}..{self.end_row} "
            f"x {self.first_x}..{self.end_x} blocks {self.first_block}..{self.end_block} "
            f"steps {self.first_step}..{self.end_step} chunk {self.chunk}"
        )


class VectorTile(NamedTuple):
    """Range of bytes (half open) of the output of an element-wise stage."""

    start: int
    end: int

    @property
    def first_row(self) -> int:
        """First byte of the tile: an element-wise output has bytes instead of rows."""
        return self.start

    @property
    def prologue_sums(self) -> None:
        """None, because only matrix products begin with a prologue."""
        return None

    @property
    def strip(self) -> None:
        """None, because an element-wise tile has no rows to share."""
        return None

    @property
    def text(self) -> str:
        """Description of the bytes, for people; the end is exclusive."""
        return f"bytes {self.start}..{self.end}"


Tile = ArrayTile | VectorTile


def walked_steps(stage: ArrayStage, tile: ArrayTile) -> int:
    """Return how often a tile's positions are streamed: for each block, step and weight part."""
    steps = tile.end_step - tile.first_step
    return (tile.end_block - tile.first_block) * steps * stage.weights.passes


def exec_fields(stage: ArrayStage, tile: ArrayTile, config: Config) -> dict[str, int]:
    """Return the fields of EXEC for a tile that follow from its ranges of rows, columns and blocks.

    Rows are counted from the first row of the image.
    """
    rows, columns = (tile.first_row, tile.end_row), (tile.first_x, tile.end_x)
    fields = stage.loop_nest.fields(rows, columns, tile.first_block)
    if tile.row_step > 1:
        fields |= {"height": tile.height, "y_step": tile.row_step * fields["y_step"]}
    return limit_steps(fields, tile.first_step, tile.end_step, config.rows)


def input_box(stage: ArrayStage, tile: ArrayTile, config: Config) -> Box:
    """Return the part of the input image that a tile reads."""
    blocks = tile.end_block - tile.first_block
    return input_region(stage, exec_fields(stage, tile, config), blocks, config.rows)
