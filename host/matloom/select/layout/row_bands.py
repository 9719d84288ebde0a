"""Layout of a narrow tensor as two bands of rows, side by side (decision 0018).

Depthwise layers of few channels process both bands at once if their input has this layout.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.isa import Destination, Source
from matloom.select.context import bias_post, constant_post
from matloom.select.layout.base import Fields, OnChipLayout, Outputs, Write
from matloom.select.loop_nest import LoopNest
from matloom.select.sliding import SlidingWindow


@dataclass(frozen=True, kw_only=True)
class RowBands(OnChipLayout):
    """A tensor (height, width, channels) whose upper and lower halves lie side by side.

    A stored position holds the channels of a position in the lower half, then those of the
    corresponding position in the upper half. Stored row 0 holds the row above each half, and the
    last stored row the row below. Rows above and below the image hold `pad_value`.

    A position of the grid is one position of the tensor, or two neighbours that share the
    producer's columns. The grid has an even number of rows.

    Members
    -------
    channels:
        Number of channels of the tensor.
    pad_value:
        Signed value of padding.
    """

    channels: int
    pad_value: int

    @property
    def packed(self) -> int:
        """Number of positions of the tensor in each position of the grid, 1 or 2."""
        return self.grid.position_bytes // self.channels

    @property
    def width(self) -> int:
        """Number of positions of a row of the tensor."""
        return self.grid.width * self.packed

    @property
    def half(self) -> int:
        """Number of rows in a band, without the halo rows above and below it."""
        return self.grid.rows // 2

    @property
    def position_bytes(self) -> int:
        """Distance in bytes between positions.

        A position has the bytes of both bands, and spare ones that `writes` overwrites.
        """
        return (1 + self.packed) * self.channels

    @property
    def row_bytes(self) -> int:
        """Size in bytes of a stored row."""
        return self.width * self.position_bytes

    @property
    def rows(self) -> int:
        """Number of stored rows, including halo rows."""
        return self.half + 2

    @property
    def size(self) -> int:
        """Size in bytes of all stored rows."""
        return self.rows * self.row_bytes

    @property
    def strides(self) -> tuple[int, int]:
        """Distance in bytes between positions of the grid, and between rows of a band."""
        return self.packed * self.position_bytes, self.row_bytes

    @property
    def text(self) -> str:
        """Name of the layout, for people."""
        return "two bands of rows"

    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the first byte of a grid position in its band."""
        assert image == block == 0
        x_step, row_step = self.strides
        if row < self.half:
            return (row + 1) * row_step + x * x_step + self.channels
        return (row + 1 - self.half) * row_step + x * x_step

    def writes(self, tile: Outputs) -> Iterator[Write]:
        """Yield a write for each of the packed positions.

        A POST always starts at column 0, so the POST of a second position also writes the first
        one's channels before it. In the upper band these overwrite the lower band, which is written
        later; in the lower band they overwrite unused bytes.
        """
        first = self.byte(tile.image, tile.first_row, tile.first_x, tile.first_block)
        for position in reversed(range(self.packed)):
            before = position * self.channels
            place = first + position * self.position_bytes - before
            yield Write(place, *self.strides, before + self.channels)

    def borders(self) -> Iterator[Fields]:
        """Yield the fields of POSTs that write padding above and below the image.

        They do not overwrite any position of the tensor.
        """
        for byte in (self.channels, (self.rows - 1) * self.row_bytes):
            yield self._copy(byte, byte) | constant_post(self.pad_value)

    def copies(self, tile: Outputs) -> Iterator[Fields]:
        """Yield the fields of POSTs that copy rows at the edge between both bands.

        The other band needs these rows as its halo. The copies run immediately, before EXEC reads
        the rows, because EXEC would delay POST's reads.
        """
        if tile.end_x < self.grid.width:
            return
        last, below = self.half - 1, (self.rows - 1) * self.row_bytes + self.channels
        for row, target in ((last, 0), (self.half, below)):
            if tile.first_row <= row < tile.end_row:
                yield self._copy(self.byte(0, row, 0, 0), target)

    def _copy(self, source: int, target: int) -> Fields:
        """Return the fields of a POST that copies the row of a band at `source` to `target`.

        Both are byte addresses relative to the start of the tensor.
        """
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
            **bias_post(),
        }

    def tiled_rows(self, rows: int) -> int:
        """Return the number of rows of both bands, though each region has only one."""
        return self.grid.rows


@dataclass(frozen=True, kw_only=True)
class SeparateBands(RowBands):
    """Two bands without halo rows, for a reader that needs no rows above or below its own."""

    @property
    def rows(self) -> int:
        """Number of stored rows."""
        return self.half

    @property
    def text(self) -> str:
        """Name of the layout, for people."""
        return "two bands of single rows"

    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the first byte of a grid position in its band."""
        return super().byte(image, row, x, block) - self.row_bytes

    def borders(self) -> Iterator[Fields]:
        """Return no fields, because there are no halo rows around the bands."""
        return iter(())

    def copies(self, tile: Outputs) -> Iterator[Fields]:
        """Return no fields, because no row is stored twice."""
        del tile
        return iter(())


@dataclass(frozen=True, kw_only=True)
class JoinedBands(RowBands):
    """Two bands that a stage makes at once: a grid position has the channels of both bands."""

    @property
    def packed(self) -> int:
        """Number of positions of a band in each position of the grid."""
        return 1

    @property
    def half(self) -> int:
        """Number of rows in a band, without the halo rows above and below it."""
        return self.grid.rows

    @property
    def text(self) -> str:
        """Name of the layout, for people."""
        return "two bands of rows, made at once"

    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the first byte of a grid position."""
        assert image == block == 0
        return (row + 1) * self.row_bytes + x * self.position_bytes

    def writes(self, tile: Outputs) -> Iterator[Write]:
        """Yield the only write of a tile, which has both bands."""
        first = self.byte(tile.image, tile.first_row, tile.first_x, tile.first_block)
        yield Write(first, *self.strides, self.position_bytes)

    def copies(self, tile: Outputs) -> Iterator[Fields]:
        """Yield the fields of POSTs that copy the rows just written that both bands need."""
        if tile.end_x < self.grid.width:
            return
        if tile.first_row == 0:
            yield self._copy(self.row_bytes, (self.rows - 1) * self.row_bytes + self.channels)
        if tile.end_row == self.half:
            yield self._copy(self.half * self.row_bytes + self.channels, 0)


class BandedWindow(SlidingWindow):
    """Sliding window over two bands at once; the rows above and below each band are stored."""


@dataclass(frozen=True, kw_only=True)
class BandedLoopNest(LoopNest):
    """Loop nest that reads one of two bands of rows, which lie side by side as channels.

    The lower band's channels come first. No tile has rows of both bands. `half` and `channels` are
    the rows and the channels of a band.
    """

    half: int
    channels: int

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> Fields:
        """Return EXEC's fields for `rows` and `columns` of outputs (half open), from `block` on."""
        upper = rows[0] < self.half
        above = 0 if upper else self.half
        fields = super().fields((rows[0] - above, rows[1] - above), columns, block)
        return {**fields, "first_byte": fields["first_byte"] + (self.channels if upper else 0)}
