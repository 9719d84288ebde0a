"""Stages of products of computed tensors; the second one becomes weights, in panels on chip."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from matloom.arch.config import Config
from matloom.arch.isa import Opcode, largest
from matloom.arch.numerics import LARGEST_LIMBS, LIMBS
from matloom.ir.attributes import Activation, BatchMatmul
from matloom.ir.scales import layer_rounding, product_multiplier
from matloom.ir.shapes import MATRIX_RANK
from matloom.select.bands import copy_panels
from matloom.select.context import Context, NotOnEngine
from matloom.select.layout.base import Grid, OutputLayout
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.layout.panels import Panels
from matloom.select.layout.placed import Placed
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import ComputedWeights, Correction
from matloom.select.panel_copies import (
    Product,
    transpose_first_operand,
    transpose_into_panels,
)
from matloom.select.requantisation import UNSCALED, Requantisation
from matloom.select.stage import ArrayStage, OutputRegion

#: Maximum number of rows of an EXEC.
_MOST_ROWS = largest(Opcode.EXEC, "height")
#: Largest int8 value.
_MAX_INT8 = 127
#: The panels of a stage fill at most the scratchpad's size divided by this number.
_SPAD_DIVISOR = 4


def batch_matmul(context: Context) -> tuple[ArrayStage, ...]:
    """Return the stages of BATCH_MATMUL of int8."""
    attributes = context.node.attributes_as(BatchMatmul)
    product = _product_sizes(context, attributes)
    left = context.sources[0]
    copies: list[ArrayStage] = []
    if attributes.adj_x:
        left = context.buffer_name("first input, transposed")
        copies += transpose_first_operand(context, product, left)
    if context.output.dtype == "int32":
        _check_sums(context, product)
        scale = UNSCALED
    else:
        scale = context.result(*product_multiplier(context.graph, context.node), Activation.NONE)
        scale = replace(scale, rounding=layer_rounding(context.node))
    stages = _product_stages(context, product, left, scale, adj_y=attributes.adj_y)
    return (*copies, *stages)


def _check_sums(context: Context, product: Product) -> None:
    """Raise `NotOnEngine` if sums may be too large for the bytes in which POST stores them."""
    farthest = (max(128 + each.zero_point, 127 - each.zero_point) for each in context.inputs[:2])
    most = math.prod(farthest) * product.inner
    if most >= LARGEST_LIMBS:
        raise NotOnEngine(f"sums must be below {LARGEST_LIMBS} to be read, and may be {most}")


def dense_product(context: Context, activation: Activation) -> tuple[ArrayStage, ...]:
    """Return the stages of FULLY_CONNECTED of int8 whose weights (units, depth) are computed."""
    units, depth = context.inputs[1].shape
    product = Product(
        images=1,
        rows=context.inputs[0].size // depth,
        inner=depth,
        columns=units,
        weight_images=1,
    )
    _check_rows(product)
    scale = context.result_by_channel(activation)
    return tuple(_product_stages(context, product, context.sources[0], scale, adj_y=True))


def _product_stages(
    context: Context, product: Product, left: str, scale: Requantisation, *, adj_y: bool
) -> Iterator[ArrayStage]:
    """Yield the stages that copy the second operand into weight tiles, then those that multiply.

    `left` is the name of the first operand; `adj_y` says that the second one is transposed.
    """
    transposed = adj_y and bool(context.config.transposed_weights)
    groups = _column_groups(product, context.config, transposed=transposed)
    if len(groups) > 1 and scale is UNSCALED:
        raise NotOnEngine("the sums of a product must be made by panels that all fit on chip")
    for number, (first, columns) in enumerate(groups):
        panels = product.panels(first, columns, context.config, transposed=transposed)
        name = context.buffer_name(f"weights {number}")
        if adj_y and not transposed:
            yield from transpose_into_panels(context, product, panels, name)
        else:
            shape = product.inner, product.columns
            if transposed:
                shape = product.columns, product.inner
            yield from copy_panels(context, (context.sources[1], name), shape, panels)
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
        yield _panel_product_stage(
            context,
            product,
            (left, name),
            panels,
            scale,
            place,
            rows_of=None if len(groups) > 1 or adj_y > transposed else context.sources[1],
        )


def _product_sizes(context: Context, attributes: BatchMatmul) -> Product:
    """Return the sizes of a product; raise `NotOnEngine` if the engine cannot compute it."""
    left, right = context.inputs[:2]
    rows, columns = context.output.shape[-MATRIX_RANK:]
    inner = left.shape[-2 if attributes.adj_x else -1]
    batch = context.output.shape[:-MATRIX_RANK]
    images, given = math.prod(batch), math.prod(left.shape[:-MATRIX_RANK])
    weight_images = math.prod(right.shape[:-MATRIX_RANK])
    if given != images or weight_images not in (1, images):
        raise NotOnEngine("the engine multiplies as many matrices by one or by as many")
    if weight_images == 1 and not attributes.adj_x and images * rows <= _MOST_ROWS:
        images, rows = 1, images * rows
    product = Product(
        images=images, rows=rows, inner=inner, columns=columns, weight_images=weight_images
    )
    _check_rows(product)
    return product


def _check_rows(product: Product) -> None:
    """Raise `NotOnEngine` if a matrix has more rows than EXEC counts."""
    rows = max(product.rows, product.inner)
    if rows > _MOST_ROWS:
        raise NotOnEngine(f"a matrix must have at most {_MOST_ROWS} rows, not {rows}")


def _column_groups(product: Product, config: Config, *, transposed: bool) -> list[tuple[int, int]]:
    """Return (first column, number of columns) of the part of the result that each stage makes.

    There are as few stages as possible, whose panels of the second operand fit the scratchpad.
    `transposed` is as in `Product.panels`.

    Raises
    ------
    NotOnEngine
        Even a single panel does not fit.
    """
    most = config.spad_bytes // _SPAD_DIVISOR
    panel = product.panels(0, config.columns, config, transposed=transposed)
    count = most // panel.size
    if not count:
        raise NotOnEngine(f"a panel of weights must have at most {most} bytes, not {panel.size}")
    step = count * config.columns
    return [
        (first, min(step, product.columns - first)) for first in range(0, product.columns, step)
    ]


def _byte_summands(value: int) -> list[int]:
    """Return bytes that add up to `value`, each from -127 to 128; none for 0."""
    return [value // 2, value // 2] if value > _MAX_INT8 else [value] if value else []


def _computed_weights(
    tensor: str, panels: Panels, zeros: tuple[int, int], config: Config
) -> ComputedWeights:
    """Return a tensor of weight tiles (panels) as an operand, with the terms of zero points.

    EXEC subtracts zero points, or further EXECs correct for them by (a - x)(b - y) = ab - ay - bx +
    xy: they multiply a by a tile of -y, then a row of -x by b. The bias is xy times the inner size.
    """
    tile, constants, found = config.rows * config.columns, b"", []
    subtracted = zeros if config.zero_points else (0, 0)
    input_zero, weight_zero = (0, 0) if config.zero_points else zeros
    for value in _byte_summands(-weight_zero):
        found.append(Correction(offset=len(constants), replaces_input=False))
        constants += np.full(tile, value, np.int8).tobytes()
    for value in _byte_summands(-input_zero):
        found.append(Correction(offset=len(constants), replaces_input=True))
        constants += np.full(panels.reduction, value, np.int8).tobytes()
    return ComputedWeights(
        tensor=tensor,
        layout=panels,
        steps=-(-panels.reduction // config.rows),
        tile_bytes=tile,
        zero_points=subtracted,
        constants=constants,
        corrections=tuple(found),
    )


def _row_loops(inner: int, steps: int) -> LoopNest:
    """Return the loops over rows of an operand, `inner` bytes each, in `steps` weight tiles.

    Bytes beyond the end of a row are read as zeros.
    """
    return LoopNest(blocks=steps, x_step=inner)


def _panel_product_stage(
    context: Context,
    product: Product,
    operands: tuple[str, str],
    panels: Panels,
    scale: Requantisation,
    place: "partial[Placed] | None",
    *,
    rows_of: str | None,
) -> ArrayStage:
    """Return the stage that multiplies the first operand by some panels of the second.

    `place` makes the layout of the results in a shared tensor; None stores them densely.
    """
    config = context.config
    zeros = context.inputs[0].zero_point, context.inputs[1].zero_point
    bias = 0 if config.zero_points else zeros[0] * zeros[1] * product.inner
    post = {"bias": bias, **scale.post()}
    grid = Grid(
        images=product.images,
        rows=product.rows,
        width=1,
        position_bytes=panels.outputs,
        block_bytes=config.columns,
    )
    limbs = len(LIMBS) if context.output.dtype == "int32" else 1
    layout: OutputLayout = Dense(grid=grid, limbs=limbs) if place is None else place(grid=grid)
    weights = replace(_computed_weights(operands[1], panels, zeros, config), copied_tensor=rows_of)
    return ArrayStage(
        name=context.name,
        nodes=context.nodes,
        inputs=operands,
        output=context.results[0],
        input_layout=DenseInput(rows=product.rows, row_bytes=product.inner),
        output_layout=layout,
        loop_nest=_row_loops(product.inner, weights.steps),
        regions=(OutputRegion(first_row=0, end_row=product.rows, first_x=0, end_x=1, post=post),),
        weights=weights,
        params=np.zeros((grid.blocks, 0), np.uint8),
        macs=product.images * product.rows * product.inner * panels.outputs,
    )
