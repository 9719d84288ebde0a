"""Interface of layouts: where outputs lie on chip, what POST writes, what EXEC and LOAD read."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

#: Fields of an instruction, by name.
Fields = dict[str, int]


class Outputs(Protocol):
    """Ranges of rows, positions and channel blocks that a tile computes; ends are exclusive."""

    @property
    def image(self) -> int:
        """Index of the image in the batch."""

    @property
    def first_row(self) -> int:
        """First output row."""

    @property
    def end_row(self) -> int:
        """Output row after the last one."""

    @property
    def first_x(self) -> int:
        """First position in each row."""

    @property
    def end_x(self) -> int:
        """Position after the last one in each row."""

    @property
    def first_block(self) -> int:
        """First block of channels."""

    @property
    def end_block(self) -> int:
        """Block of channels after the last one."""

    @property
    def positions(self) -> int:
        """Number of positions in all rows."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Outputs of an array stage: images of rows of positions, each made of channel blocks.

    Members
    -------
    images, rows, width:
        Images, rows of an image, positions of a row.
    position_bytes:
        Size in bytes of a position, per limb if sums are stored in limbs.
    block_bytes:
        Size in bytes of every output block of a position except the last. If there are fewer than
        the array's columns, each block needs separate instructions. In a narrow mode, a block is a
        pair of blocks of the array's columns.
    """

    images: int
    rows: int
    width: int
    position_bytes: int
    block_bytes: int

    @property
    def blocks(self) -> int:
        """Number of output blocks (groups of channels) of a position."""
        return -(-self.position_bytes // self.block_bytes)

    @property
    def tail(self) -> int:
        """Size in bytes of the last block of channels of a position, which may be short."""
        return self.position_bytes - (self.blocks - 1) * self.block_bytes

    @property
    def row_bytes(self) -> int:
        """Size in bytes of a row."""
        return self.width * self.position_bytes

    @property
    def size(self) -> int:
        """Number of bytes of all positions."""
        return self.images * self.rows * self.row_bytes

    def bytes_in(self, tile: Outputs) -> int:
        """Return the number of bytes per position that a tile writes."""
        last = self.tail if tile.end_block == self.blocks else self.block_bytes
        return (tile.end_block - tile.first_block - 1) * self.block_bytes + last


class Write(NamedTuple):
    """Bytes of each output position that one POST of a tile writes.

    Members
    -------
    first_byte:
        Offset of the first position, from the start of the tensor or of the tile.
    x_step, row_step:
        Distance in bytes between positions, and between rows.
    size:
        Number of bytes of each position, from the start of block `block`.
    block:
        First output block, counted from the tile's first.
    limb:
        Index of the limb of each sum to write; 0 is the lowest.
    """

    first_byte: int
    x_step: int
    row_step: int
    size: int
    block: int = 0
    limb: int = 0


class Transfer(NamedTuple):
    """Bytes to load: `runs` runs of `size` bytes, from byte `start` of the tensor.

    Members
    -------
    step:
        Distance in bytes between runs in the tensor.
    address, pitch:
        Scratchpad address of the first run, and bytes between runs there.
    """

    start: int
    size: int
    runs: int
    step: int
    address: int
    pitch: int


class InputLayout(Protocol):
    """Layout on chip of the tensor that a stage streams through the array."""

    @property
    def rows(self) -> int:
        """Number of rows of an image, or of a plane."""

    @property
    def row_bytes(self) -> int:
        """Size in bytes of a row."""

    @property
    def plane_bytes(self) -> int:
        """Distance in bytes from one channel block's plane to the next; 0 if they share one."""

    @property
    def source(self) -> str | None:
        """Name of the tensor in external memory that LOADs convert to this layout.

        None if LOADs copy the tensor itself.
        """

    @property
    def text(self) -> str:
        """Name of the layout in messages; empty for a dense tensor."""

    def loads(self, transfer: Transfer) -> Iterator[Fields]:
        """Yield the fields of LOADs for a transfer.

        `dram_offset` counts from the source's first byte.
        """


@dataclass(frozen=True, kw_only=True)
class OutputLayout(ABC):
    """Layout on chip of a stage's outputs."""

    grid: Grid

    #: Rows from one row of a tile to the next.
    row_stride: ClassVar[int] = 1

    #: Whether positions follow each other without gaps, in order.
    contiguous: ClassVar[bool] = False

    #: Whether other stages write to the same tensor.
    shared: ClassVar[bool] = False

    @property
    def text(self) -> str:
        """Name of the layout in messages; empty for a dense tensor."""
        return ""

    @property
    def size(self) -> int:
        """Size in bytes of the tensor, per limb, including halo and unused bytes of the layout."""
        return self.grid.size

    @property
    def end(self) -> int:
        """Byte of the tensor just after these outputs, which may be only a part of it."""
        return self.size

    @property
    def limbs(self) -> int:
        """Number of byte limbs stored of each sum; each limb is a tensor, and they are contiguous.

        Only a dense tensor can have more than 1.
        """
        return 1

    @property
    @abstractmethod
    def strides(self) -> tuple[int, int]:
        """Distance in bytes between positions of a row, and between rows of a tile."""

    @abstractmethod
    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the byte of the tensor at which a channel block of a position begins.

        The position is `x` in a row of an image.
        """

    def writes(self, tile: Outputs) -> Iterator[Write]:
        """Yield the writes of a tile's POSTs, in order."""
        first = self.byte(tile.image, tile.first_row, tile.first_x, tile.first_block)
        yield Write(first, *self.strides, self.grid.bytes_in(tile))

    def borders(self) -> Iterable[Fields]:
        """Return the fields of POST instructions that write the padding around the outputs.

        They precede the first tile. Addresses are relative to the start of the tensor.
        """
        return ()

    def copies(self, tile: Outputs) -> Iterable[Fields]:
        """Return the fields of POST instructions that copy rows just written to a second place.

        Addresses are relative to the start of the tensor.
        """
        return ()

    def complete_bytes(self, tile: Outputs) -> int:
        """Return the number of leading bytes of the tensor that are complete after a tile.

        The tile must be the last one of its rows. Tiles come in the order of images and rows.
        """
        return (tile.image * self.grid.rows + tile.end_row) * self.grid.row_bytes

    def tiled_rows(self, rows: int) -> int:
        """Return the number of rows from which the number of tiles is derived.

        `rows` is the number of rows of one region of the outputs.
        """
        return rows


@dataclass(frozen=True, kw_only=True)
class OnChipLayout(OutputLayout):
    """Base of layouts in which a stage writes a tensor and another reads it, all on chip."""

    source: ClassVar[str | None] = None

    @property
    def plane_bytes(self) -> int:
        """Distance in bytes from one channel block's plane to the next; 0 if they share one."""
        return 0

    def loads(self, transfer: Transfer) -> Iterator[Fields]:
        """Raise NotImplementedError, because such a tensor is never loaded."""
        raise NotImplementedError(f"{self.text} are never loaded, but {transfer} was asked for")
