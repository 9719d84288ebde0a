"""Duration of the bursts of a transfer, of which a limited number may be outstanding."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

#: Maximum number of bursts that are simulated one by one; longer transfers are extrapolated.
_SIMULATED_BURSTS = 160

#: Minimum cycles between the addresses of two bursts.
_ADDRESS_CYCLES = 2


@dataclass(frozen=True, kw_only=True)
class Channel:
    """Read or write timing of a bus and its memory, in cycles.

    Members
    -------
    bus_bytes:
        Size in bytes of a beat.
    burst_beats:
        Number of beats of the longest burst; rows are split at multiples of it.
    outstanding:
        Bursts that may be outstanding.
    beat_cycles:
        Cycles between beats.
    gap_cycles:
        Minimum cycles from a burst's last beat to the first beat of the burst that takes its place
        among the outstanding ones.
    row_bytes, row_miss_cycles:
        As in `Memory`.
    """

    bus_bytes: int
    burst_beats: int
    outstanding: int
    beat_cycles: float
    gap_cycles: int
    row_bytes: int = 0
    row_miss_cycles: int = 0

    @property
    def burst_bytes(self) -> int:
        """Size of the longest burst in bytes."""
        return self.bus_bytes * self.burst_beats

    @property
    def hides_latency(self) -> bool:
        """Whether bursts of maximum length follow each other without pauses.

        That requires that row misses take no time and that enough bursts are outstanding.
        """
        long = self.burst_beats * self.beat_cycles
        return not self.row_miss_cycles and (self.outstanding - 1) * long >= self.gap_cycles


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of a transfer: `count` rows of `size` bytes, `step` bytes apart, the first at `start`.

    In the scratchpad, the bytes of a row are `spread` apart.
    """

    start: int
    size: int
    count: int
    step: int
    spread: int = 1


def _bursts(rows: Rows, channel: Channel) -> Iterator[tuple[int, int, float]]:
    """Yield the address, the size in bytes and the duration in cycles of each burst.

    The duration excludes row misses.
    """
    bus = channel.bus_bytes
    window = channel.burst_bytes
    for row in range(rows.count):
        address = rows.start + row * rows.step
        end = address + rows.size
        while address < end:
            stop = min(end, (address // window + 1) * window)
            beats = -(-stop // bus) - address // bus
            # A spread beat is written from its first byte on, even if the row begins later in it.
            spread = stop - address // bus * bus
            written = -(-spread * rows.spread // bus) if rows.spread > 1 else 0
            yield address, stop - address, max(beats * channel.beat_cycles, written)
            address = stop


@lru_cache(maxsize=1 << 14)
def stream_cycles(rows: Rows, channel: Channel) -> tuple[float, float]:
    """Return the cycles from first to last beat of a transfer, on an idle bus and on a busy one.

    The first value is for an idle bus. The second assumes that as many bursts as permitted, of
    similar transfers, are already outstanding.
    """
    ends: list[float] = []
    fresh, done = _append_ends(rows, channel, ends)
    later, _done = _append_ends(rows, channel, ends)
    while len(ends) < 2 * channel.outstanding:
        later, _done = _append_ends(rows, channel, ends)
    share = rows.size * rows.count / done
    return fresh + later * (share - 1), later * share


def _append_ends(rows: Rows, channel: Channel, ends: list[float]) -> tuple[float, int]:
    """Append the end times of a transfer's bursts to `ends`; return the added cycles and bytes.

    At most `_SIMULATED_BURSTS` bursts are appended, so the bytes may be fewer than those of `rows`.
    """
    begin = time = ends[-1] if ends else 0.0
    done, memory_row, beat = 0, -1, channel.beat_cycles
    for address, size, cycles in itertools.islice(_bursts(rows, channel), _SIMULATED_BURSTS):
        opens = 0
        if channel.row_miss_cycles:
            first, last = (at // channel.row_bytes for at in (address, address + size - 1))
            cycles += (last - first) * channel.row_miss_cycles
            # A row opens only after the previous beat, if any; an address need not wait for it.
            opens = channel.row_miss_cycles * (first != memory_row) * bool(ends)
            memory_row = last
        time += max(opens + cycles, _ADDRESS_CYCLES)
        if len(ends) >= channel.outstanding:
            # The first beat waits for its address; the others follow one after another.
            time = max(time, ends[-channel.outstanding] + channel.gap_cycles + 1 - beat + cycles)
        ends.append(time)
        done += size
    return time - begin, done
