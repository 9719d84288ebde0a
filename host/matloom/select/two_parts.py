"""Constant weights of nine bits, such as those of uint8 minus their zero point.

Few weights need the ninth bit, so the second part has only the tiles that do, and few others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from matloom.ir.graph import Array
from matloom.select.constant import ConstantWeights


@dataclass(frozen=True, kw_only=True)
class TwoPartWeights:
    """Weights too large for int8, each the sum of two int8 parts.

    EXEC instructions multiply by each part and add all products to the same sums. Weights come in
    tiles, as large as the array of multipliers. A step is the part of the reduction that one tile
    covers, and an output block is as many output channels as the array has columns. A chunk, the
    bytes that one LOAD brings, has the first parts of all its tiles; then, for each block, the
    second parts from the first step to the last one with a weight other than zero.

    Members
    -------
    first, second:
        The parts, of the same shape.
    column_steps, row_steps:
        Number of steps for one position of the kernel, and for one of its rows. An EXEC runs steps
        of one position, all steps of some positions in one row, or all steps of some rows.
    """

    first: ConstantWeights
    second: ConstantWeights
    column_steps: int
    row_steps: int

    @cached_property
    def _used_tiles(self) -> Array:
        """Whether each tile of the second part has a weight other than zero: (blocks, steps)."""
        return np.asarray(self.second.tiles.any(axis=2))

    @cached_property
    def passes(self) -> int:
        """Approximate number of times that the positions of a tile are streamed, in both parts."""
        return 1 + round(float(self._used_tiles.mean()))

    @property
    def nbytes(self) -> int:
        """Size in bytes of all weights."""
        return self.chunk_bytes(slice(0, len(self.first.tiles)), slice(0, self.steps))

    @property
    def steps(self) -> int:
        """Number of weight tiles (steps of the reduction) of a block of output channels."""
        return self.first.steps

    @property
    def tile_bytes(self) -> int:
        """Size in bytes of a tile of one part."""
        return self.first.tile_bytes

    @property
    def block_bytes(self) -> int:
        """Size in bytes of the first part of a block of output channels."""
        return self.first.block_bytes

    def chunk_bytes(self, blocks: slice, steps: slice) -> int:
        """Return the size in bytes of the weights of some output blocks, for a range of steps."""
        return self.offset(blocks, steps, blocks.stop)

    def select_blocks(self, blocks: slice) -> "TwoPartWeights":
        """Return the weights of some blocks of output channels."""
        first, second = self.first.select_blocks(blocks), self.second.select_blocks(blocks)
        return replace(self, first=first, second=second)

    def chunk(self, blocks: slice, steps: slice) -> bytes:
        """Return the weights of a range of output blocks and of steps (tiles of a block)."""
        second = (
            self.second.tiles[block, used.start : used.stop].tobytes()
            for block, used in zip(
                range(blocks.start, blocks.stop), self._used_steps(blocks, steps), strict=True
            )
        )
        return self.first.chunk(blocks, steps) + b"".join(second)

    def offset(self, blocks: slice, steps: slice, block: int) -> int:
        """Return the offset of a block's second part in the `chunk` of some blocks and steps."""
        before = sum(map(len, self._used_steps(slice(blocks.start, block), steps)))
        return self.first.chunk_bytes(blocks, steps) + before * self.tile_bytes

    def runs(self, blocks: slice, steps: slice) -> Iterator[tuple[range, range]]:
        """Yield the output blocks and steps of each EXEC that multiplies by the second part.

        `blocks` and `steps` are those of a tile. Adjacent blocks that use all steps share an EXEC.
        """
        every, run = range(steps.start, steps.stop), range(blocks.start, blocks.start)
        for at, used in enumerate(self._used_steps(blocks, steps), blocks.start):
            if run and used != every:
                yield run, every
            if used == every:
                run = range(run.start if run else at, at + 1)
            elif used:
                yield range(at, at + 1), used
            if used != every:
                run = range(at, at)
        if run:
            yield run, every

    def used_steps(self, block: int, steps: slice) -> range:
        """Return the range of steps of a block's second part that one EXEC runs, within `steps`.

        It has all tiles that are not zero.
        """
        (used,) = self._used_steps(slice(block, block + 1), steps)
        return used

    def _used_steps(self, blocks: slice, steps: slice) -> list[range]:
        """Return `used_steps` of each block of a range."""
        following, preceding = self._used_neighbours
        return [
            self._whole(following[block][steps.start], preceding[block][steps.stop], steps)
            for block in range(blocks.start, blocks.stop)
        ]

    @cached_property
    def _used_neighbours(self) -> tuple[list[list[int]], list[list[int]]]:
        """For each block and step: the first used step from there on, and the last one before.

        They are the number of steps, and -1, where no used step follows or precedes.
        """
        used, steps = self._used_tiles, self._used_tiles.shape[1]
        at = np.arange(steps)
        following = np.minimum.accumulate(np.where(used, at, steps)[:, ::-1], axis=1)[:, ::-1]
        preceding = np.maximum.accumulate(np.where(used, at, -1), axis=1)
        return (
            np.pad(following, ((0, 0), (0, 1)), constant_values=steps).tolist(),
            np.pad(preceding, ((0, 0), (1, 0)), constant_values=-1).tolist(),
        )

    def _whole(self, first: int, last: int, steps: slice) -> range:
        """Return the shortest range of steps from `first` to `last` that a single EXEC can run.

        Both are used steps; the range is empty if there are none within `steps`.
        """
        if first >= steps.stop:
            return range(0)
        if first // self.column_steps == last // self.column_steps:
            return range(first, last + 1)
        one_row = first // self.row_steps == last // self.row_steps
        size = self.column_steps if one_row else self.row_steps
        start, end = first // size * size, (last // size + 1) * size
        return range(max(start, steps.start), min(end, steps.stop))
