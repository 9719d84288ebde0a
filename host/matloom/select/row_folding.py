"""The layout of a one-channel image whose rows LOADs fold into channels."""

from dataclasses import dataclass

__all__ = ["RowFolding"]


@dataclass(frozen=True, kw_only=True)
class RowFolding:
    """A dense tensor that LOADs make of a one-channel image: its channels are rows of the image.

    Channel c of position x of row t is byte x of row ``first_row + t * row_step + c`` of the tensor
    `source`, and `fill_value` where there is no such row. `channels` is a power of two.
    """

    source: str
    source_rows: int
    source_row_bytes: int
    first_row: int
    row_step: int
    channels: int
    rows: int
    fill_value: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.source_row_bytes * self.channels

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return self.rows * self.row_bytes

    def inside(self, row: int) -> tuple[int, int]:
        """Return the channels (half open) of a row that are rows of the image."""
        first = self.first_row + row * self.row_step
        low = min(max(0, -first), self.channels)
        return low, min(max(low, self.source_rows - first), self.channels)
