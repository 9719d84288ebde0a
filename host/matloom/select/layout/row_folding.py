"""Row folding: neighbouring rows of a one-channel image become channels of a narrower tensor.

A kernel row of such an image is a run of a few bytes, which leaves most rows of the array idle. A
LOAD can write the bytes of a row with an element stride. So several LOADs of the image, each one
row further down, make a dense tensor whose channels are rows of the image, and a run covers several
kernel rows.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from matloom.arch.isa import Opcode, largest
from matloom.arch.machine import Machine
from matloom.cost import step_cycles
from matloom.ir.names import derived_name
from matloom.select.layout.base import Fields, Transfer
from matloom.select.stage import ArrayStage
from matloom.select.window import Window

#: Maximum number of rows of an EXEC, and of bytes of a row of a narrow input.
_MOST_ROWS, _LONGEST_ROW = largest(Opcode.EXEC, "input_rows"), 1 << 16

#: Fraction of the plain stage's cycles above which folding does not pay: it delays the start.
_WORTH = 0.85

#: Overhead of a LOAD in cycles, beyond its writes.
_LOAD_CYCLES = 14

#: Approximate number of tiles of a first layer: the array starts when the first one is loaded.
_TILES = 4


@dataclass(frozen=True)
class _Box:
    """Some bytes of some rows (both half open), and their address on chip."""

    low: int
    high: int
    left: int
    right: int
    address: int
    pitch: int


@dataclass(frozen=True, kw_only=True)
class RowFolding:
    """A dense tensor, made by LOADs, whose channels are rows of a one-channel image.

    Channel c of position x of row t is byte x of row ``first_row + t * row_step + c`` of the tensor
    `source`, or `fill_value` if there is no such row. `channels` is a power of two.
    """

    source: str
    source_rows: int
    source_row_bytes: int
    first_row: int
    row_step: int
    channels: int
    rows: int
    fill_value: int

    plane_bytes: ClassVar[int] = 0

    @property
    def channel_step(self) -> int:
        """Rows of the image from one channel to the next."""
        return 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.source_row_bytes * self.channels

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return self.rows * self.row_bytes

    @property
    def text(self) -> str:
        """Name of the layout, for people."""
        return f"{self.channels} rows as channels"

    def inside(self, row: int) -> tuple[int, int]:
        """Return the range of channels of a row that are rows of the image."""
        first = self.first_row + row * self.row_step
        low = min(max(0, -first), self.channels)
        return low, min(max(low, self.source_rows - first), self.channels)

    def is_filled(self, row: int) -> bool:
        """Return whether channels of a row hold `fill_value`."""
        return self.inside(row) != (0, self.channels)

    def source_row(self, row: int, channel: int) -> int:
        """Return the row of the image that is a channel of a row."""
        return self.first_row + row * self.row_step + channel * self.channel_step

    def loads(self, transfer: Transfer) -> Iterator[Fields]:
        """Yield the fields of LOADs for a transfer; `dram_offset` is relative to the image.

        Runs are contiguous in the scratchpad.
        """
        for box in _boxes(self.row_bytes, transfer):
            rows = range(box.low, box.high)
            for filled, group in itertools.groupby(rows, self.is_filled):
                if filled:
                    yield _fill(self, box, list(group))
            for inside, group in itertools.groupby(rows, self.inside):
                yield from _spread(self, box, list(group), inside)


def fastest(
    make: Callable[[Window, np.ndarray, str], ArrayStage],
    *,
    window: Window,
    filters: np.ndarray,
    tensor: str,
    zero: int,
    machine: Machine,
) -> ArrayStage:
    """Return the faster of the plain stage and those with row folding.

    Parameters
    ----------
    make:
        Builds the stage of a window, its filters (int8: channels, rows, columns, depth) and the
        name of its input.
    tensor:
        Name of the input, which is in external memory when the segment starts.
    zero:
        The zero point, which pads above the first and below the last row.
    """
    stages, config = [make(window, filters, tensor)], machine.config
    for spread in range(1, config.last_spread + 1):
        rows = _interleave(window, tensor, 1 << spread, zero)
        if rows is not None and rows.size <= config.spad_bytes // 4:
            other, thick = rearranged(window, filters, rows)
            stage = make(other, thick, derived_name(tensor, f"rows for {stages[0].name}"))
            stages.append(replace(stage, macs=stages[0].macs, input_layout=rows))
    best = min(stages, key=lambda stage: _cycles(stage, machine))
    return best if _cycles(best, machine) <= _WORTH * _cycles(stages[0], machine) else stages[0]


def _interleave(window: Window, tensor: str, channels: int, zero: int) -> RowFolding | None:
    """Return the folding of this many rows into channels; None if the window cannot use it."""
    if window.depth > 1 or window.images > 1 or window.dilation_y > 1 or window.kernel_height == 1:
        return None
    if channels % window.stride_y:
        return None
    taps = -(-window.kernel_height // channels)
    rows = window.out_height + (taps - 1) * (channels // window.stride_y)
    if rows > _MOST_ROWS or window.in_width * channels > _LONGEST_ROW:
        return None
    return RowFolding(
        source=tensor,
        source_rows=window.in_height,
        source_row_bytes=window.in_width,
        first_row=-window.pad_top,
        row_step=window.stride_y,
        channels=channels,
        rows=rows,
        fill_value=zero & 255,
    )


def rearranged(window: Window, filters: np.ndarray, rows: RowFolding) -> tuple[Window, np.ndarray]:
    """Return the window and filters that compute the same from folded rows."""
    channels, height, width, _depth = filters.shape
    taps = -(-height // rows.channels)
    padded = np.pad(filters, ((0, 0), (0, taps * rows.channels - height), (0, 0), (0, 0)))
    thick = padded.reshape(channels, taps, rows.channels, width).transpose(0, 1, 3, 2)
    other = replace(
        window,
        in_height=rows.rows,
        depth=rows.channels,
        kernel_height=taps,
        stride_y=1,
        dilation_y=rows.channels // window.stride_y,
        pad_top=0,
    )
    return other, np.ascontiguousarray(thick)


def _cycles(stage: ArrayStage, machine: Machine) -> int:
    """Return the cycles of the array and of the input's LOADs, tile by tile."""
    config = machine.config
    grid, rows = stage.grid, stage.input_layout
    vectors = stage.loop_nest.vectors(grid.rows, grid.width)
    streamed = step_cycles(vectors, config) * stage.loop_nest.steps * grid.blocks
    loaded = int(machine.transfer_cycles(grid.images * rows.rows * rows.row_bytes))
    if isinstance(rows, RowFolding):
        whole = Transfer(start=0, size=rows.size, runs=1, step=0, address=0, pitch=0)
        loads = [machine.load_cycles(fields)[1] for fields in rows.loads(whole)]
        # Each tile has LOADs of its own, in the worst case as many as the whole tensor.
        loaded = sum(loads) + _TILES * len(loads) * _LOAD_CYCLES
    return max(streamed, loaded) + min(streamed, loaded) // _TILES


