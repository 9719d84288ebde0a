"""Levels of a search, from the most exact to the fastest, each measured like the result."""

from collections.abc import Iterator
from dataclasses import dataclass

from matloom.quantiser.measure import Closeness
from matloom.quantiser.search import EXACT, LEVEL_POINTS, Goal, Search, choose_point
from matloom.quantiser.trials import MixedPoint


@dataclass(frozen=True, kw_only=True)
class Level:
    """The network of one level (such as "O2", an allowed loss), measured like the result.

    Members
    -------
    points:
        Expected loss of accuracy that the level allows, in percentage points.
    layers:
        Names of the layers with 4-bit weights.
    cycles:
        Predicted cycles of a call.
    outputs:
        Comparison of each output with the float network's.
    """

    name: str
    points: float
    layers: tuple[str, ...]
    cycles: int
    outputs: tuple[Closeness, ...]


def mixtures(search: Search) -> Iterator[tuple[str, MixedPoint]]:
    """Yield each level below the requested one, and its mixture of 8-bit and 4-bit layers."""
    for name, points in LEVEL_POINTS.items():
        if search.target.level in (None, name):
            return
        whole = next(point for point in search.points if not point.layers)
        goal = Goal(kind="points", value=points)
        yield name, whole if name == EXACT else choose_point(search.points, goal)
