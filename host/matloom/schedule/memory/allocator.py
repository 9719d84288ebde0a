"""Allocates scratchpad addresses to buffers that are live over intervals of schedule slots."""

import itertools
import random
from bisect import bisect_left

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.memory.live_ranges import LiveRanges, PlacedBuffer, SlotWindow

#: Maximum number of possible first slots for which the earliest is tried before a search.
_SHORT = 32

#: Maximum number of buffers of a `SlotWindow`, which is searched one by one.
_FEW_BUFFERS = 400


def _split_gaps(
    gaps: list[tuple[int, int]], placed: PlacedBuffer, size: int, align: int
) -> list[tuple[int, int]]:
    """Return the gaps that remain after placing a buffer, without those that are too small.

    The remaining gaps have room for `size` bytes from an address that is a multiple of `align`.
    """
    start, end = placed.start, placed.end
    # Gaps are sorted, and a placement touches few of them.
    first = bisect_left(gaps, (start,))
    if first and gaps[first - 1][1] > start:
        first -= 1
    last = bisect_left(gaps, (end,), first)
    if first == last:
        return gaps
    left = gaps[:first]
    for low, high in gaps[first:last]:
        if low + -low % align + size <= start:
            left.append((low, start))
        if end + -end % align + size <= high:
            left.append((end, high))
    return left + gaps[last:]


