"""Stages of BATCH_MATMUL: the second operand becomes panels of weights on chip."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.ir.attributes import Activation, BatchMatmul
from matloom.ir.scales import matmul_multiplier
from matloom.ir.shapes import MATRIX_RANK
from matloom.select.context import Context, NotOnEngine
from matloom.select.copies import Copy, copy_stage
from matloom.select.layout.base import Grid, OutputLayout
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.layout.panels import Panels
from matloom.select.layout.placed import Placed
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import Computed, Correction
from matloom.select.requantisation import Requantisation
from matloom.select.stage import ArrayStage, OutputRegion

__all__ = ["batch_matmul"]

#: Positions or rows that EXEC counts, and bytes between positions that POST writes.
_MOST_ROWS = largest(Opcode.EXEC, "height")
_LONGEST_STEP = largest(Opcode.POST, "x_step")
#: Largest number of a byte.
_LARGEST = 127
#: The share of the scratchpad that the panels of a stage may take.
_SHARE = 4


@dataclass(frozen=True, kw_only=True)
class _Product:
    """Sizes of a product: images of (rows, inner) times one or as many of (inner, columns)."""

    images: int
    rows: int
    inner: int
    columns: int
    weight_images: int

    def panels(self, first_column: int, columns: int, config: Config) -> Panels:
        """Return the panels of some columns."""
        return Panels(
            images=self.weight_images,
            inner=self.inner,
            columns=columns,
            depth=-(-self.inner // config.rows) * config.rows,
            width=config.columns,
            first_column=first_column,
        )


def batch_matmul(context: Context) -> tuple[ArrayStage, ...]:
    """Return the stages of BATCH_MATMUL of int8."""
    attributes = context.node.attributes_as(BatchMatmul)
    product = _product(context, attributes)
    stages: list[ArrayStage] = []
    left = context.sources[0]
    if attributes.adj_x:
        left = context.derived("first input, transposed")
        stages += _transposed(context, product, left)
    groups = _column_groups(product, context.config)
    for number, (first, columns) in enumerate(groups):
        panels = product.panels(first, columns, context.config)
        name = context.derived(f"weights {number}")
        fill = _turned_panels if attributes.adj_y else _copied_panels
        stages += fill(context, product, panels, name)
        place = None
        if len(groups) > 1:
            place = partial(
                Placed,
                offset=first,
                x_step=product.columns,
                row_step=product.columns,
                image_step=product.rows * product.columns,
                complete=context.output.size_bytes if (first, columns) == groups[-1] else 0,
            )
        stages.append(_stage(context, product, (left, name), panels, place))
    return tuple(stages)


def _product(context: Context, attributes: BatchMatmul) -> _Product:
    """Return the sizes of a product; raise `NotOnEngine` for those that have no stages."""
    left, right = context.inputs
    rows, columns = context.output.shape[-MATRIX_RANK:]
    inner = left.shape[-2 if attributes.adj_x else -1]
    batch = context.output.shape[:-MATRIX_RANK]
    images, given = math.prod(batch), math.prod(left.shape[:-MATRIX_RANK])
    weight_images = math.prod(right.shape[:-MATRIX_RANK])
    if given != images or weight_images not in (1, images):
        raise NotOnEngine("the engine multiplies as many matrices by one or by as many")
    if weight_images == 1 and not attributes.adj_x and images * rows <= _MOST_ROWS:
        images, rows = 1, images * rows
    if max(rows, inner) > _MOST_ROWS:
        raise NotOnEngine(f"a matrix must have at most {_MOST_ROWS} rows, not {max(rows, inner)}")
    return _Product(
        images=images, rows=rows, inner=inner, columns=columns, weight_images=weight_images
    )


def _column_groups(product: _Product, config: Config) -> list[tuple[int, int]]:
    """Return the first column and the columns of each stage, whose panels fit on chip."""
    most = config.spad_bytes // _SHARE
    panel = product.panels(0, config.columns, config)
    count = most // (panel.block_bytes * product.weight_images)
    if not count:
        raise NotOnEngine(f"a panel of weights must have at most {most} bytes, not {panel.size}")
    step = count * config.columns
    return [
        (first, min(step, product.columns - first)) for first in range(0, product.columns, step)
    ]


def _copy(context: Context, source: int, result: str, copy: Copy, **place: int) -> ArrayStage:
    return copy_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=(context.sources[source], result),
        copy=copy,
        config=context.config,
        place=lambda grid: Placed(grid=grid, **{"offset": 0, "complete": 0, **place}),
    )


def _copied_panels(
    context: Context, product: _Product, panels: Panels, name: str
) -> Iterator[ArrayStage]:
    """Yield the copies of rows into panels: all full panels at once, where POST can step so far."""
    full, tail = divmod(panels.columns, panels.width)
    at_once = panels.block_bytes <= _LONGEST_STEP
    parts = [(0, full, panels.width)] if at_once else [(b, 1, panels.width) for b in range(full)]
    for block, width, size in [*parts, (full, 1, tail)]:
        if not width * size:
            continue
        copy = Copy(
            images=panels.images,
            in_rows=panels.inner,
            in_row_bytes=product.columns,
            out_rows=panels.inner,
            width=width,
            position_bytes=size,
            x_step=size if width > 1 else panels.width,
            first_byte=panels.first_column + block * panels.width,
        )
        yield _copy(
            context,
            1,
            name,
            copy,
            offset=block * panels.block_bytes,
            x_step=panels.block_bytes if width > 1 else panels.width,
            row_step=panels.width,
            image_step=panels.image_bytes,
        )


def _turned_panels(
    context: Context, product: _Product, panels: Panels, name: str
) -> Iterator[ArrayStage]:
    """Yield the copies of columns into panels, byte by byte: a panel's columns are rows there."""
    for block in range(panels.blocks):
        rows = min(panels.width, panels.columns - block * panels.width)
        copy = Copy(
            images=panels.images,
            in_rows=product.columns,
            in_row_bytes=panels.inner,
            out_rows=rows,
            width=panels.inner,
            position_bytes=1,
            x_step=1,
            first_row=panels.first_column + block * panels.width,
        )
        yield _copy(
            context,
            1,
            name,
            copy,
            offset=block * panels.block_bytes,
            x_step=panels.width,
            row_step=1,
            image_step=panels.image_bytes,
        )


