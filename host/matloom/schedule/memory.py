"""Homes in the scratchpad for buffers that live over intervals of time."""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass

from matloom.arch.config import Config

__all__ = ["Space"]

#: Buffers that live longer than this many ticks are looked up apart from the short-lived.
_LONG = 32

#: How much worse it is to share a bank with an input, read in each cycle, than for weights, read
#: one tile after another, to share it with weights.
_INPUT_CONFLICT = 16


@dataclass(frozen=True)
class _Placed:
    start: int
    end: int
    first: int
    last: int
    reads: tuple[int, int]
    high: bool


class Space:
    """An address range in which buffers are placed for inclusive intervals of ticks.

    With `spread`, buffers that are read at the same time prefer different banks, because a bank
    serves one read and one write a cycle; without, they are packed closely. `seed` draws homes
    at random among those that are free.
    """

    def __init__(self, capacity: int, config: Config, *, spread: bool, seed: int | None = None):
        self.capacity = capacity
        self._bank_bytes = config.bank_bytes
        self._align = config.bus_bytes
        self.spread = spread
        self._random = None if seed is None else random.Random(seed)
        self._long: list[_Placed] = []
        self._by_tick: dict[int, list[_Placed]] = defaultdict(list)
        self.peak = 0

    def _alive(self, first: int, last: int) -> list[_Placed]:
        found = {p for tick in range(first, last + 1) for p in self._by_tick.get(tick, ())}
        found.update(p for p in self._long if p.first <= last and first <= p.last)
        return sorted(found, key=lambda placed: placed.start)

    def _banks(self, start: int, end: int) -> range:
        return range(start // self._bank_bytes, (end - 1) // self._bank_bytes + 1)

    def _gaps(self, alive: list[_Placed]) -> list[tuple[int, int]]:
        gaps, position = [], 0
        for placed in alive:
            if placed.start > position:
                gaps.append((position, placed.start))
            position = max(position, placed.end)
        gaps.append((position, self.capacity))
        return gaps

    def _candidates(self, size: int, gaps: list[tuple[int, int]]) -> list[int]:
        candidates: set[int] = set()
        for low, high in gaps:
            low += -low % self._align
            top = (high - size) // self._align * self._align
            if low > top:
                continue
            candidates.update((low, top))
            if self.spread:
                for bank in self._banks(low, high):
                    if low <= bank * self._bank_bytes <= top:
                        candidates.add(bank * self._bank_bytes)
                    if low <= (bank + 1) * self._bank_bytes - size <= top:
                        start = (bank + 1) * self._bank_bytes - size
                        candidates.add(start // self._align * self._align)
        return sorted(address for address in candidates if address >= 0)

    def place(
        self,
        size: int,
        first: int,
        last: int,
        *,
        high: bool,
        reads: tuple[int, int] | None = None,
    ) -> int | None:
        """Reserve `size` bytes for ticks first..last; return the address, None where full.

        `high`, of weights, prefers high addresses, else low ones. `reads` are the first and the
        last tick at which the buffer is read; None means that it is while it lives.
        """
        reads = reads or (first, last)
        alive = self._alive(first, last)
        candidates = self._candidates(size, self._gaps(alive))
        if not candidates:
            return None
        if self._random is not None:
            start = self._random.choice(candidates)
        elif self.spread:
            busy: Counter[int] = Counter()
            for other in alive:
                # A tile is post-processed during the next.
                if other.reads[0] <= reads[1] + 1 and reads[0] <= other.reads[1] + 1:
                    conflict = 1 if high and other.high else _INPUT_CONFLICT
                    for bank in self._banks(other.start, other.end):
                        busy[bank] += conflict
            start = min(
                candidates,
                key=lambda at: (
                    sum(busy[bank] for bank in self._banks(at, at + size)),
                    len(self._banks(at, at + size)),
                    -at if high else at,
                ),
            )
        else:
            start = candidates[-1] if high else candidates[0]
        self.reserve(start, size, first, last, high=high, reads=reads)
        return start

    def reserve(
        self, start: int, size: int, first: int, last: int, *, high: bool, reads: tuple[int, int]
    ) -> None:
        """Take `size` bytes from `start` on for ticks first..last; they must be free."""
        placed = _Placed(start, start + size, first, last, reads, high)
        if last - first >= _LONG:
            self._long.append(placed)
        else:
            for tick in range(first, last + 1):
                self._by_tick[tick].append(placed)
        self.peak = max(self.peak, placed.end)
