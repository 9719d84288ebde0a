"""Parts of tensors that a tile reads and, if its results are staged, stores."""

from typing import NamedTuple

from matloom.select.layout.base import Write


class InputRange(NamedTuple):
    """Part of a tensor that a tile reads: rows of `width` bytes, `pitch` bytes apart."""

    start: int
    rows: int
    width: int
    pitch: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.rows * self.width

    @property
    def end(self) -> int:
        """End of the range, in bytes of the tensor."""
        return self.start + (self.rows - 1) * self.pitch + self.width


class Panel(NamedTuple):
    """Position of a prologue tile: the first step of its panel, and the end of its rows."""

    first_step: int
    end_row: int


class Staged(NamedTuple):
    """Results of staged tiles, which have a buffer of their own until they are stored.

    Members
    -------
    home:
        Place of the results in the tensor.
    offset:
        Offset of the results from the first byte of the buffer.
    height, width:
        Rows, and contiguous positions per row.
    """

    home: Write
    offset: int
    height: int
    width: int
