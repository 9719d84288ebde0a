"""The order of tiles: stage by stage, with element-wise stages woven into their producer."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
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


def _follows(segment: Segment, index: int, finished: dict[str, int]) -> bool:
    """Return whether there is a stage that can follow the tiles of the one before closely."""
    if index == len(segment.stages):
        return False
    follower, output = segment.stages[index], segment.stages[index - 1].output
    if not isinstance(follower, VectorStage) or output not in follower.inputs:
        return False
    if any(follower.inputs[at] == output for at in follower.repeated):
        return False
    return all(
        name == output or finished.get(name, segment.sizes[name]) >= segment.sizes[name]
        for name in follower.inputs
    )


def _followed(
    segment: Segment, index: int, ticks: Iterable[Tick], tiles: list[Tile], lag: int
) -> Iterator[Tick]:
    """Yield ticks, and of the stage behind `index` the tiles that its tiles have made ready.

    What is finished counts `lag` tiles later.
    """
    stage, follower = segment.stages[index : index + 2]
    assert isinstance(follower, VectorStage)
    waiting = deque(tile for tile in tiles if isinstance(tile, VectorTile))
    finished = deque([0] * (lag + 1), maxlen=lag + 1)
    for tick in itertools.chain(ticks, itertools.repeat(None, lag)):
        if tick is not None:
            yield tick
            if tick.stage != index:
                continue
        made = 0 if tick is None else finished_bytes(stage, tick.tile)
        finished.append(max(made, finished[-1]))
        while waiting and waiting[0].end * follower.input_ratio <= finished[0]:
            tile = waiting.popleft()
            yield Tick(stage=index + 1, tile=tile, last=not waiting)


def sequence(segment: Segment, tiles: list[list[Tile]], spilled: frozenset[str]) -> list[Tick]:
    """Return all tiles in the order in which they are emitted.

    What follows closely stays some tiles behind where it must read from external memory what
    was just stored there.
    """
    ticks: list[Tick] = []
    produced = {stage.output: 0 for stage in segment.stages}
    first = 0
    while first < len(segment.stages):
        last = tiles[first][-1]
        woven: Iterable[Tick] = [
            Tick(stage=first, tile=tile, last=tile is last) for tile in tiles[first]
        ]
        end = first + 1
        while _follows(segment, end, produced):
            lag = _STORED_TILES if segment.stages[end - 1].output in spilled else 0
            woven = _followed(segment, end - 1, woven, tiles[end], lag)
            end += 1
        for tick in woven:
            stage = segment.stages[tick.stage]
            made = finished_bytes(stage, tick.tile)
            produced[stage.output] = max(produced[stage.output], made)
            ticks.append(tick)
        first = end
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
    passes = max(passes, stage.element_bytes * stage.input_ratio)
    # Most of it runs behind the array.
    return vectors * passes * len(stage.posts) // 4
