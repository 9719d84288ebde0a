"""The layout of a narrow tensor as two bands of rows, next to each other (decision 0018)."""

from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.isa import Destination, Source
from matloom.select.context import constant, unchanged

__all__ = ["MOST_PACKED", "Bands"]

#: Neighbouring positions that a maker's columns may hold. To write one of them alone, POST writes
#: those before it to where nothing is yet: of more than one there is no such place for all.
MOST_PACKED = 2


@dataclass(frozen=True, kw_only=True)
class Bands:
    """A tensor (height, width, channels) whose upper and lower half lie side by side.

    A stored position holds the channels of a position of the lower half of the rows, then those
    of the position as far down in the upper half. Between two stored rows nothing is shared: row
    0 holds the row above each half, and the last one the row below. What lies above and below the
    image is `pad_value`.

    Members
    -------
    height, width, channels:
        Of the tensor; the height is even.
    packed:
        Neighbouring positions that the maker's columns hold, 1 or 2.
    pad_value:
        What padding reads as, signed.
    """

    height: int
    width: int
    channels: int
    packed: int
    pad_value: int

    @property
    def half(self) -> int:
        """Rows of a band, those of other bands not counted."""
        return self.height // 2

    @property
    def position_bytes(self) -> int:
        """Bytes from position to position: of both bands, and those that `writes` spoils."""
        return (1 + self.packed) * self.channels

    @property
    def row_bytes(self) -> int:
        """Bytes of a stored row."""
        return self.width * self.position_bytes

    @property
    def rows(self) -> int:
        """Stored rows."""
        return self.half + 2

    @property
    def size(self) -> int:
        """Bytes."""
        return self.rows * self.row_bytes

    def first_byte(self, row: int) -> int:
        """Return where the first position of a row lies in its band."""
        if row < self.half:
            return (row + 1) * self.row_bytes + self.channels
        return (row + 1 - self.half) * self.row_bytes

    def writes(self) -> Iterator[tuple[int, int]]:
        """Yield for each POST of packed positions, in order: its channels, its first byte.

        The byte counts from where the first position lies. A POST of accumulators begins with
        column 0, so that of a second position writes the first one's channels before it: in the
        upper band over the lower one's, which come later, in the lower band over bytes that hold
        nothing.
        """
        for position in reversed(range(self.packed)):
            before = position * self.channels
            yield before + self.channels, position * self.position_bytes - before

    def border(self) -> Iterator[dict[str, int]]:
        """Yield the fields of POSTs that write what lies above and below the image.

        They begin at the first byte, and touch no position of the tensor.
        """
        for byte in (self.channels, (self.rows - 1) * self.row_bytes):
            yield self._copy(byte, byte) | constant(self.pad_value)

    def copies(self, first: int, end: int) -> Iterator[dict[str, int]]:
        """Yield the fields of POSTs that copy, of rows just written, what the other band needs.

        At once, while EXEC does not read them: its reads would come before those of POST.
        """
        last, below = self.half - 1, (self.rows - 1) * self.row_bytes + self.channels
        for row, target in ((last, 0), (self.half, below)):
            if first <= row < end:
                yield self._copy(self.first_byte(row), target)

    def _copy(self, source: int, target: int) -> dict[str, int]:
        """Return the fields of a POST that copies a row of one band, addresses from the first."""
        return {
            "source": Source.SPAD,
            "destination": Destination.SPAD,
            "width": self.width,
            "height": 1,
            "oc_blocks": 1,
            "tail": self.channels,
            "x_step": self.position_bytes,
            "source_addr": source,
            "dest_addr": target,
            **unchanged(),
        }