def _transposed(context: Context, product: _Product, name: str) -> Iterator[ArrayStage]:
    """Yield the copy that transposes the first operand, byte by byte."""
    inner, rows = product.inner, product.rows
    copy = Copy(
        images=product.images,
        in_rows=inner,
        in_row_bytes=rows,
        out_rows=inner,
        width=rows,
        position_bytes=1,
        x_step=1,
    )
    size = product.images * inner * rows
    yield _copy(
        context, 0, name, copy, x_step=inner, row_step=1, image_step=inner * rows, complete=size
    )


def _parts(value: int) -> list[int]:
    """Return bytes that add up to a number from -127 to 128; none for 0."""
    return [value // 2, value // 2] if value > _LARGEST else [value] if value else []


def _weights(tensor: str, panels: Panels, zeros: tuple[int, int], config: Config) -> Computed:
    """Return panels as weights, with the EXECs that make up for zero points other than 0.

    (a - x)(b - y) is ab - ay - bx + xy: a multiplied by a tile of -y, then a row of -x by b. The
    bias is xy times the inner size.
    """
    tile, constants, found = config.rows * config.columns, b"", []
    for value in _parts(-zeros[1]):
        found.append(Correction(offset=len(constants), replaces_input=False))
        constants += np.full(tile, value, np.int8).tobytes()
    for value in _parts(-zeros[0]):
        found.append(Correction(offset=len(constants), replaces_input=True))
        constants += np.full(panels.inner, value, np.int8).tobytes()
    return Computed(
        tensor=tensor,
        layout=panels,
        steps=panels.depth // config.rows,
        tile_bytes=tile,
        constants=constants,
        corrections=tuple(found),
    )


def _rows_of(inner: int, steps: int) -> LoopNest:
    """Return the loops over rows of an operand; bytes beyond a row read as zeros."""
    return LoopNest(
        kernel_rows=1,
        kernel_row_step=1,
        kernel_cols=1,
        kernel_col_step=0,
        blocks=steps,
        oc_step=0,
        x_step=inner,
        y_step=1,
        pad_top=0,
        pad_left_bytes=0,
        pad_value=0,
    )


def _stage(
    context: Context,
    product: _Product,
    operands: tuple[str, str],
    panels: Panels,
    place: "partial[Placed] | None",
) -> ArrayStage:
    """Return the product of the first operand and some panels."""
    config = context.config
    zeros = context.inputs[0].zero_point, context.inputs[1].zero_point
    scale: Requantisation = context.result(
        *matmul_multiplier(context.graph, context.node), Activation.NONE
    )
    post = {"bias": zeros[0] * zeros[1] * product.inner, **scale.post()}
    grid = Grid(
        images=product.images,
        rows=product.rows,
        width=1,
        position_bytes=panels.columns,
        block_bytes=config.columns,
    )
    layout: OutputLayout = Dense(grid=grid) if place is None else place(grid=grid)
    weights = _weights(operands[1], panels, zeros, config)
    return ArrayStage(
        name=context.name,
        nodes=context.nodes,
        inputs=operands,
        output=context.results[0],
        input_layout=DenseInput(rows=product.rows, row_bytes=product.inner),
        output_layout=layout,
        loop_nest=_rows_of(product.inner, weights.steps),
        regions=(OutputRegion(first_row=0, end_row=product.rows, first_x=0, end_x=1, post=post),),
        weights=weights,
        params=np.zeros((grid.blocks, 0), np.uint8),
        macs=product.images * product.rows * product.inner * panels.columns,
    )
