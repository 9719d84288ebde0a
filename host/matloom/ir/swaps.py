"""Permutations of axes as swaps of two neighbouring groups, which the engine does at once."""

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Bytes that an array of usual width moves in a cycle.
_VECTOR_BYTES = 16
#: Cycles in which single bytes change places, per byte: in two steps, on such an array.
_SINGLE_BYTE_CYCLES = 0.5
#: Cycles that each swap takes beside its data.
_START_CYCLES = 100
#: Maximum number of axes of which all orders are tried.
_MOST_AXES = 6

#: An order of axes, each with its number in the source.
Order = tuple[int, ...]


@dataclass(frozen=True, order=True)
class Swap:
    """A swap of the middle two of four axes, by the lengths of all four, in elements."""

    before: int
    high: int
    low: int
    inner: int

    def cycles(self, element_bytes: int) -> float:
        """Return about how long it takes."""
        size, run = self.before * self.high * self.low * self.inner, self.inner * element_bytes
        if run == 1:
            return _START_CYCLES + size * _SINGLE_BYTE_CYCLES
        return _START_CYCLES + size // self.inner * -(-run // _VECTOR_BYTES)


def merge_neighbours(order: Sequence[int], lengths: Sequence[int]) -> tuple[Order, tuple[int, ...]]:
    """Return a permutation without axes of one element, and with axes joined that stay neighbours.

    Parameters
    ----------
    order:
        The axes of the source in the order of the result.
    lengths:
        Of the axes, in the order of the source.

    Returns
    -------
    tuple
        The same for the joined axes.
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
    """Return the swaps from the source to an order of merged axes that take the least time.

    None if there are too many axes to try. The search is that of Dijkstra (1959).
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
        for swap, then in _next(now, lengths):
            if then not in known:
                heapq.heappush(waiting, (cycles + swap.cycles(element_bytes), then, [*swaps, swap]))


def _next(order: Order, lengths: Sequence[int]) -> Iterator[tuple[Swap, Order]]:
    """Yield the swaps of two neighbouring groups of axes, and the order after each."""
    for start, middle, end in itertools.combinations(range(len(order) + 1), 3):
        parts = order[:start], order[start:middle], order[middle:end], order[end:]
        sizes = [math.prod(lengths[axis] for axis in part) for part in parts]
        before, high, low, inner = parts
        yield Swap(*sizes), (*before, *low, *high, *inner)
