"""Stages that copy a strided box of a tensor, with padding, to strided addresses."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.select.context import NotOnEngine, bias_post
from matloom.select.layout.base import Grid, OutputLayout
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import same_weights
from matloom.select.stage import ArrayStage, OutputRegion
from matloom.select.weights import identity_tile

_MOST_ROWS = largest(Opcode.EXEC, "height")
_LONGEST_POSITION = largest(Opcode.POST, "x_step")
#: Minimum number of cycles of a step of EXEC, which uses one weight tile.
_MIN_TILE_CYCLES = 4
#: Factor by which a copy in positions of one block may take longer than one in several blocks:
#: only its STOREs can be merged.
_MERGING_WORTH = 1.5


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Part of a tensor to copy: of each image, some rows of `width` positions.

    Members
    -------
    images, in_rows, in_row_bytes:
        Shape of the dense input.
    out_rows, width, position_bytes:
        Part to read of each image: rows, positions per row, bytes per position.
    first_row, row_step, first_byte, x_step:
        First row, rows from one to the next, first byte of a row, and bytes from one position to
        the next. Anything outside the image reads as `pad_value`.
    """

    images: int
    in_rows: int
    in_row_bytes: int
    out_rows: int
    width: int
    position_bytes: int
    x_step: int
    first_row: int = 0
    row_step: int = 1
    first_byte: int = 0
    pad_value: int = 0


@dataclass(frozen=True, kw_only=True)
class CopiedAxis:
    """Elements to read along an axis of `length`: `size` of them from `first` on, `step` apart.

    Elements outside the axis are padding.
    """

    length: int
    first: int
    size: int
    step: int = 1

    @property
    def is_full(self) -> bool:
        """Whether all elements are read, in order."""
        return (self.first, self.size, self.step) == (0, self.length, 1)


