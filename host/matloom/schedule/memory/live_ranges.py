"""Live ranges of placed buffers, searchable by interval of slots."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

#: Levels of `LiveRanges` are multiples of this number, so that there are few.
_LEVEL_BITS = 3


class PlacedBuffer(NamedTuple):
    """Buffer with an address, in use from one slot (place in the order of tiles) to another.

    The buffer occupies the bytes from `start` to `end` (exclusive), is in use from slot `first` to
    slot `last` (inclusive), and is read within the slots `reads` (inclusive). `high` is set if it
    prefers a high address.
    """

    start: int
    end: int
    first: int
    last: int
    reads: tuple[int, int]
    high: bool


class LiveRanges:
    """Index of placed buffers that finds those that are live in an interval of slots.

    A slot is a place in the order of tiles, and a live buffer is in use.

    A buffer that is live for at most ``2**level`` slots is listed in the one or two buckets of that
    many slots that it overlaps. The cost of a search therefore depends neither on the length of
    live ranges nor on the number of earlier buffers.
    """

    def __init__(self) -> None:
        self._levels: dict[int, dict[int, list[PlacedBuffer]]] = {}
        self._by_last: dict[int, list[PlacedBuffer]] = defaultdict(list)

    def add(self, placed: PlacedBuffer) -> None:
        """Add a buffer to the index."""
        first, last = placed.first, placed.last
        bits = (last - first).bit_length()
        level = -(-bits // _LEVEL_BITS) * _LEVEL_BITS
        buckets = self._levels.get(level)
        if buckets is None:
            buckets = self._levels[level] = defaultdict(list)
        low, high = first >> level, last >> level
        # In order of address, so that the result of `overlapping` is quick to sort.
        insort(buckets[low], placed)
        if high != low:
            # A live range is no longer than a bucket.
            insort(buckets[high], placed)
        self._by_last[last].append(placed)

    def ending_within(self, first: int, end: int) -> Iterator[PlacedBuffer]:
        """Yield buffers whose last slot (tile in order) is from `first` to `end` (exclusive).

        The latest come first.
        """
        for last in range(end - 1, first - 1, -1):
            yield from self._by_last.get(last, ())

    def overlapping(self, first: int, last: int) -> list[PlacedBuffer]:
        """Return the buffers in use at any slot from `first` to `last`, in no particular order."""
        found: list[PlacedBuffer] = []
        for level, buckets in self._levels.items():
            low, high = first >> level, last >> level
            found += [
                placed
                for placed in buckets.get(low, ())
                if placed.first <= last and first <= placed.last
            ]
            numbers = range(low + 1, high + 1)
            met = numbers if len(numbers) < len(buckets) else buckets.keys() & numbers
            for bucket in met:
                # A buffer that is also live before was found in the previous bucket.
                begin = bucket << level
                found += [
                    placed for placed in buckets.get(bucket, ()) if begin <= placed.first <= last
                ]
        return found


class SlotWindow:
    """Buffers in use within a range of slots (places in the order of tiles), for many queries.

    They are in order of address.
    """

    def __init__(self, first: int, last: int, placed: list[PlacedBuffer]) -> None:
        self.first, self.last, self.placed = first, last, placed

    def add(self, placed: PlacedBuffer) -> None:
        """Add a newly placed buffer if it is live within the window."""
        if placed.first <= self.last and self.first <= placed.last:
            insort(self.placed, placed)

    def alive(self, first: int, last: int) -> list[PlacedBuffer]:
        """Return the buffers in use at any slot from `first` to `last`, in order of address."""
        return [placed for placed in self.placed if placed.first <= last and first <= placed.last]
