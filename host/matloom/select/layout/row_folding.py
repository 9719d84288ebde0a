"""Row folding: neighbouring rows of a one-channel image become channels of a narrower tensor.

A kernel row of such an image is a run of a few bytes, which leaves most rows of the array idle. A
LOAD can write the bytes of a row with an element stride. So several LOADs of the image, each one
row further down, make a dense tensor whose channels are rows of the image, and a run covers several
kernel rows, or what several rows of outputs read.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from matloom.select.layout.base import Fields, Transfer


@dataclass(frozen=True)
class _Box:
    """Part of a transfer: the bytes from `left` to `right` of rows `low` to `high` (half open).

    On chip, the first byte goes to `address`, and rows are `pitch` bytes apart.
    """

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
        """Distance in rows of the image from one channel to the next."""
        return 1

    @property
    def row_bytes(self) -> int:
        """Size in bytes of a row."""
        return self.source_row_bytes * self.channels

    @property
    def size(self) -> int:
        """Size in bytes of the tensor."""
        return self.rows * self.row_bytes

    @property
    def text(self) -> str:
        """Name of the layout, for people."""
        return f"{self.channels} rows as channels"

    def inside(self, row: int) -> tuple[int, int]:
        """Return the range of channels (half open) in a row that come from rows of the image."""
        first = self.first_row + row * self.row_step
        low = min(max(0, -first), self.channels)
        return low, min(max(low, self.source_rows - first), self.channels)

    def is_filled(self, row: int) -> bool:
        """Return whether any channels of a row hold `fill_value`, as they are outside the image."""
        return self.inside(row) != (0, self.channels)

    def source_row(self, row: int, channel: int) -> int:
        """Return the row of the image that becomes `channel` of a row of the tensor."""
        return self.first_row + row * self.row_step + channel * self.channel_step

    def loads(self, transfer: Transfer) -> Iterator[Fields]:
        """Yield the fields of LOADs for a transfer; `dram_offset` is relative to the image.

        Runs must be contiguous in the scratchpad.
        """
        for box in _boxes(self.row_bytes, transfer):
            rows = range(box.low, box.high)
            for filled, group in itertools.groupby(rows, self.is_filled):
                if filled:
                    yield _fill_fields(self, box, list(group))
            for inside, group in itertools.groupby(rows, self.inside):
                yield from _spread_fields(self, box, list(group), inside)


def _boxes(row_bytes: int, transfer: Transfer) -> Iterator[_Box]:
    """Cut a transfer into boxes: the end of a first row, whole rows, the start of a last row."""
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


def _row_fields(box: _Box, group: list[int]) -> Fields:
    """Return the LOAD fields of `group`: the number of rows, and their distance if several."""
    several = len(group) > 1
    return {"rows": len(group), "spad_row_step": box.pitch if several else 0}


def _fill_fields(rows: RowFolding, box: _Box, group: list[int]) -> Fields:
    """Return the fields of a LOAD that sets the rows `group` of a box to `fill_value`.

    Further LOADs then overwrite the channels that come from the image.
    """
    return {
        **_row_fields(box, group),
        "fill": 1,
        "fill_value": rows.fill_value,
        "spad_addr": box.address + (group[0] - box.low) * box.pitch,
        "row_bytes": box.right - box.left,
        "planes": 1,
    }


def _spread_fields(
    rows: RowFolding, box: _Box, group: list[int], inside: tuple[int, int]
) -> Iterator[Fields]:
    """Yield the fields of LOADs that bring rows of the image as the channels `inside` (half open).

    `group` are rows of the box. Each channel comes from a row of its own.
    """

    def positions(channel: int) -> tuple[int, int]:
        """Return the positions (half open) of a box that have bytes of a channel."""
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
            **_row_fields(box, group),
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
