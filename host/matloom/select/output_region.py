"""Rectangles of outputs for which POST has the same fields."""

from dataclasses import dataclass

from matloom.select.layout.base import Grid


@dataclass(frozen=True, kw_only=True)
class OutputRegion:
    """A rectangle of output positions (half open) for which POST has the same fields."""

    first_row: int
    end_row: int
    first_x: int
    end_x: int
    post: dict[str, int]

    @classmethod
    def whole(cls, grid: Grid, post: dict[str, int]) -> "OutputRegion":
        """Return the region of all positions of a grid."""
        return cls(first_row=0, end_row=grid.rows, first_x=0, end_x=grid.width, post=post)
