"""How EXEC walks over bands of rows (decision 0018)."""

from dataclasses import dataclass

from matloom.select.sliding import SlidingWindow
from matloom.select.stage import LoopNest

__all__ = ["BandedLoopNest", "BandedWindow"]


class BandedWindow(SlidingWindow):
    """How a window slides over two bands at once; the rows above and below them are stored."""


@dataclass(frozen=True, kw_only=True)
class BandedLoopNest(LoopNest):
    """How EXEC walks over two bands of rows, side by side: the lower one's channels come first.

    No tile has rows of both. Members are those of a `LoopNest`, and the rows and channels of a
    band.
    """

    half: int
    channels: int

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> dict[str, int]:
        """Return fields of EXEC for outputs (half open) from an output block on."""
        upper = rows[0] < self.half
        above = 0 if upper else self.half
        fields = super().fields((rows[0] - above, rows[1] - above), columns, block)
        return {**fields, "first_byte": fields["first_byte"] + (self.channels if upper else 0)}
