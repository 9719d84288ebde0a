"""Cuts ranges into pieces: even ones, or ever smaller ones towards an end."""

import itertools


def split_evenly(first: int, end: int, size: int) -> list[tuple[int, int]]:
    """Split the range from `first` to `end` into the fewest pieces of at most `size`.

    The pieces are as equal as possible.
    """
    count = -(-(end - first) // size)
    edges = [first + (end - first) * index // count for index in range(count + 1)]
    return list(itertools.pairwise(edges))


def ramp_down(pieces: list[tuple[int, int]], shortest: int) -> list[tuple[int, int]]:
    """Halve the last piece, then its second half, as long as both halves have length `shortest`."""
    *pieces, (first, end) = pieces
    while (end - first) // 2 >= shortest:
        middle = first + (end - first + 1) // 2
        pieces.append((first, middle))
        first = middle
    return [*pieces, (first, end)]


def ramp_up(pieces: list[tuple[int, int]], shortest: int) -> list[tuple[int, int]]:
    """Halve the first piece, then its first half, as long as both halves have length `shortest`."""
    mirrored = ramp_down([(-end, -first) for first, end in reversed(pieces)], shortest)
    return [(-end, -first) for first, end in reversed(mirrored)]