def _boxes(row_bytes: int, transfer: Transfer) -> Iterator[_Box]:
    """Split runs of bytes into boxes: the end of a first row, whole rows, the start of a last."""
    start, size, address = transfer.start, transfer.size, transfer.address
    if transfer.runs > 1:
        assert transfer.step == row_bytes
        low, left = divmod(start, row_bytes)
        yield _Box(low, low + transfer.runs, left, left + size, address, size)
        return
    end = start + size
    while start < end:
        low, left = divmod(start, row_bytes)
        high = max(low + 1, end // row_bytes) if left == 0 else low + 1
        right = min(row_bytes, end - low * row_bytes)
        yield _Box(low, high, left, right, address, row_bytes)
        done = (high - low - 1) * row_bytes + right - left
        start, address = start + done, address + done


def _rows(box: _Box, group: list[int]) -> Fields:
    several = len(group) > 1
    return {"rows": len(group), "spad_row_step": box.pitch if several else 0}


def _fill(rows: RowFolding, box: _Box, group: list[int]) -> Fields:
    """Return the fields that fill rows with channels outside the image."""
    return {
        **_rows(box, group),
        "fill": 1,
        "fill_value": rows.fill_value,
        "spad_addr": box.address + (group[0] - box.low) * box.pitch,
        "row_bytes": box.right - box.left,
        "planes": 1,
    }


def _spread(
    rows: RowFolding, box: _Box, group: list[int], inside: tuple[int, int]
) -> Iterator[Fields]:
    """Yield the fields that load a range of channels of rows, each channel from its own row."""

    def positions(channel: int) -> tuple[int, int]:
        return (
            -((channel - box.left) // rows.channels),
            -((channel - box.right) // rows.channels),
        )

    for (first, end), alike in itertools.groupby(range(*inside), positions):
        channels = list(alike)
        if first == end:
            continue
        source_row = rows.source_row(group[0], channels[0])
        row = box.address + (group[0] - box.low) * box.pitch
        yield {
            **_rows(box, group),
            "dram_offset": source_row * rows.source_row_bytes + first,
            "spad_addr": row + first * rows.channels + channels[0] - box.left,
            "row_bytes": end - first,
            "spread": rows.channels.bit_length() - 1,
            "planes": len(channels),
            "dram_row_step": rows.row_step * rows.source_row_bytes if len(group) > 1 else 0,
            "dram_plane_step": rows.channel_step * rows.source_row_bytes
            if len(channels) > 1
            else 0,
            "spad_plane_step": 1 if len(channels) > 1 else 0,
        }
