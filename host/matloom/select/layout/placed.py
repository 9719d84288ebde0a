"""Layout of outputs in a tensor that several stages write, such as a concatenation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from matloom.arch.isa import Opcode, largest
from matloom.select.layout.base import Grid, OutputLayout, Outputs
from matloom.select.layout.dense import Dense

#: Maximum steps of POST between positions and between rows.
_LONGEST_X = largest(Opcode.POST, "x_step")
_LONGEST_ROW = largest(Opcode.POST, "dest_pitch")


@dataclass(frozen=True, kw_only=True)
class Placed(OutputLayout):
    """Layout of the outputs of one stage inside a tensor that several stages write.

    Members
    -------
    offset:
        Offset of the first byte in the tensor.
    x_step, row_step, image_step:
        Distance in bytes between positions, between rows, and between images.
    complete:
        Leading bytes of the tensor that are complete after this stage; 0 unless it is the last.
    line:
        For a stage that only copies its input in order: contiguous bytes of a line; lines are
        `row_step` apart. 0 for any other stage.
    swap:
        For a stage that only swaps two axes of its whole input: their lengths, and the bytes of an
        element, in the order of the input. None for any other stage.
    """

    offset: int
    x_step: int
    row_step: int
    image_step: int
    complete: int
    line: int = 0
    swap: tuple[int, int, int] | None = None

    shared: ClassVar[bool] = True

    @property
    def end(self) -> int:
        """Byte of the tensor just after these outputs."""
        grid = self.grid
        return self.byte(grid.images - 1, grid.rows - 1, grid.width - 1, 0) + grid.position_bytes

    @property
    def strides(self) -> tuple[int, int]:
        """Distance in bytes between positions, and between rows."""
        return self.x_step, self.row_step

    @property
    def text(self) -> str:
        """Short description of the layout: the offset of its first byte."""
        return f"part of a larger tensor from byte {self.offset} on"

    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the byte of the tensor at which a block of channels of a position begins."""
        first = self.offset + image * self.image_step
        return first + row * self.row_step + x * self.x_step + block * self.grid.block_bytes

    def complete_bytes(self, tile: Outputs) -> int:
        """Return the number of leading bytes that are complete after a tile.

        Return 0 before the last tile.
        """
        last = tile.image + 1 == self.grid.images and tile.end_row == self.grid.rows
        return self.complete if last else 0

    def for_producer(self, producer: OutputLayout) -> "Placed | None":
        """Return a layout with which the stage that makes the input can write the copy itself.

        Return None if this stage does not copy its input in order, if the producer's layout does
        not consist of whole lines, or if the steps are too large for POST.
        """
        if not self.line or not isinstance(producer, Dense) or producer.limbs > 1:
            return None
        grid = producer.grid
        sizes = (grid.position_bytes, grid.row_bytes, grid.rows * grid.row_bytes)
        if self.line not in (*sizes, producer.size):
            return None
        # Positions within a line stay contiguous; only lines move apart.
        x_step, row_step, image_step = (
            size if size < self.line else size // self.line * self.row_step for size in sizes
        )
        if x_step > _LONGEST_X or row_step > _LONGEST_ROW:
            return None
        return replace(
            self, grid=grid, x_step=x_step, row_step=row_step, image_step=image_step, line=0
        )


def interleaved_layout(
    size: tuple[int, int], channels: int, *, steps: tuple[int, int], first: tuple[int, int]
) -> Callable[..., Placed] | None:
    """Return a function that makes the layout of every n-th row and position of an image.

    Its arguments are `grid` and `complete`, as for `Placed`. Return None if the steps are too large
    for POST.

    Parameters
    ----------
    size, channels:
        Number of rows and of positions of the image, and size in bytes of a position.
    steps, first:
        Distance between written rows and between positions, and the first row and position.
    """
    height, width = size
    x_step, row_step = steps[1] * channels, steps[0] * width * channels
    if x_step > _LONGEST_X or row_step > _LONGEST_ROW:
        return None
    return partial(
        Placed,
        offset=(first[0] * width + first[1]) * channels,
        x_step=x_step,
        row_step=row_step,
        image_step=height * width * channels,
    )


def strided_rows_layout(
    size: tuple[int, int], channels: int, *, step: int, first: int
) -> Callable[..., Placed] | None:
    """Return a function that makes a layout of every n-th row of an image.

    Its arguments are `grid` and `complete`, as for `Placed`. Return None if the step is too large
    for POST.

    Parameters
    ----------
    size, channels:
        Number of rows and of positions of the image, and size in bytes of a position.
    step, first:
        Distance between written rows, and the first of them.
    """
    height, width = size
    row_bytes = width * channels
    if step * row_bytes > _LONGEST_ROW:
        return None

    def place(*, grid: Grid, complete: int) -> Placed:
        """Return the layout of outputs with this grid; `complete` is as for `Placed`."""
        return Placed(
            grid=grid,
            offset=first * row_bytes,
            x_step=grid.position_bytes,
            row_step=step * row_bytes,
            image_step=height * row_bytes,
            complete=complete,
        )

    return place
