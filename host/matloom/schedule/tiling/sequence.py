"""Order of tiles: stage by stage, with element-wise stages interleaved with their producers."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from matloom.schedule.segment import Segment
from matloom.schedule.tiling.followers import Followers, followers, waits_for_reader
from matloom.schedule.tiling.stages import Tiling
from matloom.schedule.tiling.tiles import Tile

#: Maximum number of cached orders of a tiling.
_MAX_CACHED_ORDERS = 4

#: Maximum number of nested iterators: Python limits their depth, and each costs time per slot.
_MAX_NESTED = 64


class Slot(NamedTuple):
    """Place of a tile in program order; `stage` is its stage, `number` its index in the stage.

    `last` marks the last tile of the stage. `pending` means that accumulators still hold unfinished
    sums after the tile, so no other stage may use them.
    """

    stage: int
    number: int
    tile: Tile
    last: bool
    pending: bool = False


@dataclass(frozen=True)
class Sequence:
    """Tiles in program order, each in a slot, and the first and last slot of each stage.

    It may cover only some consecutive stages; slots are then counted from the first of them.
    `finished` gives the leading bytes of each output that are complete at the end. `handed_tensors`
    are spilled tensors whose tiles the next stage reads from the buffers in which they were made,
    so that no byte leaves the chip. `in_turns` are the stages that alternate with their reader.
    """

    slots: list[Slot]
    spans: list[tuple[int, int]]
    finished: dict[str, int]
    handed_tensors: frozenset[str] = frozenset()
    in_turns: frozenset[int] = frozenset()


def _stage_slots(tiling: Tiling, index: int) -> Iterator[Slot]:
    """Yield the tiles of stage `index` in order, each as a slot."""
    tiles: list[Tile] = [*tiling.tiles]
    for number, (tile, pending) in enumerate(zip(tiles, tiling.pending, strict=True)):
        last = number + 1 == len(tiles)
        yield Slot(stage=index, number=number, tile=tile, last=last, pending=pending)


def _just_in_time(index: int, producer: Tiling, reader: Tiling) -> Iterator[Slot]:
    """Yield two stages' tiles, each tile of the first just before the tiles that read it.

    It runs one tile of the reader earlier than necessary, so that its POST overlaps with that tile.
    """
    waiting, made = deque(_stage_slots(producer, index)), 0
    tiles: list[list[Slot]] = [[]]
    for slot in _stage_slots(reader, index + 1):
        tiles[-1].append(slot)
        if not slot.pending:
            tiles.append([])
    ends = [
        max((reader.input_ranges[slot.number].end for slot in tile), default=0) for tile in tiles
    ]
    for tile, *needs in zip(tiles, ends, ends[1:], strict=False):
        while waiting and made < max(needs):
            slot = waiting.popleft()
            made = producer.finished[slot.number]
            yield slot
        yield from tile
    yield from waiting


def _interleave(
    index: int, slots: Iterable[Slot], producer: Tiling, reader: Tiling, distance: int
) -> Iterator[Slot]:
    """Yield slots; after each, also the tiles of the next stage whose inputs are complete.

    Inputs count as complete `distance` tiles later. No tile is inserted between the parts of a
    reduction, since it would overwrite the accumulators of the earlier parts. If inputs are read
    from external memory, no more tiles follow a slot than are needed to keep up: otherwise the
    array would wait while POST processes all tiles whose inputs were completed together.
    """
    tiles: list[Tile] = [*reader.tiles]
    waiting = deque(enumerate(zip(tiles, reader.input_ranges, strict=True)))
    finished = deque([0] * (distance + 1), maxlen=distance + 1)
    finished_tiles = 0
    at_once = -(-len(tiles) // producer.pending.count(False)) if distance else len(tiles)
    more = distance + len(tiles) // at_once
    for slot in itertools.chain(slots, itertools.repeat(None, more)):
        if slot is not None:
            yield slot
            if slot.stage != index:
                continue
            finished_tiles = max(finished_tiles, producer.finished[slot.number])
            if slot.pending:
                continue
        finished.append(finished_tiles)
        for _ in range(at_once):
            if not waiting or waiting[0][1][1].end > finished[0]:
                break
            number, (tile, _range) = waiting.popleft()
            yield Slot(stage=index + 1, number=number, tile=tile, last=not waiting)


def order_tiles(
    segment: Segment,
    tilings: list[Tiling],
    spilled: frozenset[str],
    *,
    interleaved: bool = True,
) -> Sequence:
    """Return all tiles in program order; stage by stage if not `interleaved`.

    An interleaved stage stays a few tiles behind if it must read results back from external memory.
    """
    slots: list[Slot] = []
    spans: list[tuple[int, int]] = []
    produced = {stage.output: 0 for stage in segment.stages}
    writers = {stage.output: index for index, stage in enumerate(segment.stages)}
    handed: set[str] = set()
    in_turns: set[int] = set()
    first = 0
    while first < len(segment.stages):
        follow = Followers()
        if interleaved:
            follow = followers(segment, first, tilings, spilled, produced)
        handed |= follow.handed_tensors
        in_turns |= follow.in_turns
        ahead = interleaved and segment.stages[first].output not in spilled
        if ahead and waits_for_reader(segment, first, tilings):
            group = _group_ahead_of_reader(segment, first, tilings)
        else:
            group = _interleaved_slots(segment, first, tilings, tuple(follow.distances))
        spans += [(len(slots) + begin, len(slots) + end) for begin, end in group.spans]
        slots += group.slots
        for name, finished_bytes in group.finished.items():
            produced[name] = max(produced[name], finished_bytes)
            if writers[name] < first + len(group.spans):
                # Its last bytes may be padding, as in panels, which nobody writes.
                produced[name] = max(produced[name], segment.sizes[name])
        first += len(group.spans)
    return Sequence(slots, spans, produced, frozenset(handed), frozenset(in_turns))


def _interleaved_slots(
    segment: Segment, first: int, tilings: list[Tiling], distances: tuple[int, ...]
) -> Sequence:
    """Return the tiles of stage `first`, interleaved with those of the stages after it.

    `distances` has, for each of these, the number of tiles by which it stays behind the stage
    before it. The result is cached in the tiling of the first stage, because the plans of a search
    share most of their tilings.
    """
    end = first + 1 + len(distances)
    known = tilings[first].groups
    key = (first, distances, *tilings[first + 1 : end])
    if key not in known:
        group_slots: Iterable[Slot] = _stage_slots(tilings[first], first)
        for index, distance in enumerate(distances, first):
            producer, reader = tilings[index : index + 2]
            group_slots = _interleave(index, group_slots, producer, reader, distance)
            if (index + 1 - first) % _MAX_NESTED == 0:
                group_slots = list(group_slots)
        while len(known) >= _MAX_CACHED_ORDERS:
            del known[next(iter(known))]
        known[key] = _with_spans(segment, first, tilings[first:end], list(group_slots))
    found = known[key]
    assert isinstance(found, Sequence)
    return found


def _group_ahead_of_reader(segment: Segment, first: int, tilings: list[Tiling]) -> Sequence:
    """Return the tiles of a stage and its reader, each just before the tiles that read it."""
    group = tilings[first : first + 2]
    return _with_spans(segment, first, group, list(_just_in_time(first, *group)))


def _with_spans(segment: Segment, first: int, tilings: list[Tiling], slots: list[Slot]) -> Sequence:
    """Return the sequence of these slots, and the first and last slot of each stage."""
    begins, ends = [-1] * len(tilings), [-1] * len(tilings)
    finished = {segment.stages[first + index].output: 0 for index in range(len(tilings))}
    for number, slot in enumerate(slots):
        output, index = segment.stages[slot.stage].output, slot.stage - first
        if begins[index] < 0:
            begins[index] = number
        ends[index] = number
        finished[output] = max(finished[output], tilings[index].finished[slot.number])
    return Sequence(slots=slots, spans=list(zip(begins, ends, strict=True)), finished=finished)
