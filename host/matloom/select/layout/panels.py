"""Panels: matrices in the order of weight tiles, one output block after another."""

from dataclasses import dataclass

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
    first_column:
        The column of the whole matrix with which the panels begin.
    """

    images: int
    inner: int
    columns: int
    depth: int
    width: int
    first_column: int = 0

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
