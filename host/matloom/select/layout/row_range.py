"""Layout of outputs as some rows of a dense tensor, whose other rows other stages write."""

from dataclasses import dataclass
from typing import ClassVar

from matloom.select.layout.base import OutputLayout, Outputs


@dataclass(frozen=True, kw_only=True)
class RowRange(OutputLayout):
    """Outputs as rows of a larger dense tensor of one image, from `first_row` on."""

    first_row: int

    contiguous: ClassVar[bool] = True
    shared: ClassVar[bool] = True

    @property
    def end(self) -> int:
        """Byte of the tensor just after these outputs."""
        return (self.first_row + self.grid.rows) * self.grid.row_bytes

    @property
    def strides(self) -> tuple[int, int]:
        """Distance in bytes between positions, and between rows."""
        return self.grid.position_bytes, self.grid.row_bytes

    @property
    def text(self) -> str:
        """Short description of the layout: the first of its rows."""
        return f"rows of a larger tensor from row {self.first_row} on"

    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the byte of the tensor at which a block of channels of a position begins."""
        assert image == 0
        position = (self.first_row + row) * self.grid.width + x
        return position * self.grid.position_bytes + block * self.grid.block_bytes

    def complete_bytes(self, tile: Outputs) -> int:
        """Return the number of leading bytes that are complete after a tile.

        Stages write their rows in order.
        """
        return (self.first_row + tile.end_row) * self.grid.row_bytes
