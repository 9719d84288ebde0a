"""Shapes of EXEC's sliding windows: how many kernel rows and taps one step covers."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from matloom.arch.config import Config


@dataclass(frozen=True, kw_only=True)
class WindowShape:
    """Shape of a sliding window: the kernel rows (lines) and the taps that it covers in one step.

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
        """The array's row on which each tap is multiplied: (lines, taps)."""
        return np.add.outer(self.last_rows, np.arange(1 - self.taps, 1))


def window_shapes(config: Config) -> tuple[WindowShape, ...]:
    """Return the window shapes that a configuration supports, 3 x 3 taps first.

    There are none if the engine has no sliding windows. Every line of a shape has as many taps as
    its shortest one; longer lines use their last taps.
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
