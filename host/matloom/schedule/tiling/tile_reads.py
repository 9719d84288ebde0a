"""Parts of tensors that a tile reads and, if its results are staged, stores."""

from typing import NamedTuple

from matloom.select.layout.base import Write


class InputRange(NamedTuple):
    """Part of a tensor that a tile reads: `rows` rows of `width` bytes, `pitch` bytes apart."""

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
    """Part of a reduction for a prologue tile: its first step, and the end of the tile's rows."""

    first_step: int
    end_row: int


class StagedResult(NamedTuple):
    """Results in a buffer of their own, from which they are stored in external memory.

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
