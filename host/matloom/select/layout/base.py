"""Interface of layouts: where outputs go, what POST writes, what EXEC and LOAD read."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

__all__ = [
    "Fields",
    "Grid",
    "InputLayout",
    "OnChipLayout",
    "OutputLayout",
    "Outputs",
    "Transfer",
    "Write",
]

#: Fields of an instruction, by name.
Fields = dict[str, int]


class Outputs(Protocol):
    """The outputs of a tile; ends are half open."""

    @property
    def image(self) -> int:
        """The image that they are in."""

    @property
    def first_row(self) -> int:
        """Their first row."""

    @property
    def end_row(self) -> int:
        """The row after their last."""

    @property
    def first_x(self) -> int:
        """Their first position of a row."""

    @property
    def end_x(self) -> int:
        """The position after their last."""

    @property
    def first_block(self) -> int:
        """Start of their range of channel blocks."""

    @property
    def end_block(self) -> int:
        """End of their range of channel blocks."""

    @property
    def positions(self) -> int:
        """Number of positions in all rows."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The outputs of an array stage: images of rows of positions, each of blocks of channels.

    Members
    -------
    images, rows, width:
        Images, rows of an image, positions of a row.
    position_bytes:
        Bytes of a position; of each limb where sums are stored in limbs.
    block_bytes:
        Bytes of each output block of a position but the last. Where they are fewer than the
        array's columns, each block needs instructions of its own. In a narrow mode a block is a
        pair of the array's.
    """

    images: int
    rows: int
    width: int
    position_bytes: int
    block_bytes: int

    @property
    def blocks(self) -> int:
        """Output blocks of a position."""
        return -(-self.position_bytes // self.block_bytes)

    @property
    def tail(self) -> int:
        """Bytes of the last block."""
        return self.position_bytes - (self.blocks - 1) * self.block_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.width * self.position_bytes

    @property
    def size(self) -> int:
        """Bytes of all positions."""
        return self.images * self.rows * self.row_bytes

    def bytes_in(self, tile: Outputs) -> int:
        """Return the bytes of a position that a tile makes."""
        last = self.tail if tile.end_block == self.blocks else self.block_bytes
        return (tile.end_block - tile.first_block - 1) * self.block_bytes + last


class Write(NamedTuple):
    """Part of a tile that one POST writes: `size` bytes of each position.

    Members
    -------
    first_byte:
        Where the first position goes, in bytes from the tensor's first, or from the tile's.
    x_step, row_step:
        Bytes from position to position, and from row to row.
    size:
        Bytes of a position, from its first on, in blocks from `block` on.
    block:
        Number of the first output block, from the tile's first.
    limb:
        The limb of each sum, counted from the lowest.
    """

    first_byte: int
    x_step: int
    row_step: int
    size: int
    block: int = 0
    limb: int = 0


class Transfer(NamedTuple):
    """Bytes to bring on chip: `runs` runs of `size` from byte `start` of the tensor on.

    Members
    -------
    step:
        Bytes of the tensor from run to run.
    address, pitch:
        Where the first run goes in the scratchpad, and bytes from run to run there.
    """

    start: int
    size: int
    runs: int
    step: int
    address: int
    pitch: int


class InputLayout(Protocol):
    """On-chip layout of the tensor that a stage streams through the array."""

    @property
    def rows(self) -> int:
        """Rows of an image, or of a plane."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""

    @property
    def plane_bytes(self) -> int:
        """Bytes from the plane of one output block to that of the next; 0 if all share one."""

    @property
    def source(self) -> str | None:
        """The tensor in external memory that LOADs make it of; None if they only copy."""

    @property
    def text(self) -> str:
        """Name of the layout, for people; empty for a dense tensor."""

    def loads(self, transfer: Transfer) -> Iterator[Fields]:
        """Yield the fields of LOADs that bring bytes; `dram_offset` counts from the source's."""


@dataclass(frozen=True, kw_only=True)
class OutputLayout(ABC):
    """On-chip layout of a stage's outputs."""

    grid: Grid

    #: Rows from one row of a tile to the next.
    row_stride: ClassVar[int] = 1

    #: Whether positions follow each other without gaps, in order.
    contiguous: ClassVar[bool] = False

    #: Whether other stages write to the same tensor.
    shared: ClassVar[bool] = False

    @property
    def text(self) -> str:
        """Name of the layout, for people; empty for a dense tensor."""
        return ""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of the tensor, of each limb."""

    @property
    def end(self) -> int:
        """Byte of the tensor after the last of these outputs."""
        return self.size

    @property
    def limbs(self) -> int:
        """Byte limbs of each sum that are stored; each limb is a tensor, and they are contiguous.

        Not 1 for a dense tensor alone.
        """
        return 1

    @property
    @abstractmethod
    def strides(self) -> tuple[int, int]:
        """Bytes from position to position of a row, and from one row of a tile to the next."""

    @abstractmethod
    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the byte of the tensor at which an output block of a position begins."""

    def writes(self, tile: Outputs) -> Iterator[Write]:
        """Yield what POSTs write of a tile, in order."""
        first = self.byte(tile.image, tile.first_row, tile.first_x, tile.first_block)
        yield Write(first, *self.strides, self.grid.bytes_in(tile))

    def borders(self) -> Iterable[Fields]:
        """Return the fields of POSTs that write the padding around the outputs.

        They come before the first tile. Addresses count from the tensor's first byte.
        """
        return ()

    def copies(self, tile: Outputs) -> Iterable[Fields]:
        """Return the fields of POSTs that copy, of rows just written, what is needed twice.

        Addresses count from the tensor's first byte.
        """
        return ()

    def finished(self, tile: Outputs) -> int:
        """Return the leading bytes that are complete with a row of tiles, of which it is the last.

        Tiles come in the order of images and rows.
        """
        return (tile.image * self.grid.rows + tile.end_row) * self.grid.row_bytes

    def tiled_rows(self, rows: int) -> int:
        """Return the rows that tiles share of a region of so many rows."""
        return rows


@dataclass(frozen=True, kw_only=True)
class OnChipLayout(OutputLayout):
    """A layout in which outputs are written and read, and which never leaves the chip."""

    source: ClassVar[str | None] = None

    @property
    def plane_bytes(self) -> int:
        """Bytes from the plane of one output block to that of the next; 0 if all share one."""
        return 0

    def loads(self, transfer: Transfer) -> Iterator[Fields]:
        """Refuse."""
        raise NotImplementedError(f"{self.text} are never loaded, but {transfer} was asked for")
