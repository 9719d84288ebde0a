"""The order of tiles: stage by stage, with element-wise stages interleaved with their producer."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from matloom.schedule import tuning
from matloom.schedule.segment import Segment
from matloom.schedule.tiles import ArrayTile, Tile, VectorTile
from matloom.schedule.tiling import Tiling
from matloom.select.stage import ArrayStage, Stage, VectorStage

__all__ = ["Sequence", "Slot", "finished_bytes", "sequence"]


#: Orders that are remembered of a tiling.
_REMEMBERED = 4


class Slot(NamedTuple):
    """One tile in program order; `stage` is its index in the segment, `number` its own there.

    `pending` says that accumulators hold sums of unfinished tiles after it: no other stage may
    use them then.
    """

    stage: int
    number: int
    tile: Tile
    last: bool
    pending: bool = False


@dataclass(frozen=True, kw_only=True)
class Sequence:
    """Slots in program order, and the first and the last slot of each stage.

    Of some stages that follow each other, counted from the first of their slots, `finished` has
    the leading bytes of each output that are complete at the end.
    """

    slots: list[Slot]
    spans: list[tuple[int, int]]
    finished: dict[str, int]


def _stage_slots(stage: Stage, index: int, tiles: list[Tile]) -> Iterator[Slot]:
    """Yield the slots of a stage, with which sums they leave pending."""
    unfinished: set[tuple[int, ...]] = set()
    steps = stage.loop_nest.steps if isinstance(stage, ArrayStage) else 0
    in_parts = any(isinstance(tile, ArrayTile) and tile.end_step < steps for tile in tiles)
    for number, tile in enumerate(tiles):
        if in_parts and isinstance(tile, ArrayTile):
            # Parts of a reduction may have different blocks, but not different rows or positions.
            outputs = {
                (tile.image, tile.first_row, tile.first_x, block)
                for block in range(tile.first_block, tile.end_block)
            }
            if tile.end_step < steps:
                unfinished |= outputs
            else:
                unfinished -= outputs
        last = number + 1 == len(tiles)
        yield Slot(stage=index, number=number, tile=tile, last=last, pending=bool(unfinished))


def finished_bytes(stage: Stage, tile: Tile) -> int:
    """Return how many leading bytes of the output are complete when this tile is."""
    if isinstance(tile, VectorTile):
        return tile.end
    assert isinstance(stage, ArrayStage)
    if tile.end_block < stage.grid.blocks or tile.end_x < stage.grid.width:
        return 0
    if tile.end_step < stage.loop_nest.steps:
        return 0
    return stage.output_layout.finished(tile)


def _can_interleave(segment: Segment, index: int, finished: dict[str, int]) -> bool:
    """Return whether there is a stage that can follow the tiles of the one before closely."""
    if index == len(segment.stages):
        return False
    consumer, output = segment.stages[index], segment.stages[index - 1].output
    if not isinstance(consumer, VectorStage) or output not in consumer.inputs:
        return False
    if any(consumer.inputs[at] == output for at in consumer.repeated):
        return False
    return all(
        name == output or finished.get(name, segment.sizes[name]) >= segment.sizes[name]
        for name in consumer.inputs
    )


def _interleaved(
    segment: Segment, index: int, slots: Iterable[Slot], tiles: list[Tile], distance: int
) -> Iterator[Slot]:
    """Yield slots, and of the stage after `index` the tiles that its tiles have made ready.

    What is finished counts `distance` tiles later. No tile comes between the parts of a reduction:
    it would use the accumulators that hold the sums of the parts before.
    """
    stage, consumer = segment.stages[index : index + 2]
    assert isinstance(consumer, VectorStage)
    waiting = deque(
        (number, tile) for number, tile in enumerate(tiles) if isinstance(tile, VectorTile)
    )
    finished = deque([0] * (distance + 1), maxlen=distance + 1)
    made = 0
    for slot in itertools.chain(slots, itertools.repeat(None, distance)):
        if slot is not None:
            yield slot
            if slot.stage != index:
                continue
            made = max(made, finished_bytes(stage, slot.tile))
            if slot.pending:
                continue
        finished.append(made)
        while waiting and waiting[0][1].end * consumer.input_ratio <= finished[0]:
            number, tile = waiting.popleft()
            yield Slot(stage=index + 1, number=number, tile=tile, last=not waiting)


def sequence(
    segment: Segment,
    tilings: list[Tiling],
    spilled: frozenset[str],
    *,
    interleaved: bool = True,
) -> Sequence:
    """Return all tiles in the order in which they are emitted; stage by stage if not `interleaved`.

    What follows closely stays some tiles back where it must read from external memory what
    was just stored there.
    """
    slots: list[Slot] = []
    spans: list[tuple[int, int]] = []
    produced = {stage.output: 0 for stage in segment.stages}
    first = 0
    while first < len(segment.stages):
        distances: list[int] = []
        while interleaved and _can_interleave(segment, first + len(distances) + 1, produced):
            stored = segment.stages[first + len(distances)].output in spilled
            distances.append(tuning.STORED_TILES if stored else 0)
        group = _group(segment, first, tilings, tuple(distances))
        spans += [(len(slots) + begin, len(slots) + end) for begin, end in group.spans]
        slots += group.slots
        for name, made in group.finished.items():
            produced[name] = max(produced[name], made)
        first += 1 + len(distances)
    return Sequence(slots=slots, spans=spans, finished=produced)


def _group(
    segment: Segment, first: int, tilings: list[Tiling], distances: tuple[int, ...]
) -> Sequence:
    """Return the slots of a stage and of those that follow it closely, at these distances.

    They are remembered with the tiling of the first stage: plans of a search share most of them.
    """
    end = first + 1 + len(distances)
    known = tilings[first].groups
    key = (first, distances, *tilings[first + 1 : end])
    if key not in known:
        made: Iterable[Slot] = _stage_slots(segment.stages[first], first, tilings[first].tiles)
        for index, distance in enumerate(distances, first):
            made = _interleaved(segment, index, made, tilings[index + 1].tiles, distance)
        while len(known) >= _REMEMBERED:
            del known[next(iter(known))]
        known[key] = _spanned(segment, first, end, list(made))
    found = known[key]
    assert isinstance(found, Sequence)
    return found


def _spanned(segment: Segment, first: int, end: int, slots: list[Slot]) -> Sequence:
    """Return slots of stages `first` to `end`, exclusive, with what is known of them."""
    begins, ends = [-1] * (end - first), [-1] * (end - first)
    finished = {segment.stages[index].output: 0 for index in range(first, end)}
    for number, slot in enumerate(slots):
        stage, index = segment.stages[slot.stage], slot.stage - first
        if begins[index] < 0:
            begins[index] = number
        ends[index] = number
        finished[stage.output] = max(finished[stage.output], finished_bytes(stage, slot.tile))
    return Sequence(slots=slots, spans=list(zip(begins, ends, strict=True)), finished=finished)
