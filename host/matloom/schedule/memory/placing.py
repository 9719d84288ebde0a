"""Assigns addresses to the buffers of tiles; groups that repeat get the same addresses."""

import itertools
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from matloom.schedule import tuning
from matloom.schedule.memory.allocator import Allocator
from matloom.schedule.memory.live_ranges import PlacedBuffer
from matloom.schedule.plan import Buffer, Load, OutOfScratchpad, Plan
from matloom.schedule.segment import Segment

#: Minimum number of slots of a group placed like an earlier one; divisible by 2, 3 and 4, since
#: tiles often alternate.
_MIN_GROUP_SLOTS = 12

#: Number of slots around a group in which other buffers affect its addresses
#: (`Allocator._quietest`).
_SLOTS_AROUND = 2


#: Everything that decides the address of a buffer, relative to its group: size; first possible
#: slot, first slot of use, last slot; whether it prefers high addresses; free slots before it;
#: boundary; stage; and whether another buffer of its stage failed before. A plain tuple for speed:
#: there is one per tile.
_Requirements = tuple[int, int, int, int, bool, int, int, int, bool]


#: A buffer without an address: its kind, the buffer, and the LOAD that fills it, if any.
_Item = tuple[str, Buffer, Load | None]

#: The placed buffers of a group, with slots relative to its first; None for one without a place.
_Placements = list[PlacedBuffer | None]


def place_tensors(plan: Plan, allocator: Allocator) -> list[OutOfScratchpad]:
    """Assign addresses to tensors, largest first; return a list of at most one failure."""
    distinct = {id(item): item for item in plan.tensor_buffers.values()}
    for buffer in sorted(distinct.values(), key=lambda item: (-item.size, item.first)):
        if not _try_place(buffer, allocator, high=False):
            return [OutOfScratchpad.for_buffer(buffer, buffer.first, "tensor")]
    return []


def place_pinned(
    plan: Plan, transient: Iterable[tuple[str, Buffer]], allocator: Allocator
) -> OutOfScratchpad | None:
    """Give addresses to weights that stay on chip between calls; return the first failure or None.

    `transient` has the buffers of tiles and weights, each with its kind. Other buffers may use the
    bytes of these weights until the first LOAD of the weights.
    """
    for _kind, buffer in transient:
        if buffer.pinned and plan.params.pinned_at is None:
            _keep_to_end(buffer, plan)
            if not _try_place(buffer, allocator, high=True):
                return OutOfScratchpad.for_buffer(buffer, buffer.first, "weights")
    return None


def reserve(plan: Plan, transient: Iterable[tuple[str, Buffer]], allocator: Allocator) -> None:
    """Reserve the addresses of weights that are already on chip.

    `transient` has the buffers of tiles and weights, each with its kind.
    """
    for _kind, buffer in transient:
        if buffer.pinned:
            _keep_to_end(buffer, plan)
            buffer.first = 0
            allocator.reserve(
                buffer.address, buffer.size, 0, buffer.last, high=True, reads=buffer.reads
            )


def _try_place(buffer: Buffer, allocator: Allocator, *, high: bool) -> bool:
    """Give a buffer an address, the highest possible if `high`; return whether there is room."""
    address = allocator.place(
        buffer.size,
        buffer.first,
        buffer.last,
        high=high,
        reads=buffer.reads,
        boundary=buffer.boundary,
    )
    if address is None:
        return False
    buffer.address = address
    return True


def _keep_to_end(buffer: Buffer, plan: Plan) -> None:
    """Keep a buffer live to the end, beyond its last read."""
    buffer.last_read = buffer.reads[1]
    buffer.last = len(plan.slots) - 1


def place_others(
    segment: Segment,
    plan: Plan,
    transient: Iterable[tuple[str, Buffer]],
    allocator: Allocator,
    placements: dict[Hashable, Any],
) -> list[OutOfScratchpad]:
    """Give addresses to buffers of tiles, in the order in which their use begins.

    Returns the first failure of each stage; the remaining buffers of that stage are skipped.

    Parameters
    ----------
    placements:
        Addresses of groups of buffers in the previous plan; updated to those of this plan.
    """
    by_buffer = {id(load.buffer): load for load in plan.loads if load.buffer.address < 0}
    waiting = [
        (kind, buffer, by_buffer.get(id(buffer))) for kind, buffer in transient if not buffer.pinned
    ]
    results_first = plan.params.results_first
    # A tile's results exist from its slot on; its inputs may arrive later.
    waiting.sort(key=lambda item: item[1].first)
    placing = _Placing(segment, allocator, placements)
    begins = list(_group_begins(plan))
    for items in _placement_groups(waiting, results_first=results_first):
        for _number, group in itertools.groupby(
            items, lambda item: bisect_right(begins, item[1].first)
        ):
            placing.place(list(group))
    placements.clear()
    placements.update(placing.known)
    plan.peak = allocator.peak
    return list(placing.failures.values())


def _placement_groups(waiting: list[_Item], *, results_first: bool) -> Iterator[list[_Item]]:
    """Divide buffers into groups, to be placed one group after another.

    There is one group of all buffers; with `results_first`, one of the results of tiles, and one of
    the others.
    """
    if not results_first:
        yield waiting
        return
    yield [item for item in waiting if item[0] == "output tile"]
    yield [item for item in waiting if item[0] != "output tile"]


