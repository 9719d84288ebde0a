"""Parts of tensors that a tile reads and, if its results are staged, stores."""

from typing import NamedTuple

from matloom.select.layout.base import Write

__all__ = ["InputRange", "Panel", "Staged"]


class InputRange(NamedTuple):
    """The part of a tensor that a tile reads: rows of `width` bytes, `pitch` bytes apart."""

    start: int
    rows: int
    width: int
    pitch: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.rows * self.width

    @property
    def end(self) -> int:
        """Byte of the tensor after the last."""
        return self.start + (self.rows - 1) * self.pitch + self.width


class Panel(NamedTuple):
    """Position of a prologue tile: the first step of its panel, and the row after its last."""

    first_step: int
    end_row: int


class Staged(NamedTuple):
    """Results of a tile that are staged: kept in a buffer of their own until they are stored.

    Members
    -------
    home:
        Where they go in their tensor.
    offset:
        Where they begin, from the first byte of the tile.
    height, width:
        Rows, and positions of a row, which follow each other.
    """

    home: Write
    offset: int
    height: int
    width: int
