"""Copies matrices into panels, the layout of weights, one band of rows after another."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from matloom.arch.isa import Opcode, largest
from matloom.select.context import Context
from matloom.select.copies import Copy, copy_stage
from matloom.select.layout.panels import Panels
from matloom.select.layout.placed import Placed
from matloom.select.stage import ArrayStage

#: Maximum distance in bytes between positions that POST writes.
_LONGEST_STEP = largest(Opcode.POST, "x_step")


@dataclass(frozen=True, kw_only=True)
class _Band:
    """Rows that one stage copies: of each image, `rows` rows from `first_row` on.

    In the input, images are `in_rows` rows apart. The first row goes to byte `offset` of the
    output, where images are `image_step` bytes apart.
    """

    images: int
    in_rows: int
    first_row: int
    rows: int
    offset: int
    image_step: int


def _split_into_bands(in_rows: int, panels: Panels) -> Iterator[_Band]:
    """Yield the bands of neighbouring rows, one for each copy, that together make up all panels.

    Whole bands that are adjacent in the input are copied together, as the images of a single
    `_Band`.
    """
    several = panels.inner > panels.band
    adjacent = in_rows == panels.inner and (panels.images == 1 or not in_rows % panels.band)
    whole = panels.inner // panels.band if several and adjacent else 0
    if whole:
        yield _Band(
            images=panels.images * whole,
            in_rows=panels.band,
            first_row=0,
            rows=panels.band,
            offset=0,
            image_step=panels.band_bytes,
        )
    for row in range(whole * panels.band, panels.inner, panels.band):
        yield _Band(
            images=panels.images,
            in_rows=in_rows,
            first_row=panels.first_row + row,
            rows=min(panels.band, panels.inner - row),
            offset=row // panels.band * panels.band_bytes,
            image_step=panels.image_bytes,
        )


def copy_panels(
    context: Context, tensors: tuple[str, str], shape: tuple[int, int], panels: Panels
) -> Iterator[ArrayStage]:
    """Yield the stages that copy the rows of matrices into panels, the layout of weight tiles.

    For each band, one stage copies all full panels if POST can step from panel to panel; otherwise,
    each full panel has its own stage. A last panel with fewer columns always has its own stage.

    Parameters
    ----------
    tensors:
        Names of the matrices and of the panels.
    shape:
        Number of rows of a matrix, and size in bytes of a row.
    """
    full, tail = divmod(panels.columns, panels.width)
    at_once = panels.block_bytes <= _LONGEST_STEP
    parts = [(0, full, panels.width)] if at_once else [(b, 1, panels.width) for b in range(full)]
    for band in _split_into_bands(shape[0], panels):
        for block, width, size in [*parts, (full, 1, tail)]:
            if not width * size:
                continue
            copy = Copy(
                images=band.images,
                in_rows=band.in_rows,
                in_row_bytes=shape[1],
                out_rows=band.rows,
                width=width,
                position_bytes=size,
                x_step=size if width > 1 else panels.width,
                first_row=band.first_row,
                first_byte=panels.first_column + block * panels.width,
            )
            place = partial(
                Placed,
                offset=band.offset + block * panels.block_bytes,
                x_step=panels.block_bytes if width > 1 else panels.width,
                row_step=panels.width,
                image_step=band.image_step,
                complete=0,
            )
            yield copy_stage(
                name=context.name,
                nodes=context.nodes,
                tensors=tensors,
                copy=copy,
                config=context.config,
                place=place,
            )
