"""The dense layout: contiguous positions, row by row, image by image."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from matloom.arch.isa import Opcode, largest
from matloom.select.layout.base import Fields, OutputLayout, Outputs, Transfer, Write

#: Maximum number of bytes of a row of a LOAD or STORE.
LONGEST_ROW = min(largest(opcode, "row_bytes") for opcode in (Opcode.LOAD, Opcode.STORE))


@dataclass(frozen=True, kw_only=True)
class DenseInput:
    """A dense tensor as EXEC reads it: images of rows of bytes."""

    rows: int
    row_bytes: int

    plane_bytes: ClassVar[int] = 0
    source: ClassVar[str | None] = None
    text: ClassVar[str] = ""

    def loads(self, transfer: Transfer) -> Iterator[Fields]:
        """Yield the fields of LOADs that copy bytes, split if a run is too long."""
        several = transfer.runs > 1
        for done in range(0, transfer.size, LONGEST_ROW):
            yield {
                "dram_offset": transfer.start + done,
                "spad_addr": transfer.address + done,
                "row_bytes": min(LONGEST_ROW, transfer.size - done),
                "rows": transfer.runs,
                "planes": 1,
                "dram_row_step": transfer.step if several else 0,
                "spad_row_step": transfer.pitch if several else 0,
            }


@dataclass(frozen=True, kw_only=True)
class Dense(OutputLayout):
    """Layout of outputs as a dense tensor, or as a dense tensor for each byte limb of sums."""

    limbs: int = 1

    contiguous: ClassVar[bool] = True

    @property
    def strides(self) -> tuple[int, int]:
        """Distance in bytes between positions, and between rows."""
        return self.grid.position_bytes, self.grid.row_bytes

    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the byte at which a block of channels of a position begins."""
        grid = self.grid
        position = (image * grid.rows + row) * grid.width + x
        return position * grid.position_bytes + block * grid.block_bytes

    def writes(self, tile: Outputs) -> Iterator[Write]:
        """Yield what each POST of a tile writes: one write for each byte limb."""
        (whole,) = super().writes(tile)
        if self.limbs == 1:
            yield whole
            return
        for limb in range(self.limbs):
            yield whole._replace(first_byte=whole.first_byte + limb * self.size, limb=limb)


def staged_writes(layout: OutputLayout, tile: Outputs) -> Iterator[Write]:
    """Yield the writes of a tile to a buffer of its own: dense positions, limb after limb."""
    size = layout.grid.bytes_in(tile)
    row_step = size * (tile.end_x - tile.first_x)
    for limb in range(layout.limbs):
        yield Write(limb * size * tile.positions, size, row_step, size, limb=limb)
