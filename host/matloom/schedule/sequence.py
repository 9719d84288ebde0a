"""The order of tiles: stage by stage, with element-wise stages woven into their producer."""

from dataclasses import dataclass

from matloom.arch.config import Config
from matloom.schedule.segment import Segment
from matloom.schedule.stage import ArrayStage, Stage, VectorStage
from matloom.schedule.tiles import ArrayTile, Tile, VectorTile

__all__ = ["Tick", "finished_bytes", "sequence", "tick_cycles"]


#: Tiles within which one is stored and read again behind the arithmetic of the others.
_STORED_TILES = 2


@dataclass(frozen=True, kw_only=True)
class Tick:
    """One tile in program order; `stage` is its index in the segment."""

    stage: int
    tile: Tile
    last: bool


def finished_bytes(stage: Stage, tile: Tile) -> int:
    """Return how many leading bytes of the output are complete when this tile is."""
    if isinstance(tile, VectorTile):
        return tile.end
    assert isinstance(stage, ArrayStage)
    if tile.end_block < stage.oc_blocks or tile.end_x < stage.width:
        return 0
    if tile.end_step < stage.walk.steps:
        return 0
    if stage.part is not None:
        last = tile.image + 1 == stage.images and tile.end_row == stage.out_rows
        return stage.part.finished if last else 0
    return (tile.image * stage.out_rows + tile.end_row) * stage.row_bytes


def _weave(segment: Segment, index: int, finished: dict[str, int]) -> int | None:
    """Return the next stage if it can follow the tiles of this one closely."""
    if index + 1 == len(segment.stages):
        return None
    follower = segment.stages[index + 1]
    output = segment.stages[index].output
    if not isinstance(follower, VectorStage) or output not in follower.inputs:
        return None
    if any(follower.inputs[at] == output for at in follower.repeated):
        return None
    for name in follower.inputs:
        if name != output and finished.get(name, segment.sizes[name]) < segment.sizes[name]:
            return None
    return index + 1


def sequence(segment: Segment, tiles: list[list[Tile]], spilled: frozenset[str]) -> list[Tick]:
    """Return all tiles in the order in which they are emitted.

    What follows closely stays some tiles behind where it must read from external memory what
    was just stored there.
    """
    ticks: list[Tick] = []
    produced = {stage.output: 0 for stage in segment.stages}
    woven: set[int] = set()
    for index, stage in enumerate(segment.stages):
        if index in woven:
            continue
        follower = _weave(segment, index, produced)
        waiting: list[VectorTile] = []
        if follower is not None:
            waiting = [tile for tile in tiles[follower] if isinstance(tile, VectorTile)]
            woven.add(follower)
        lag = _STORED_TILES if stage.output in spilled else 0
        history = [0] * lag
        for tile in (*tiles[index], *([None] * lag)):
            if tile is not None:
                ticks.append(Tick(stage=index, tile=tile, last=tile is tiles[index][-1]))
                produced[stage.output] = max(produced[stage.output], finished_bytes(stage, tile))
            history.append(produced[stage.output])
            ready = history[-1 - lag]
            while follower is not None and waiting and waiting[0].end <= ready:
                ticks.append(Tick(stage=follower, tile=waiting.pop(0), last=not waiting))
        if follower is not None:
            produced[segment.stages[follower].output] = segment.sizes[
                segment.stages[follower].output
            ]
    return ticks


def tick_cycles(segment: Segment, tick: Tick, config: Config) -> int:
    """Return the cycles that a tile keeps the array, or post-processing, busy."""
    stage, tile = segment.stages[tick.stage], tick.tile
    passes = config.columns // config.lanes
    if isinstance(tile, ArrayTile):
        assert isinstance(stage, ArrayStage)
        load = 0 if stage.walk.weights_fixed else config.tile_load_cycles
        width = tile.end_x - tile.first_x
        step = max(stage.walk.vectors(tile.height, width), load, 4)
        steps = (tile.end_step - tile.first_step) * (tile.end_block - tile.first_block)
        return max(step * steps, tile.entries * stage.halves * stage.digits * passes)
    assert isinstance(stage, VectorStage)
    vectors = -(-(tile.end - tile.start) // (config.columns * stage.element_bytes))
    passes = max(passes, stage.element_bytes)
    # Most of it runs behind the array.
    return vectors * passes * len(stage.posts) // 4