def _group_begins(plan: Plan) -> Iterator[int]:
    """Yield the slots (places in the order of tiles) where a stage or other rows of it begin."""
    begin, stage, row = 0, -1, -1
    for number, slot in enumerate(plan.slots):
        first = slot.tile.first_row
        if slot.stage != stage or (first != row and number - begin >= _MIN_GROUP_SLOTS):
            yield number
            begin = number
        stage, row = slot.stage, first


class _Placing:
    """Places groups of buffers; a group equal to an earlier one gets the same addresses.

    Members
    -------
    known:
        Addresses of the groups of this plan, by their requirements and the buffers around them.
    failures:
        The first failure of each stage.
    """

    def __init__(
        self, segment: Segment, allocator: Allocator, before: Mapping[Hashable, Any]
    ) -> None:
        self._segment, self._space, self._previous_placements = segment, allocator, before
        self.known: dict[Hashable, Any] = {}
        self.failures: dict[int, OutOfScratchpad] = {}

    def place(self, group: list[_Item]) -> None:
        """Place a group of buffers, except those of stages that have failed already."""
        if self.failures and all(buffer.stage in self.failures for _kind, buffer, _load in group):
            return
        _kind, buffer, _load = group[0]
        base, stage = buffer.first, buffer.stage
        requirements = [self._requirements(item, base, stage) for item in group]
        low = base + min([first for _size, first, *_others in requirements]) - tuning.REST_SLOTS
        high = base + max([last for _size, _first, _use, last, *_others in requirements])
        alive = self._space.focus(low, high)
        key: Hashable = None
        found = None
        if not self._space.is_random:
            around = self._neighbours(alive, base, range(low - _SLOTS_AROUND, high + _SLOTS_AROUND))
            key = (self._space.avoid_conflicts, tuple(requirements), around)
            found = self.known.get(key) or self._previous_placements.get(key)
        if found is None:
            found = self._search_addresses(group, requirements, base)
        else:
            assert isinstance(found, list)
            self._repeat(group, requirements, found, base)
        if key is not None:
            self.known[key] = found

    def _requirements(self, item: _Item, base: int, stage: int) -> _Requirements:
        """Return the requirements of a buffer on its address.

        Slots are counted from `base`, and stages from `stage`, so that equal groups of buffers have
        equal requirements. Input tiles avoid bytes that were just read, since a LOAD there would
        wait for the EXEC. Buffers that only POST uses prefer the bank of the weights to that of the
        input, which EXEC reads in every cycle.
        """
        kind, buffer, load = item
        high = buffer.high
        if not (high or self._space.avoid_conflicts):
            vectors = self._segment.stages[buffer.stage].is_elementwise
            high = kind == "output tile" or vectors
        first = buffer.first
        return (
            buffer.size,
            first - base,
            (first if load is None else load.use) - base,
            buffer.last - base,
            high,
            min(tuning.REST_SLOTS, first) if kind == "input tile" else 0,
            buffer.boundary,
            buffer.stage - stage,
            buffer.stage in self.failures,
        )

    @staticmethod
    def _neighbours(
        alive: list[PlacedBuffer], base: int, slots: range
    ) -> tuple[tuple[int, ...], ...]:
        """Return the buffers in `alive` that some tiles (`slots`) use, as tuples to compare.

        Their slots are counted from slot `base`.
        """
        least, most = slots.start, slots.stop
        seen = []
        for start, end, first, last, (reads, until), above in alive:
            begin, stop = first if first > least else least, last if last < most else most
            reads, until = reads if reads > least else least, until if until < most else most
            seen.append((start, end, begin - base, stop - base, reads - base, until - base, above))
        return tuple(seen)

    def _search_addresses(
        self, group: list[_Item], requirements: list[_Requirements], base: int
    ) -> _Placements:
        """Search for an address of each buffer of a group; return the addresses and live ranges."""
        places: _Placements = []
        for item, want in zip(group, requirements, strict=True):
            if item[1].stage in self.failures:
                places.append(None)
                continue
            size, first, use, last, high, rest, boundary, _stage, _left_out = want
            placed = self._space.place_earliest(
                size,
                range(base + first, base + use + 1),
                base + last,
                high=high,
                reads=(base + use, base + last),
                rest=rest,
                boundary=boundary,
            )
            self._record_placement(item, placed)
            places.append(None if placed is None else _shift(placed, -base))
        return places

    def _repeat(
        self,
        group: list[_Item],
        requirements: list[_Requirements],
        placements: _Placements,
        base: int,
    ) -> None:
        """Place each buffer of a group at the address of its counterpart in an earlier group."""
        self._space.unfocus()
        for item, place in zip(group, placements, strict=True):
            if item[1].stage in self.failures:
                continue
            placed = None if place is None else _shift(place, base)
            if placed is not None:
                self._space.reserve_placed(placed)
            self._record_placement(item, placed)

    def _record_placement(self, item: _Item, placed: PlacedBuffer | None) -> None:
        """Give a buffer its address and first slot, or record the failure of its stage."""
        kind, buffer, load = item
        if placed is None:
            use = buffer.first if load is None else load.use
            self.failures[buffer.stage] = OutOfScratchpad.for_buffer(buffer, use, kind)
            return
        buffer.address, buffer.first = placed.start, max(placed.first, buffer.first)
        if load is not None:
            load.slot = buffer.first


def _shift(placed: PlacedBuffer, slots: int) -> PlacedBuffer:
    """Return a buffer with an address, used a number of slots (tiles in order) later."""
    start, end, first, last, reads, high = placed
    return PlacedBuffer(
        start, end, first + slots, last + slots, (reads[0] + slots, reads[1] + slots), high
    )
