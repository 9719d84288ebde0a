"""Prologue of a matrix product: computes a growing square of outputs while both operands arrive.

The bus brings a fixed number of bytes per cycle, but the work that they allow grows as the product
of both operands. So the reduction is loaded panel by panel, and the first panel starts with a few
rows and output blocks, then doubles one or the other. Rows are in groups whose accumulators
alternate between the halves, so that POST of a group overlaps with the arithmetic of the next.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

#: Groups of rows, two in each half of the accumulators.
GROUPS = 4

_Range = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class PrologueSums:
    """Accumulators of a prologue tile (start of a product): their half, and the first entry."""

    half: int
    entry: int


@dataclass(frozen=True, kw_only=True)
class Rectangle:
    """Rows and channel blocks (half open) to which one EXEC adds products of a panel.

    A panel is a part of the reduction.
    """

    rows: _Range
    blocks: _Range
    prologue_sums: PrologueSums


def panels(steps: int, thinnest: int) -> list[_Range]:
    """Split a reduction into panels: ranges of `thinnest` steps or more, each loaded at once.

    Panels grow as the arithmetic of earlier ones hides their transfer.
    """
    edges = [0]
    while edges[-1] < steps:
        end = edges[-1] + max(thinnest, edges[-1] // 2)
        edges.append(end if end + thinnest <= steps else steps)
    return list(itertools.pairwise(edges))


def rectangles(group: int, blocks: int, *, first: bool) -> Iterator[Rectangle]:
    """Yield rectangles of outputs to which products of a panel (part of the reduction) are added.

    Parameters
    ----------
    group:
        Number of rows of a group; there are `GROUPS` groups.
    blocks:
        Number of output blocks of each row.
    first:
        Whether this is the first panel, whose rectangles grow; other panels go group by group.
    """
    for groups, wide in _growth(blocks) if first else [((0, GROUPS), (0, blocks))]:
        for number in range(*groups):
            yield Rectangle(
                rows=(number * group, (number + 1) * group),
                blocks=wide,
                prologue_sums=PrologueSums(
                    half=number % 2, entry=(number // 2 * blocks + wide[0]) * group
                ),
            )


def _growth(blocks: int) -> Iterator[tuple[_Range, _Range]]:
    """Yield rectangles: ranges (half open) of row groups and of channel blocks, that cover all.

    Each rectangle doubles either the covered groups or the covered blocks.
    """
    groups, wide = 1, min(2, blocks)
    yield (0, groups), (0, wide)
    while groups < GROUPS or wide < blocks:
        if groups < min(wide, GROUPS) or wide == blocks:
            yield (groups, 2 * groups), (0, wide)
            groups *= 2
        else:
            more = min(2 * wide, blocks)
            yield (0, groups), (wide, more)
            wide = more
