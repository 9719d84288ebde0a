"""Stages of MAXIMUM and MINIMUM of two computed tensors, as pooling over pairs of rows."""

from functools import partial
from math import prod

import numpy as np

from matloom.arch.isa import Opcode, largest
from matloom.ir.graph import Op
from matloom.ir.shapes import IMAGE_RANK
from matloom.select.context import Context, NotOnEngine, unchanged
from matloom.select.copies import Copy, copy_stage, lines, planes
from matloom.select.layout.base import Grid
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.layout.placed import Placed
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import same_weights
from matloom.select.stage import ArrayStage, OutputRegion
from matloom.select.weights import identity_tile

__all__ = ["extreme"]

#: The maximum distance in bytes between a row of one tensor and that of the other.
_LONGEST_ROW = largest(Opcode.EXEC, "kernel_col_step")


def extreme(context: Context) -> tuple[ArrayStage, ...]:
    """Return the stages of MAXIMUM or MINIMUM of two computed int8 tensors.

    Rows of both are interleaved in one tensor, if possible by their producers. EXEC keeps the
    maximum of each pair. For minima, bytes are complemented first, and a copy complements the
    results.
    """
    _check(context)
    shape, pair = context.output.shape, context.derived("pair")
    rows = shape[0] * shape[1] if len(shape) == IMAGE_RANK else prod(shape[:-1])
    size = context.output.size_bytes // rows
    if size > _LONGEST_ROW:
        raise NotOnEngine(f"rows that are compared have at most {_LONGEST_ROW} bytes, not {size}")
    copies = [
        _beside(context, source, lines(rows, size, context.config), pair) for source in range(2)
    ]
    if context.node.op is Op.MAXIMUM:
        return (*copies, _maxima(context, (rows, size), (pair, context.results[0])))
    negated = context.derived("negated")
    maxima = _maxima(context, (rows, size), (pair, negated), negate=True)
    restored = copy_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=(negated, context.results[0]),
        copy=lines(rows, size, context.config),
        config=context.config,
        complement=True,
    )
    return (*copies, maxima, restored)


def _check(context: Context) -> None:
    """Raise `NotOnEngine` if the engine cannot compare the two inputs."""
    first, second = context.inputs
    if not context.config.maximum:
        raise NotOnEngine("it keeps maxima, and the configuration has maximum = 0")
    if first.data is not None or not first.shape == context.output.shape == second.shape:
        raise NotOnEngine(f"it broadcasts {second.shape} to {context.output.shape}")
    if context.output.dtype != "int8":
        raise NotOnEngine("the engine compares computed tensors of int8")
    if not first.quantisation == second.quantisation == context.output.quantisation:
        raise NotOnEngine("its tensors must have one scale and one zero point")


def _beside(context: Context, source: int, copy: Copy, target: str) -> ArrayStage:
    """Return the copy of an input into every second row of the interleaved tensor."""
    size = copy.in_row_bytes
    total = 2 * size * copy.images * copy.out_rows
    return copy_stage(
        name=context.name,
        nodes=context.nodes,
        tensors=(context.sources[source], target),
        copy=copy,
        config=context.config,
        place=partial(
            Placed,
            offset=source * size,
            x_step=copy.position_bytes,
            row_step=2 * size,
            image_step=copy.out_rows * 2 * size,
            complete=source * total,
            line=size,
        ),
    )


def _maxima(
    context: Context, shape: tuple[int, int], tensors: tuple[str, str], *, negate: bool = False
) -> ArrayStage:
    """Return the stage of pairwise maxima; of complemented bytes, -1 less the minimum."""
    config, (count, size) = context.config, shape
    images, rows = planes(count)
    most = min(config.rows, config.columns)
    position = max(number for number in range(1, most + 1) if size % number == 0)
    grid = Grid(
        images=images,
        rows=rows,
        width=size // position,
        position_bytes=position,
        block_bytes=position,
    )
    tile = identity_tile(config)
    region = OutputRegion(
        first_row=0, end_row=rows, first_x=0, end_x=grid.width, post=unchanged(-int(negate))
    )
    return ArrayStage(
        name=context.name,
        nodes=context.nodes,
        inputs=tensors[:1],
        output=tensors[1],
        input_layout=DenseInput(rows=rows, row_bytes=2 * size),
        output_layout=Dense(grid=grid),
        loop_nest=_pairs(size, position),
        regions=(region,),
        weights=same_weights((-tile.view(np.int8)).view(np.uint8) if negate else tile, 1),
        params=np.zeros((1, 0), np.uint8),
        macs=0,
    )


def _pairs(size: int, position: int) -> LoopNest:
    """Return the loop nest over positions of some bytes, each with the position in the next row."""
    return LoopNest(
        kernel_rows=1,
        kernel_row_step=1,
        kernel_cols=2,
        kernel_col_step=size,
        blocks=1,
        oc_step=0,
        x_step=position,
        y_step=1,
        pad_top=0,
        pad_left_bytes=0,
        pad_value=0,
        maximum=True,
        weights_fixed=True,
    )
