"""The space-to-depth (2x2) layout, and the polyphase stride-2 window over it (decision 0002)."""

from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.config import WINDOW_TAPS
from matloom.arch.isa import Destination, Source
from matloom.select.context import constant

__all__ = ["Blocks", "PolyphaseWindow"]


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """The space-to-depth layout of a tensor (height, width, channels).

    A plane holds `columns` channels in rows of blocks. A block has the bytes of four positions,
    (x, y) = (0, 0), (0, 1), (1, 0), (1, 1). The rest of a block at an odd side, and of the last
    plane, is never written.

    Members
    -------
    above, left:
        Rows and positions of halo before the tensor's, 0 or 1.
    pad_value:
        What padding reads as, signed.
    """

    height: int
    width: int
    columns: int
    above: int
    left: int
    pad_value: int

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return 4 * self.columns

    @property
    def rows(self) -> int:
        """Rows of blocks of a plane."""
        return -(-(self.above + self.height) // 2)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of blocks."""
        return -(-(self.left + self.width) // 2) * self.block_bytes

    @property
    def plane_bytes(self) -> int:
        """Bytes of a plane."""
        return self.rows * self.row_bytes

    @property
    def x_step(self) -> int:
        """Bytes from position to position of a row."""
        return 2 * self.columns

    def first_byte(self, row: int, x: int, plane: int) -> int:
        """Return where the channels of a plane begin in a position of the tensor."""
        row_of_blocks, lower = divmod(self.above + row, 2)
        return (
            plane * self.plane_bytes
            + row_of_blocks * self.row_bytes
            + (self.left + x) * self.x_step
            + lower * self.columns
        )

    def border(self, planes: int) -> Iterator[dict[str, int]]:
        """Yield the fields of POSTs that write the halo, in rows of one plane each.

        They begin at the first byte, and touch no position of the tensor.
        """
        fields = {
            "source": Source.SPAD,
            "destination": Destination.SPAD,
            "source_pitch": self.plane_bytes,
            "dest_pitch": self.plane_bytes,
            "height": planes,
            "tail": self.columns,
            **constant(self.pad_value),
        }
        if self.above:
            width = self.left + self.width
            yield {**fields, "width": width, "x_step": self.x_step, "oc_blocks": 1}
        if self.left:
            # Both positions of a block are contiguous.
            yield {**fields, "width": self.rows, "x_step": self.row_bytes, "oc_blocks": 2}


@dataclass(frozen=True, kw_only=True)
class PolyphaseWindow:
    """How EXEC slides a 3x3 window over blocks, two positions a step, from the first position on.

    Rows and bytes are those of a plane; each output block is an EXEC of its own, in its plane.
    """

    blocks: Blocks

    #: As tiles ask of every loop nest: an output row reads its own row of blocks and the next.
    weights_fixed = False
    steps = kernel_row_step = y_step = 1
    kernel_rows = 2

    @property
    def oc_step(self) -> int:
        """Channels of an output block."""
        return self.blocks.columns

    def vectors(self, height: int, width: int) -> int:
        """Return how many blocks a step streams for `height` rows of `width` outputs."""
        return (height + 1) * max(width + 1, WINDOW_TAPS)

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> dict[str, int]:
        """Return fields of EXEC for outputs (half open), whatever the output block."""
        height, width = rows[1] - rows[0], columns[1] - columns[0]
        line = max(width + 1, WINDOW_TAPS)
        return {
            "window": 1,
            "paired": 1,
            "first_row": rows[0],
            "first_byte": columns[0] * self.blocks.block_bytes,
            "pad_value": self.blocks.pad_value,
            "width": line,
            "height": height + 1,
            "x_step": self.blocks.block_bytes,
            "y_step": 1,
            "kernel_rows": 1,
            "kernel_row_step": 0,
            "kernel_cols": 1,
            "kernel_col_step": 0,
            "blocks": 1,
            "oc_step": 0,
            "line": line,
            "first_output": line + 1,
            "out_width": width,
            "out_height": height,
        }
