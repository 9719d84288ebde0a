"""Permutations of axes as sequences of swaps of two neighbouring groups of axes.

The engine performs such a swap in one stage.
"""

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Number of bytes that an array of usual width moves per cycle.
_VECTOR_BYTES = 16
#: Cycles per byte of a swap that moves single bytes, which takes two steps on such an array.
_SINGLE_BYTE_CYCLES = 0.5
#: Cycles that each swap takes in addition to those for its data.
_START_CYCLES = 100
#: Maximum number of axes for which swaps are searched.
_MOST_AXES = 6

#: Order of axes, each given by its index in the source.
Order = tuple[int, ...]


@dataclass(frozen=True, order=True)
class Swap:
    """Transposition of (before, high, low, inner) to (before, low, high, inner).

    The four axes are given by their lengths, in elements.
    """

    before: int
    high: int
    low: int
    inner: int

    def cycles(self, element_bytes: int) -> float:
        """Return the approximate duration of the swap in cycles."""
        size, run = self.before * self.high * self.low * self.inner, self.inner * element_bytes
        if run == 1:
            return _START_CYCLES + size * _SINGLE_BYTE_CYCLES
        return _START_CYCLES + size // self.inner * -(-run // _VECTOR_BYTES)


def merge_neighbours(order: Sequence[int], lengths: Sequence[int]) -> tuple[Order, tuple[int, ...]]:
    """Simplify a permutation: omit axes of one element, and join axes that remain neighbours.

    Parameters
    ----------
    order:
        The axes of the source in the order of the result.
    lengths:
        Lengths of the axes, in the order of the source.

    Returns
    -------
    tuple
        `order` and `lengths` for the joined axes.
    """
    long = [axis for axis, length in enumerate(lengths) if length > 1]
    runs = list[list[int]]()
    for axis in (long.index(axis) for axis in order if lengths[axis] > 1):
        if runs and axis == runs[-1][-1] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    joined = sorted(runs)
    sizes = tuple(math.prod(lengths[long[axis]] for axis in run) for run in joined)
    return tuple(joined.index(run) for run in runs), sizes


def fastest_swaps(order: Order, lengths: Sequence[int], element_bytes: int) -> list[Swap] | None:
    """Return the sequence of swaps that brings merged axes into an order in the least time.

    Return None if there are more than `_MOST_AXES` axes. The search is that of Dijkstra (1959).
    """
    if len(order) > _MOST_AXES:
        return None
    first = tuple(range(len(order)))
    waiting: list[tuple[float, Order, list[Swap]]] = [(0.0, first, [])]
    known = set[Order]()
    while True:
        cycles, now, swaps = heapq.heappop(waiting)
        if now == order:
            return swaps
        if now in known:
            continue
        known.add(now)
        for swap, then in _next_orders(now, lengths):
            if then not in known:
                heapq.heappush(waiting, (cycles + swap.cycles(element_bytes), then, [*swaps, swap]))


def _next_orders(order: Order, lengths: Sequence[int]) -> Iterator[tuple[Swap, Order]]:
    """Yield each swap of two neighbouring groups of axes, with the order after it."""
    for start, middle, end in itertools.combinations(range(len(order) + 1), 3):
        parts = order[:start], order[start:middle], order[middle:end], order[end:]
        sizes = [math.prod(lengths[axis] for axis in part) for part in parts]
        before, high, low, inner = parts
        yield Swap(*sizes), (*before, *low, *high, *inner)