def _fastest_run(size: int, rows: int, config: Config) -> tuple[int, int]:
    """Return the shape in which copies of rows are fastest: positions per row, bytes per position.

    A row has `size` bytes. A position has one block, and as many bytes as possible, unless a single
    position of several blocks is clearly faster.
    """
    block = min(config.rows, config.columns)
    blocks = -(-size // block)
    part = max(number for number in range(1, block + 1) if size % number == 0)
    wide = size > _LONGEST_POSITION or blocks > _MOST_ROWS
    if wide or rows * (size // part) <= _MERGING_WORTH * blocks * max(rows, _MIN_TILE_CYCLES):
        return size // part, part
    return 1, size


def split_into_planes(count: int) -> tuple[int, int]:
    """Return the number of equal images into which `count` rows are split, and the rows of each.

    The number of rows of an image is the largest divisor of `count` that one EXEC can count.
    """
    rows = max(number for number in range(1, min(count, _MOST_ROWS) + 1) if count % number == 0)
    return count // rows, rows


def row_grid(count: int, size: int, config: Config) -> Grid:
    """Return the grid of `count` rows of `size` bytes; a position is as large as a block allows."""
    images, rows = split_into_planes(count)
    most = min(config.rows, config.columns)
    position = max(number for number in range(1, most + 1) if size % number == 0)
    return Grid(
        images=images,
        rows=rows,
        width=size // position,
        position_bytes=position,
        block_bytes=position,
    )


def _merge_axes(axes: list[CopiedAxis]) -> list[CopiedAxis]:
    """Merge each axis that is read in full into the axis before it, if elements stay contiguous.

    Fewer axes need fewer loops.
    """
    groups = [CopiedAxis(length=1, first=0, size=1)]
    for axis in axes:
        last = groups[-1]
        if axis.is_full and last.step == 1:
            scale = axis.length
            groups[-1] = CopiedAxis(
                length=last.length * scale, first=last.first * scale, size=last.size * scale
            )
        elif last.length == 1 and last.is_full:
            groups[-1] = axis
        else:
            groups.append(axis)
    return groups


def copy_of_lines(count: int, size: int, config: Config) -> Copy:
    """Return the copy of a whole tensor of `count` rows of `size` bytes, unchanged."""
    images, rows = split_into_planes(count)
    width, position = _fastest_run(size, rows, config)
    return Copy(
        images=images,
        in_rows=rows,
        in_row_bytes=size,
        out_rows=rows,
        width=width,
        position_bytes=position,
        x_step=position,
    )


def _count_strided_axes(groups: list[CopiedAxis]) -> int:
    """Return the number of axes that need a loop of their own.

    The first axis does so only if it is not read in full.
    """
    return len(groups) - groups[0].is_full


def copy_of_axes(axes: list[CopiedAxis], pad_value: int, config: Config) -> Copy:
    """Return the copy that reads the given elements of each axis; the last axis is that of bytes.

    Raises
    ------
    NotOnEngine
        More axes are read in part than the engine's loops can step over, or one is read backwards.
    """
    groups = _merge_axes(axes)
    if any(axis.step < 0 for axis in groups):
        raise NotOnEngine("the engine does not step backwards")
    inner = 1
    *others, line = groups
    if line.is_full and others and others[-1].step > 1 and _count_strided_axes(others) > 1:
        inner, line = line.length, others.pop()
    groups = others
    images, rows = 1, CopiedAxis(length=1, first=0, size=1)
    if groups and groups[-1].is_full:
        images, count = split_into_planes(groups.pop().length)
        rows = CopiedAxis(length=count, first=0, size=count)
    elif groups:
        rows = groups.pop()
        if groups and groups[-1].is_full:
            images = groups.pop().length
    if groups:
        raise NotOnEngine("the engine cuts two axes at once, not more")
    width, position = line.size, inner
    if line.step == 1:
        width, position = _fastest_run(line.size * inner, rows.size, config)
    return Copy(
        images=images,
        in_rows=rows.length,
        in_row_bytes=line.length * inner,
        out_rows=rows.size,
        width=width,
        position_bytes=position,
        x_step=position if line.step == 1 else line.step * inner,
        first_row=rows.first,
        row_step=rows.step,
        first_byte=line.first * inner,
        pad_value=pad_value,
    )


def _loop_nest(copy: Copy, block: int) -> LoopNest:
    """Return the loop nest of a copy, which has a single reduction step.

    Output blocks read inputs `block` bytes apart.
    """
    return LoopNest(
        oc_step=block,
        x_step=copy.x_step,
        y_step=copy.row_step,
        pad_top=-copy.first_row,
        pad_left_bytes=-copy.first_byte,
        pad_value=copy.pad_value,
        weights_fixed=True,
    )


def copy_stage(
    *,
    name: str,
    nodes: tuple[int, ...],
    tensors: tuple[str, str],
    copy: Copy,
    config: Config,
    place: Callable[..., OutputLayout] = Dense,
    complement: bool = False,
) -> ArrayStage:
    """Return the stage that copies one of `tensors` to the other, whose layout `place` makes.

    `place` makes the layout of the outputs from their grid.
    """
    block = min(config.rows, config.columns)
    grid = Grid(
        images=copy.images,
        rows=copy.out_rows,
        width=copy.width,
        position_bytes=copy.position_bytes,
        block_bytes=block,
    )
    tile = identity_tile(config)
    if complement:
        tile = (-tile.view(np.int8)).view(np.uint8)
    post = bias_post(-1 if complement else 0)
    return ArrayStage(
        name=name,
        nodes=nodes,
        inputs=tensors[:1],
        output=tensors[1],
        input_layout=DenseInput(rows=copy.in_rows, row_bytes=copy.in_row_bytes),
        output_layout=place(grid=grid),
        loop_nest=_loop_nest(copy, block),
        regions=(OutputRegion.whole(grid, post),),
        weights=same_weights(tile, grid.blocks),
        params=np.zeros((grid.blocks, 0), np.uint8),
        macs=0,
    )
