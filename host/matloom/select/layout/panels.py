"""Panels: a matrix in the order of weight tiles, one output block after another."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from matloom.select.layout.base import Fields, Transfer

__all__ = ["Panels"]


@dataclass(frozen=True, kw_only=True)
class Panels:
    """Matrices (inner, columns) in panels of `width` columns, as EXEC reads them as weights.

    A panel has `depth` rows of `width` bytes, at least `inner`. Rows and columns beyond the matrix
    are never written; they do not matter, because rows meet zeros and POST drops columns.

    Members
    -------
    images:
        Number of matrices.
    inner, columns:
        Rows of a matrix, and columns of all its panels.
    source:
        The tensor in external memory that LOADs convert; None if stages write the panels.
    row_bytes, first_column:
        Columns of a matrix of the source, and the first of those in these panels.
    """

    images: int
    inner: int
    columns: int
    depth: int
    width: int
    source: str | None = None
    row_bytes: int = 0
    first_column: int = 0

    text: ClassVar[str] = "panels of weights"

    @property
    def blocks(self) -> int:
        """Panels of a matrix."""
        return -(-self.columns // self.width)

    @property
    def block_bytes(self) -> int:
        """Bytes of a panel."""
        return self.depth * self.width

    @property
    def image_bytes(self) -> int:
        """Bytes of all panels of a matrix."""
        return self.blocks * self.block_bytes

    @property
    def size(self) -> int:
        """Bytes of all panels."""
        return self.images * self.image_bytes

    def loads(self, transfer: Transfer) -> Iterator[Fields]:
        """Yield the fields of LOADs that bring whole panels, full ones together."""
        number, end = (
            -(-at // self.block_bytes) for at in (transfer.start, transfer.start + transfer.size)
        )
        full, tail = divmod(self.columns, self.width)
        while number < end:
            image, first = divmod(number, self.blocks)
            count = min(end - number, full - first) if first < full else 1
            yield {
                "dram_offset": image * self.inner * self.row_bytes
                + self.first_column
                + first * self.width,
                "spad_addr": transfer.address + number * self.block_bytes - transfer.start,
                "row_bytes": self.width if first < full else tail,
                "rows": self.inner,
                "planes": count,
                "dram_row_step": self.row_bytes if self.inner > 1 else 0,
                "spad_row_step": self.width if self.inner > 1 else 0,
                "dram_plane_step": self.width if count > 1 else 0,
                "spad_plane_step": self.block_bytes if count > 1 else 0,
            }
            number += count
