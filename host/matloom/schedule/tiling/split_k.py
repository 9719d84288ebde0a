"""Split-K: divides reductions into parts of steps, and chooses the rows of their tiles."""

from collections.abc import Sequence

from matloom.arch.config import Config
from matloom.schedule.params import TilingParams
from matloom.schedule.tiling.tiles import ArrayTile
from matloom.select.exec_steps import split_k_parts
from matloom.select.loop_nest import MAX_TAPS
from matloom.select.stage import ArrayStage


def step_parts(stage: ArrayStage, limits: TilingParams, config: Config) -> list[tuple[int, int]]:
    """Return ranges (half open) of the reduction for tiles and the LOADs of their weights."""
    most = stage.loop_nest.steps
    if not stage.loop_nest.weights_fixed:
        most = limits.chunk_bytes // stage.weight_tile_bytes
    input_bytes = limits.tile_bytes
    if stage.loop_nest.is_long:
        most, input_bytes = min(most, MAX_TAPS), input_bytes // long_rows(stage, config)
    return split_k_parts(stage, most_steps=most, input_bytes=input_bytes, array_rows=config.rows)


def min_positions(config: Config) -> int:
    """Return how many positions make a tile as long as the LOAD of the next weight tile."""
    return max(2 * config.tile_load_cycles, 16)


def long_rows(stage: ArrayStage, config: Config) -> int:
    """Return the number of rows that a tile of a long reduction needs to hide loading weights."""
    return min(stage.grid.rows, -(-min_positions(config) // stage.grid.width))


def unfinished_sums(tiles: Sequence[ArrayTile], completes: Sequence[bool]) -> list[bool]:
    """Return whether the accumulators hold unfinished sums after each tile."""
    if all(completes):
        return [False] * len(tiles)
    unfinished: set[tuple[int, ...]] = set()
    found = []
    for tile, complete in zip(tiles, completes, strict=True):
        # Parts of a reduction may have different blocks, but not different rows or positions.
        outputs = {
            (tile.image, tile.first_row, tile.first_x, block)
            for block in range(tile.first_block, tile.end_block)
        }
        if complete:
            unfinished -= outputs
        else:
            unfinished |= outputs
        found.append(bool(unfinished))
    return found
