"""Transposes operands of matrix products: the first operand, and the second one into panels."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from matloom.arch.config import Config
from matloom.select.context import Context
from matloom.select.copies import Copy, copy_stage
from matloom.select.layout.base import Grid
from matloom.select.layout.panels import Panels
from matloom.select.layout.placed import Placed
from matloom.select.matrix_transposes import (
    MatrixTranspose,
    interleaving_stages,
    transpose_matrices,
)
from matloom.select.stage import ArrayStage


@dataclass(frozen=True, kw_only=True)
class Product:
    """Sizes of a product: `images` matrices (rows, inner) by `weight_images` of (inner, columns).

    There are as many `weight_images` as `images`, or one for all of them.
    """

    images: int
    rows: int
    inner: int
    columns: int
    weight_images: int

    def panels(self, first: int, columns: int, config: Config, *, transposed: bool) -> Panels:
        """Return the panels of `columns` columns from column `first` on.

        With `transposed`, the second operand is stored as (columns, inner), and these are its rows.
        """
        rows, row_bytes = (columns, self.inner) if transposed else (self.inner, columns)
        return Panels(
            images=self.weight_images,
            inner=rows,
            columns=row_bytes,
            depth=-(-rows // config.rows) * config.rows,
            width=config.columns,
            first_row=first if transposed else 0,
            first_column=0 if transposed else first,
            transposed=transposed,
        )


def _copy_stage(context: Context, source: int, result: str, copy: Copy, **place: Any) -> ArrayStage:
    """Return the stage that copies operand number `source` to the tensor `result`, at `place`."""
    return copy_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=(context.sources[source], result),
        copy=copy,
        config=context.config,
        place=lambda grid: Placed(grid=grid, **{"offset": 0, "complete": 0, **place}),
    )


def transpose_into_panels(
    context: Context, product: Product, panels: Panels, name: str
) -> Iterator[ArrayStage]:
    """Yield the stages that transpose the second operand into weight tiles: the tensor `name`."""
    task = MatrixTranspose(
        images=panels.images,
        in_rows=product.columns,
        row_bytes=panels.inner,
        rows=panels.columns,
        first_row=panels.first_column,
    )

    def place(*, grid: Grid, at: int) -> Placed:
        """Return the layout of rows that begin at column `at` of all panels."""
        return Placed(
            grid=grid,
            offset=at // panels.width * panels.block_bytes,
            x_step=panels.width,
            row_step=panels.block_bytes,
            image_step=panels.image_bytes,
            complete=0,
        )

    steps = task.steps(context.config)
    if steps is None:
        yield from _transpose_bytes(context, product, panels, name)
    else:
        yield from interleaving_stages(context, (context.sources[1], name), task, steps, place)


def _transpose_bytes(
    context: Context, product: Product, panels: Panels, name: str
) -> Iterator[ArrayStage]:
    """Yield stages that each copy rows of the second operand to the columns of one panel."""
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
        yield _copy_stage(
            context,
            1,
            name,
            copy,
            offset=block * panels.block_bytes,
            x_step=panels.width,
            row_step=1,
            image_step=panels.image_bytes,
        )


def transpose_first_operand(
    context: Context, product: Product, name: str
) -> tuple[ArrayStage, ...]:
    """Return the stages that transpose the first operand into the tensor `name`."""
    inner, rows = product.inner, product.rows
    task = MatrixTranspose(images=product.images, in_rows=inner, row_bytes=rows, rows=inner)
    stages = transpose_matrices(context, (context.sources[0], name), task)
    if stages:
        return stages
    size = product.images * inner * rows
    copy = Copy(
        images=product.images,
        in_rows=inner,
        in_row_bytes=rows,
        out_rows=inner,
        width=rows,
        position_bytes=1,
        x_step=1,
    )
    stage = _copy_stage(
        context, 0, name, copy, x_step=inner, row_step=1, image_step=inner * rows, complete=size
    )
    return (stage,)
