"""Shapes of EXEC's sliding windows: the lines of taps that a step can cover."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from matloom.arch.config import Config


@dataclass(frozen=True, kw_only=True)
class WindowShape:
    """Lines of taps that a window covers in one step.

    Members
    -------
    number:
        Value of the field `window_shape` of EXEC.
    lines, taps:
        Number of kernel rows that a step covers, and number of taps of each.
    last_rows:
        The row of the array with the last tap of each line, the oldest line first.
    """

    number: int
    lines: int
    taps: int
    last_rows: tuple[int, ...]

    @property
    def fields(self) -> dict[str, int]:
        """Fields of EXEC that select the shape; empty for shape 0."""
        return {"window_shape": self.number} if self.number else {}

    @property
    def rows(self) -> np.ndarray:
        """The array's row for each tap: (lines, taps)."""
        return np.add.outer(self.last_rows, np.arange(1 - self.taps, 1))


def window_shapes(config: Config) -> tuple[WindowShape, ...]:
    """Return the shapes that a configuration has, 3 x 3 taps first; none without windows.

    Every line of a shape has as many taps as its shortest one; longer lines use their last taps.
    """
    if not config.has_windows:
        return ()
    return tuple(
        WindowShape(
            number=number,
            lines=len(lines),
            taps=min(lines),
            last_rows=tuple(count - 1 for count in accumulate(lines)),
        )
        for number, lines in enumerate(config.window_shapes)
    )
