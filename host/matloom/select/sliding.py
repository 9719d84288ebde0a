"""Depthwise convolutions as sliding windows: what EXEC streams, and where its weights lie.

Decision 0002 defines the semantics. A step covers the lines of a `WindowShape`; larger kernels take
several steps. A step with fewer taps is padded in front with zero weights.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.arch.isa import Opcode, largest
from matloom.select.loop_nest import ExecLoops, SingleSums
from matloom.select.shapes import WindowShape

#: Maximum number of vectors of a line.
LONGEST_LINE = largest(Opcode.EXEC, "line")

#: Maximum number of vectors, and of lines, skipped between two outputs.
LONGEST_SKIP = 3


@dataclass(frozen=True, kw_only=True)
class SlidingWindow(SingleSums):
    """Loops of an EXEC that slides a window over the lines of its input.

    Lengths are in rows, and in positions of `depth` bytes.

    Members
    -------
    shape:
        The lines that a step covers.
    in_width, depth:
        Number of positions of an input row, and size in bytes of a position.
    kernel_rows, kernel_width, y_step, stride_x, pad_top, pad_left:
        Shape of the convolution.
    oc_step:
        Number of channels of an output block.
    """

    shape: WindowShape
    in_width: int
    depth: int
    kernel_rows: int
    kernel_width: int
    y_step: int
    stride_x: int
    pad_top: int
    pad_left: int
    pad_value: int
    oc_step: int
    kernel_row_step: int = 1
    weights_fixed: bool = False

    slides: ClassVar[bool] = True
    is_long: ClassVar[bool] = False

    @property
    def _row_steps(self) -> int:
        """Number of steps (weight tiles) that cover the kernel's rows."""
        return -(-self.kernel_rows // self.shape.lines)

    @property
    def _column_steps(self) -> int:
        """Number of steps (weight tiles) that cover the kernel's columns."""
        return -(-self.kernel_width // self.shape.taps)

    @property
    def steps(self) -> int:
        """Number of reduction steps (uses of a weight tile) for a block of output channels."""
        return self._row_steps * self._column_steps

    @property
    def _empty_rows(self) -> int:
        """Number of rows of zero weights before the first kernel row."""
        return self._row_steps * self.shape.lines - self.kernel_rows

    @property
    def _empty_columns(self) -> int:
        """Number of columns of zero weights that fill the last step."""
        return self._column_steps * self.shape.taps - self.kernel_width

    def vectors_per_step(self, height: int, width: int) -> int:
        """Return about how many vectors are streamed per weight tile, for outputs of this size.

        The outputs are `height` rows of `width` positions.
        """
        lines = (height - 1) * self.y_step + self.shape.lines
        first_x, length = self._first_and_length((0, width))
        return lines * max(length - self._skipped_columns(first_x, length), WINDOW_TAPS)

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> dict[str, int]:
        """Return the fields of the EXEC that makes `rows` and `columns` of outputs (half open).

        `block` is the first output block. `first_row` counts from the first row of the image.
        """
        height, width = rows[1] - rows[0], columns[1] - columns[0]
        lines, taps = self.shape.lines, self.shape.taps
        first_row = rows[0] * self.y_step - self.pad_top - self._empty_rows
        skipped_rows = self._skipped_rows(first_row)
        first_x, length = self._first_and_length(columns)
        skipped = self._skipped_columns(first_x, length)
        line = max(length - skipped, WINDOW_TAPS)
        return {
            "window": 1,
            **self.shape.fields,
            "first_row": first_row + skipped_rows,
            "first_byte": (first_x + skipped) * self.depth + block * self.oc_step,
            "pad_value": self.pad_value,
            "width": line,
            "height": (height - 1) * self.y_step + lines - skipped_rows,
            "x_step": self.depth,
            "y_step": 1,
            "kernel_rows": self._row_steps,
            "kernel_row_step": lines,
            "kernel_cols": self._column_steps,
            "kernel_col_step": taps * self.depth,
            "blocks": 1,
            "weights_fixed": int(self.weights_fixed),
            "oc_step": self.oc_step,
            "line": line,
            "first_output": (lines - 1 - skipped_rows) * line + taps - 1 - skipped,
            "out_width": width,
            "out_height": height,
            "out_x_skip": self.stride_x - 1,
            "out_y_skip": self.y_step - 1,
        }

    def _first_and_length(self, columns: tuple[int, int]) -> tuple[int, int]:
        """Return the first position to stream of a line, and how many, for a range of outputs."""
        first_x = columns[0] * self.stride_x - self.pad_left - self._empty_columns
        return first_x, (columns[1] - columns[0] - 1) * self.stride_x + self.shape.taps

    def _skipped_rows(self, first_row: int) -> int:
        """Return the number of leading lines that need not be streamed.

        A window reads lines before the first as padding. That is right for lines above the image,
        and irrelevant under zero weights. Later steps start at other lines, so lines can be skipped
        only if there is a single step.
        """
        if self._row_steps > 1:
            return 0
        above = max(self._empty_rows, -first_row)
        return min(above, self.shape.lines - 1)

    def _skipped_columns(self, first_x: int, length: int) -> int:
        """Return the number of leading vectors of a line that need not be streamed.

        A window reads the end of the previous line instead. That is irrelevant under zero weights,
        and makes no difference if both are padding.
        """
        if self._column_steps > 1 or self.weights_fixed:
            return 0
        empty = self._empty_columns
        left = max(0, -first_x - empty)
        right = max(0, first_x + length - self.in_width)
        return empty + min(left, right, self.shape.taps - 1 - empty)

    def tiles(self, filters: np.ndarray, config: Config) -> np.ndarray:
        """Return the weight tiles of filters (rows, columns, channels): uint8 (blocks, bytes)."""
        return sliding_tiles(filters, self.shape, config)


def as_sliding_window(loops: ExecLoops) -> SlidingWindow | None:
    """Return the loops if they slide over neighbouring lines of the input; None for other loops."""
    return loops if isinstance(loops, SlidingWindow) else None


def sliding_tiles(filters: np.ndarray, shape: WindowShape, config: Config) -> np.ndarray:
    """Return the tiles of depthwise filters (rows, columns, channels): uint8 (blocks, bytes)."""
    rows, width, channels = filters.shape
    lines, width_taps, columns = shape.lines, shape.taps, config.columns
    missing = (-rows % lines, -width % width_taps, -channels % columns)
    full = np.pad(filters, ((missing[0], 0), (missing[1], 0), (0, missing[2])))
    row_steps, column_steps, blocks = (
        full.shape[0] // lines, full.shape[1] // width_taps, full.shape[2] // columns
    )  # fmt: skip
    taps = full.reshape(row_steps, lines, column_steps, width_taps, blocks, columns)
    tiles = np.zeros((blocks, row_steps, column_steps, config.rows, columns), np.int8)
    tiles[:, :, :, shape.rows.reshape(-1)] = taps.transpose(4, 0, 2, 1, 3, 5).reshape(
        blocks, row_steps, column_steps, lines * width_taps, columns
    )
    return tiles.reshape(blocks, -1).view(np.uint8)