class Allocator:
    """Range of addresses for buffers, each for an interval of slots (places in the order of tiles).

    With `avoid_conflicts`, buffers that are read at the same time prefer different banks, because a
    bank serves one read and one write per cycle; without it, buffers are packed tightly. With a
    `seed`, addresses are drawn at random from candidates that are free. `peak` is the end of the
    highest buffer placed so far.
    """

    def __init__(
        self, capacity: int, config: Config, *, avoid_conflicts: bool, seed: int | None = None
    ):
        self.capacity = capacity
        self._bank_bytes = config.bank_bytes
        self._align = config.bus_bytes
        self.avoid_conflicts = avoid_conflicts
        self._random = None if seed is None else random.Random(seed)
        self._live = LiveRanges()
        self._window: SlotWindow | None = None
        self.peak = 0

    @property
    def is_random(self) -> bool:
        """Whether addresses are drawn at random."""
        return self._random is not None

    def alive(self, first: int, last: int) -> list[PlacedBuffer]:
        """Return the buffers in use at any slot from `first` to `last`, in order of address.

        A slot is a place in the order of tiles.
        """
        window = self._window
        if window is not None and window.first <= first and last <= window.last:
            return window.alive(first, last)
        return sorted(self._live.overlapping(first, last))

    def focus(self, first: int, last: int) -> list[PlacedBuffer]:
        """Like `alive`, but cache the result, for placements in these slots until `unfocus`."""
        placed = self.alive(first, last)
        self._window = (
            SlotWindow(first, last, list(placed)) if len(placed) <= _FEW_BUFFERS else None
        )
        return placed

    def unfocus(self) -> None:
        """Drop the buffers cached by `focus`."""
        self._window = None

    def _banks_of(self, start: int, end: int) -> range:
        """Return the banks of the scratchpad that bytes `start` to `end` (exclusive) lie in."""
        return range(start // self._bank_bytes, (end - 1) // self._bank_bytes + 1)

    def _gaps(self, size: int, alive: list[PlacedBuffer], align: int) -> list[tuple[int, int]]:
        """Return the gaps, in order, that have room for `size` bytes from an aligned address."""
        gaps, position = [], 0
        for placed in alive:
            start, end = placed.start, placed.end
            if start > position and position + -position % align + size <= start:
                gaps.append((position, start))
            if end > position:
                position = end
        if position + -position % align + size <= self.capacity:
            gaps.append((position, self.capacity))
        return gaps

    def _fits(self, size: int, alive: list[PlacedBuffer], align: int) -> bool:
        """Return whether there is room between live buffers, which are sorted by address."""
        position = 0
        for placed in alive:
            gap = placed.start - position
            if gap >= size > 0 and position + -position % align + size <= placed.start:
                return True
            if placed.end > position:
                position = placed.end
        return position + -position % align + size <= self.capacity

    def _candidates(self, size: int, gaps: list[tuple[int, int]], align: int) -> list[int]:
        """Return candidate addresses in the gaps, in order: ends of gaps, and starts of banks.

        Addresses are multiples of `align`.
        """
        found: list[int] = []
        for low, high in gaps:
            low += -low % align
            top = (high - size) // align * align
            if self.avoid_conflicts and low // self._bank_bytes != (high - 1) // self._bank_bytes:
                found += self._at_banks(size, low, top, high, align)
            elif low == top:
                found.append(low)
            else:
                found += (low, top)
        return found

    def _at_banks(self, size: int, low: int, top: int, high: int, align: int) -> list[int]:
        """Return candidate addresses in a gap that spans several banks: ends of it and of banks.

        Addresses are multiples of `align` from `low` to `top`; `high` is the end of the gap.
        """
        candidates = {low, top}
        for bank in self._banks_of(low, high):
            first, last = bank * self._bank_bytes, (bank + 1) * self._bank_bytes - size
            if low <= first <= top:
                candidates.add(first)
            if low <= last <= top:
                candidates.add(last // align * align)
        return sorted(candidates)

    def place(
        self,
        size: int,
        first: int,
        last: int,
        *,
        high: bool,
        reads: tuple[int, int] | None = None,
        boundary: int = 1,
    ) -> int | None:
        """Reserve bytes for slots `first` to `last`; return their address, or None without room.

        `high` (used for weights) prefers high addresses over low ones. `reads` are the first and
        last slot at which the buffer is read; None means its whole life. The address is a multiple
        of `boundary`, a power of two.
        """
        slots, reads = range(first, first + 1), reads or (first, last)
        found = self.place_earliest(size, slots, last, high=high, reads=reads, boundary=boundary)
        return None if found is None else found.start

    def place_earliest(
        self,
        size: int,
        first_slots: range,
        last: int,
        *,
        high: bool,
        reads: tuple[int, int],
        rest: int = 0,
        boundary: int = 1,
    ) -> PlacedBuffer | None:
        """Place a buffer from the earliest slot in `first_slots` at which there is room.

        `rest` prefers bytes that were free for that many slots before, and reserves them for these
        slots, too. Returns None if there is room from no slot.
        """
        first, align = first_slots.start, max(self._align, boundary)
        quiet = max(0, first - rest)
        free, around = self._earliest(size, range(quiet, first_slots.stop), last, align)
        if free is None:
            return None
        begin = quiet if free <= quiet else max(first, free)
        alive = [placed for placed in around if placed.last >= begin]
        gaps = self._gaps(size, alive, align)
        start = self._choose_address(size, gaps, alive, align, high=high, reads=reads)
        placed = PlacedBuffer(start, start + size, begin, last, reads, high)
        self.reserve_placed(placed)
        return placed

    def _earliest(
        self, size: int, slots: range, last: int, align: int
    ) -> tuple[int | None, list[PlacedBuffer]]:
        """Return the first slot (place in the order of tiles) from which a buffer fits, or None.

        `size` and `align` are the buffer's, and `last` is its last slot. Also returns, in order of
        address, at least the buffers that are live from that slot. Going back to earlier slots only
        adds buffers, so the search starts at the last slot and steps back over the ends of earlier
        buffers. Its cost depends on the answer, not on the number of slots.
        """
        first, use = slots.start, slots.stop - 1
        if len(slots) <= _SHORT:
            alive = self.alive(first, last)
            if self._fits(size, alive, align):
                return first, alive
        alive, free = self.alive(use, last), first
        gaps = self._gaps(size, alive, align)
        if not gaps:
            return None, alive
        for placed in self._live.ending_within(first, use):
            gaps = _split_gaps(gaps, placed, size, align)
            if not gaps:
                free = placed.last + 1
                break
            alive.append(placed)
        alive.sort()
        return free, alive

    def _choose_address(
        self,
        size: int,
        gaps: list[tuple[int, int]],
        alive: list[PlacedBuffer],
        align: int,
        *,
        high: bool,
        reads: tuple[int, int],
    ) -> int:
        """Return an address, a multiple of `align`, in one of the gaps, each of which has room.

        `alive` are the buffers live at the same time; `high` and `reads` are as for `place`.
        """
        if self._random is not None:
            return self._random.choice(self._candidates(size, gaps, align))
        if self.avoid_conflicts:
            candidates = self._candidates(size, gaps, align)
            return self._quietest(size, candidates, alive, high=high, reads=reads)
        if high:
            return (gaps[-1][1] - size) // align * align
        return gaps[0][0] + -gaps[0][0] % align

    def _quietest(
        self,
        size: int,
        candidates: list[int],
        alive: list[PlacedBuffer],
        *,
        high: bool,
        reads: tuple[int, int],
    ) -> int:
        """Return the candidate address whose banks other buffers read least at the same time.

        `alive` are the other buffers; `high` and `reads` are as for `place`.
        """
        busy = [0] * (self.capacity // self._bank_bytes + 2)
        for other in alive:
            # A tile is post-processed during the next.
            slots = min(other.reads[1], reads[1]) - max(other.reads[0], reads[0]) + 2
            if slots > 0:
                conflict = 1 if high and other.high else tuning.INPUT_CONFLICT
                if high > other.high:
                    # In each of these slots, parameters among the weights wait for EXEC.
                    conflict *= slots
                for bank in self._banks_of(other.start, other.end):
                    busy[bank] += conflict
        below = [0, *itertools.accumulate(busy)]

        def cost(at: int) -> tuple[int, int, int]:
            """Return the conflicts in an address's banks, the number of banks, and its rank."""
            first, end = at // self._bank_bytes, (at + size - 1) // self._bank_bytes + 1
            return below[end] - below[first], end - first, -at if high else at

        return min(candidates, key=cost)

    def reserve(
        self, start: int, size: int, first: int, last: int, *, high: bool, reads: tuple[int, int]
    ) -> None:
        """Reserve `size` free bytes from address `start` on, for slots `first` to `last`.

        A slot is a place in the order of tiles. `high` says that the buffer prefers high addresses,
        and `reads` has the first and last slot that reads it; both affect where later buffers are
        placed.
        """
        self.reserve_placed(PlacedBuffer(start, start + size, first, last, reads, high))

    def reserve_placed(self, placed: PlacedBuffer) -> None:
        """Reserve the bytes of a placed buffer, which must be free."""
        self._live.add(placed)
        if self._window is not None:
            self._window.add(placed)
            if len(self._window.placed) > _FEW_BUFFERS:
                self._window = None
        self.peak = max(self.peak, placed.end)
