"""Duration of a transfer's bursts: one after another, with a limited number on their way."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Channel", "Rows", "stream_cycles"]

#: Bursts that are followed one by one; those after them take as long.
_FOLLOWED = 160

#: Cycles between addresses.
_LEAST = 2


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One direction of the bus and of the memory, in cycles.

    Members
    -------
    bus_bytes, burst_beats:
        Bytes of a beat; beats of the longest burst, at whose multiples rows are cut.
    outstanding:
        Bursts that may be on their way.
    beat_cycles:
        From a beat to the next.
    turn:
        From a burst's last beat to the first beat of the burst that takes its place among the
        outstanding, at least.
    row_bytes, row_miss_cycles:
        Of the memory.
    """

    bus_bytes: int
    burst_beats: int
    outstanding: int
    beat_cycles: float
    turn: int
    row_bytes: int = 0
    row_miss_cycles: int = 0

    @property
    def burst_bytes(self) -> int:
        """Bytes of the longest burst."""
        return self.bus_bytes * self.burst_beats

    @property
    def hides_latency(self) -> bool:
        """Whether long bursts come without a pause: those on their way last until one comes."""
        long = self.burst_beats * self.beat_cycles
        return not self.row_miss_cycles and (self.outstanding - 1) * long >= self.turn


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of `size` bytes, `step` apart from byte `start` on, that come `spread` times as wide."""

    start: int
    size: int
    count: int
    step: int
    spread: int = 1


def _bursts(rows: Rows, channel: Channel) -> Iterator[tuple[int, int, float]]:
    """Yield address, bytes and cycles of each burst, without what rows of the memory take."""
    bus = channel.bus_bytes
    window = channel.burst_bytes
    for row in range(rows.count):
        address = rows.start + row * rows.step
        end = address + rows.size
        while address < end:
            stop = min(end, (address // window + 1) * window)
            beats = -(-stop // bus) - address // bus
            # A spread beat is written from its first byte on, whichever of its bytes are the row's.
            spread = stop - address // bus * bus
            written = -(-spread * rows.spread // bus) if rows.spread > 1 else 0
            yield address, stop - address, max(beats * channel.beat_cycles, written)
            address = stop


@lru_cache(maxsize=1 << 14)
def stream_cycles(rows: Rows, channel: Channel) -> tuple[float, float]:
    """Return the cycles from the first beat of rows to their last, and after others like them.

    Nothing else is on its way when the first ones come; the others find the outstanding taken.
    """
    ends: list[float] = []
    fresh, done = _follow(rows, channel, ends)
    later, _done = _follow(rows, channel, ends)
    while len(ends) < 2 * channel.outstanding:
        later, _done = _follow(rows, channel, ends)
    share = rows.size * rows.count / done
    return fresh + later * (share - 1), later * share


def _follow(rows: Rows, channel: Channel, ends: list[float]) -> tuple[float, int]:
    """Continue a list of ends of bursts; return the cycles that it grew by, and the bytes."""
    begin = time = ends[-1] if ends else 0.0
    done, memory_row, beat = 0, -1, channel.beat_cycles
    for address, size, cycles in itertools.islice(_bursts(rows, channel), _FOLLOWED):
        opens = 0
        if channel.row_miss_cycles:
            first, last = (at // channel.row_bytes for at in (address, address + size - 1))
            cycles += (last - first) * channel.row_miss_cycles
            # A row is opened after the beat before, if there is one, while an address is not.
            opens = channel.row_miss_cycles * (first != memory_row) * bool(ends)
            memory_row = last
        time += max(opens + cycles, _LEAST)
        if len(ends) >= channel.outstanding:
            # The first beat comes no sooner than its address allows, those after it in turn.
            time = max(time, ends[-channel.outstanding] + channel.turn + 1 - beat + cycles)
        ends.append(time)
        done += size
    return time - begin, done
