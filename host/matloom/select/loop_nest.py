"""Loops of EXEC over the input of a stage, and the loop nest that processes single taps."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from matloom.arch.isa import Opcode, largest

#: Fields of an instruction, by name.
Fields = dict[str, int]
#: A range of rows, half open.
Rows = tuple[int, int]

#: Maximum number of taps of a kernel row in one EXEC.
MAX_TAPS = largest(Opcode.EXEC, "kernel_cols")


class ExecLoops(Protocol):
    """Loops in which EXEC reads the input of a stage: tap by tap, or as a sliding window."""

    @property
    def steps(self) -> int:
        """Number of reduction steps (uses of a weight tile) for a block of output channels."""

    @property
    def kernel_rows(self) -> int:
        """Number of input rows that an output row reads."""

    @property
    def kernel_row_step(self) -> int:
        """Distance in input rows between two rows of the kernel."""

    @property
    def y_step(self) -> int:
        """Distance in input rows between output rows."""

    @property
    def oc_step(self) -> int:
        """Distance in bytes between the inputs of two output blocks; 0 if all read the same.

        A block is as many output channels as the array has columns.
        """

    @property
    def weights_fixed(self) -> bool:
        """Whether one weight tile serves the whole reduction and all blocks of channels."""

    @property
    def slides(self) -> bool:
        """Whether EXEC slides a window; a tile then streams more rows than it has outputs."""

    @property
    def is_long(self) -> bool:
        """Whether the kernel has a single row, with more taps than one EXEC can count.

        The reduction then always runs in several parts.
        """

    @property
    def sums_per_output(self) -> int:
        """Number of sums that post-processing reduces to one output."""

    def vectors_per_step(self, height: int, width: int) -> int:
        """Return the approximate number of vectors streamed for a weight tile (step).

        A step makes `height` rows of `width` outputs.
        """

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> dict[str, int]:
        """Return the fields of the EXEC that makes `rows` and `columns` of outputs (half open).

        `block` is the first output block.
        """

    def executes(self, fields: Fields, rows: Rows, block_bytes: int) -> Iterator[Fields]:
        """Yield the fields of the EXECs of a tile.

        Parameters
        ----------
        fields:
            Fields of a single EXEC of the whole tile, with addresses.
        rows:
            Rows of outputs, as for `fields`.
        block_bytes:
            Size in bytes of the weights of an output block.
        """


class SingleSums:
    """Base of loops that take one EXEC per tile and leave one sum for each output."""

    sums_per_output: ClassVar[int] = 1

    def executes(self, fields: Fields, rows: Rows, block_bytes: int) -> Iterator[Fields]:
        """Yield the fields of the only EXEC of a tile."""
        del rows, block_bytes
        yield fields


@dataclass(frozen=True, kw_only=True)
class LoopNest(SingleSums):
    """Loop nest in which EXEC reads its input tap by tap: the fields that all tiles share."""

    x_step: int
    y_step: int = 1
    kernel_rows: int = 1
    kernel_row_step: int = 1
    kernel_cols: int = 1
    kernel_col_step: int = 0
    blocks: int = 1
    oc_step: int = 0
    pad_top: int = 0
    pad_left_bytes: int = 0
    pad_value: int = 0
    maximum: bool = False
    weights_fixed: bool = False

    slides: ClassVar[bool] = False

    @property
    def steps(self) -> int:
        """Number of reduction steps (uses of a weight tile) for a block of output channels."""
        return self.kernel_rows * self.kernel_cols * self.blocks

    @property
    def is_long(self) -> bool:
        """Whether the kernel has a single row, with more taps than one EXEC can count."""
        return self.kernel_rows == self.blocks == 1 and self.kernel_cols > MAX_TAPS

    def vectors_per_step(self, height: int, width: int) -> int:
        """Return how many vectors are streamed per weight tile, for outputs of this size.

        The outputs are `height` rows of `width` positions.
        """
        return height * width

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> dict[str, int]:
        """Return the fields of the EXEC that makes `rows` and `columns` of outputs (half open).

        `block` is the first output block. `first_row` counts from the first row of the image.
        """
        return {
            "maximum": int(self.maximum),
            "weights_fixed": int(self.weights_fixed),
            "first_row": rows[0] * self.y_step - self.pad_top,
            "first_byte": columns[0] * self.x_step - self.pad_left_bytes + block * self.oc_step,
            "pad_value": self.pad_value,
            "width": columns[1] - columns[0],
            "height": rows[1] - rows[0],
            "x_step": self.x_step,
            "y_step": self.y_step,
            "kernel_rows": self.kernel_rows,
            "kernel_row_step": self.kernel_row_step,
            "kernel_cols": self.kernel_cols,
            "kernel_col_step": self.kernel_col_step,
            "blocks": self.blocks,
            "oc_step": self.oc_step,
        }


def as_loop_nest(loops: ExecLoops) -> LoopNest | None:
    """Return the loops if they read tap by tap; None if they slide a window."""
    return loops if isinstance(loops, LoopNest) else None
