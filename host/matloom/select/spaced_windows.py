"""Sliding windows with spaced taps: for strided kernels, and for the phases of dilated ones.

With stride 2, a window that reads every second position slides by one such position. A kernel of
five taps becomes two such windows: one with its even taps, and one with its odd taps a position
further. A shape of window with longer lines may take every position instead, and skip outputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.select.loop_nest import SingleSums
from matloom.select.shapes import WindowShape
from matloom.select.sliding import LONGEST_LINE, LONGEST_SKIP, sliding_tiles
from matloom.select.window import Window

#: Fields of EXEC whose values grow with the distance between taps.
_STEPS = ("x_step", "y_step", "kernel_row_step", "kernel_col_step")


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """Windows of a kernel along one axis of the image: its rows, or the positions of a row.

    Members
    -------
    taps:
        Number of taps of a window.
    unit:
        Distance between taps of a window, and between outputs, in rows or positions.
    kernel, dilation:
        Number of taps of the kernel, and the distance between them: 1 or `unit`.
    """

    taps: int
    unit: int
    kernel: int
    dilation: int

    @property
    def step(self) -> int:
        """Distance between windows, in rows or positions."""
        return self.taps * self.unit if self.dilation == self.unit else 1

    @property
    def steps(self) -> int:
        """Number of windows that together cover the kernel's taps."""
        if self.dilation == self.unit:
            return -(-self.kernel // self.taps)
        return max(self.unit, self.kernel - (self.taps - 1) * self.unit)

    @property
    def span(self) -> int:
        """Number of rows or positions from the first to the last that an output reads."""
        return (self.steps - 1) * self.step + (self.taps - 1) * self.unit + 1

    @cached_property
    def order(self) -> list[int | None]:
        """Index of the kernel's tap for each tap of each window, or None for a weight of zero."""
        places = [
            (window * self.step + tap * self.unit) // self.dilation
            for window in range(self.steps)
            for tap in range(self.taps)
        ]
        return [
            place if place < self.kernel and place not in places[:number] else None
            for number, place in enumerate(places)
        ]


@dataclass(frozen=True, kw_only=True)
class SpacedWindow(SingleSums):
    """Loops of EXECs that slide windows whose taps are as far apart as outputs.

    Lengths are in rows, and in positions of `depth` bytes.

    Members
    -------
    shape:
        The lines that a step covers.
    y, x:
        The windows along the image's rows and along a row.
    x_skip:
        Number of vectors of a line skipped between two outputs.
    in_width:
        Number of positions of an input row.
    depth:
        Size in bytes of a position.
    pad_top, pad_left, pad_value:
        Padding before the first row and position, and its signed value.
    oc_step:
        Number of channels of an output block.
    """

    shape: WindowShape
    y: _Axis
    x: _Axis
    x_skip: int
    in_width: int
    depth: int
    pad_top: int
    pad_left: int
    pad_value: int
    oc_step: int

    slides: ClassVar[bool] = True
    is_long: ClassVar[bool] = False
    weights_fixed: ClassVar[bool] = False
    kernel_row_step: ClassVar[int] = 1

    @property
    def steps(self) -> int:
        """Number of reduction steps (uses of a weight tile) for a block of output channels."""
        return self.y.steps * self.x.steps

    @property
    def kernel_rows(self) -> int:
        """Number of input rows that an output row spans, including those between its taps."""
        return self.y.span

    @property
    def y_step(self) -> int:
        """Distance in input rows between output rows."""
        return self.y.unit

    def vectors_per_step(self, height: int, width: int) -> int:
        """Return how many vectors are streamed per weight tile, for outputs of this size.

        The outputs are `height` rows of `width` positions.
        """
        return (height - 1 + self.y.taps) * self._line_vectors((0, width))[1]

    def fields(self, rows: tuple[int, int], columns: tuple[int, int], block: int) -> dict[str, int]:
        """Return the fields of the EXEC that makes `rows` and `columns` of outputs (half open).

        `block` is the first output block. `first_row` counts from the first row of the image.
        """
        height, width = rows[1] - rows[0], columns[1] - columns[0]
        skipped, line = self._line_vectors(columns)
        first_x = self._first_position(columns) + skipped * self.x.unit
        return {
            "window": 1,
            **self.shape.fields,
            "first_row": rows[0] * self.y.unit - self.pad_top,
            "first_byte": first_x * self.depth + block * self.oc_step,
            "pad_value": self.pad_value,
            "width": line,
            "height": height - 1 + self.y.taps,
            "x_step": self.x.unit * self.depth,
            "y_step": self.y.unit,
            "kernel_rows": self.y.steps,
            "kernel_row_step": self.y.step,
            "kernel_cols": self.x.steps,
            "kernel_col_step": self.x.step * self.depth,
            "blocks": 1,
            "oc_step": self.oc_step,
            "line": line,
            "first_output": (self.y.taps - 1) * line + self.x.taps - 1 - skipped,
            "out_width": width,
            "out_height": height,
            "out_x_skip": self.x_skip,
            "out_y_skip": 0,
        }

    def _first_position(self, columns: tuple[int, int]) -> int:
        """Return the first position that a range of outputs reads; negative in the padding."""
        return columns[0] * self.x.unit * (self.x_skip + 1) - self.pad_left

    def _line_vectors(self, columns: tuple[int, int]) -> tuple[int, int]:
        """Return (skipped, streamed): the numbers of vectors of a line for a range of outputs.

        A window reads the end of the previous line instead, which is padding like the skipped
        vectors. Only a step that covers all of a line's taps may do so.
        """
        length = (columns[1] - columns[0] - 1) * (self.x_skip + 1) + self.x.taps
        if self.x_skip == 0 or self.x.steps > 1:
            return 0, length
        first_x = self._first_position(columns)
        skipped = max(0, min(-first_x, first_x + length - self.in_width, self.x.taps - 1))
        return skipped, length - skipped

    def tiles(self, filters: np.ndarray, config: Config) -> np.ndarray:
        """Return the weight tiles of filters (rows, columns, channels): uint8 (blocks, bytes)."""
        spread = _arrange_taps(_arrange_taps(filters, 0, self.y), 1, self.x)
        return sliding_tiles(spread, self.shape, config)


def _arrange_taps(filters: np.ndarray, axis: int, taps_axis: _Axis) -> np.ndarray:
    """Return filters with taps in the order of the windows, with zeros for missing taps."""
    padded = np.insert(filters, filters.shape[axis], 0, axis=axis)
    order = [taps_axis.kernel if tap is None else tap for tap in taps_axis.order]
    reordered: np.ndarray = padded.take(order, axis=axis)
    return reordered


def spaced_windows(
    window: Window, pad_value: int, shape: WindowShape, config: Config
) -> Iterator[SpacedWindow]:
    """Yield the windows of a depthwise convolution whose taps are as far apart as its outputs.

    Shapes other than 3 x 3 also have windows that take every position of a row and skip outputs.
    There are none if both strides are 1, if a dilation is neither 1 nor the stride, if the image
    has one channel, or if the engine cannot step that far.
    """
    strides = (window.stride_y, window.stride_x)
    dilations = (window.dilation_y, window.dilation_x)
    if window.depth == 1 or max(strides) == 1:
        return
    if any(each not in (1, stride) for each, stride in zip(dilations, strides, strict=True)):
        return
    for x_skip in _skips(window, shape):
        y, x = _row_and_column_windows(window, shape, x_skip)
        found = SpacedWindow(
            shape=shape,
            y=y,
            x=x,
            x_skip=x_skip,
            in_width=window.in_width,
            depth=window.depth,
            pad_top=window.pad_top,
            pad_left=window.pad_left,
            pad_value=pad_value,
            oc_step=config.columns,
        )
        fields = found.fields((0, 1), (0, window.out_width), 0)
        far = any(fields[name] > largest(Opcode.EXEC, name) for name in _STEPS)
        if not far and fields["line"] <= LONGEST_LINE:
            yield found


def _skips(window: Window, shape: WindowShape) -> Iterator[int]:
    """Yield the numbers of vectors that a window may skip between two outputs of a line."""
    yield 0
    if shape.number and window.dilation_x == 1 < window.stride_x <= LONGEST_SKIP + 1:
        yield window.stride_x - 1


def _row_and_column_windows(window: Window, shape: WindowShape, x_skip: int) -> tuple[_Axis, _Axis]:
    """Return how windows cover the image's rows, and how they cover the positions of a row."""
    y = _Axis(
        taps=shape.lines,
        unit=window.stride_y,
        kernel=window.kernel_height,
        dilation=window.dilation_y,
    )
    x = _Axis(
        taps=shape.taps,
        unit=1 if x_skip else window.stride_x,
        kernel=window.kernel_width,
        dilation=window.dilation_x,
    )
    return y, x
