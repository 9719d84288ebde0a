"""Transposes matrices of bytes with the array, which reads them as transposed weights.

The rows of an identity matrix are streamed as vectors. Each of them selects one column of a matrix,
which is a vector of the result.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from matloom.arch.config import Config
from matloom.select.bands import copy_panels
from matloom.select.context import Context, bias_post
from matloom.select.layout.base import Grid
from matloom.select.layout.dense import DenseInput
from matloom.select.layout.panels import Panels
from matloom.select.layout.placed import Placed
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import ComputedWeights, Selection
from matloom.select.stage import ArrayStage, OutputRegion

#: The matrices, which stay on chip, fill at most the scratchpad's size divided by this number.
_SPAD_DIVISOR = 4


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Columns of matrices that one stage transposes.

    They are `count` columns from the start of panel `panel`, of each of `images` images.
    """

    images: int
    panel: int
    count: int


def array_transpose_stages(
    context: Context, tensors: tuple[str, str], shape: tuple[int, int, int]
) -> Iterator[ArrayStage]:
    """Yield the stages that transpose matrices (images, rows, columns).

    There are none if EXEC cannot transpose weights, or if the matrices are too large.

    Parameters
    ----------
    tensors:
        Names of the matrices and of the result, (images, columns, rows).
    """
    config, (images, rows, columns) = context.config, shape
    panels = Panels(
        images=images,
        inner=rows,
        columns=columns,
        depth=-(-rows // config.rows) * config.rows,
        width=config.columns,
    )
    if not config.transposed_weights or panels.size > config.spad_bytes // _SPAD_DIVISOR:
        return
    name = context.buffer_name(f"{tensors[1]}, panels")
    yield from copy_panels(context, (tensors[0], name), (rows, columns), panels)
    parts = list(_parts(panels))
    for part in parts:
        yield _transpose_part(context, (name, tensors[1]), panels, part, last=part == parts[-1])


def _parts(panels: Panels) -> Iterator[_Part]:
    """Divide the columns of panels into parts, one for each stage.

    Full panels whose results are adjacent are the images of a single part.
    """
    full, tail = divmod(panels.columns, panels.width)
    adjacent = full if panels.images == 1 or not tail else 0
    if adjacent:
        yield _Part(images=panels.images * full, panel=0, count=panels.width)
    for panel in range(adjacent, panels.blocks):
        count = panels.width if panel < full else tail
        yield _Part(images=panels.images, panel=panel, count=count)


def _transpose_part(
    context: Context, tensors: tuple[str, str], panels: Panels, part: _Part, *, last: bool
) -> ArrayStage:
    """Return the stage that makes a row of the result for each column of a part."""
    config = context.config
    grid = Grid(
        images=part.images,
        rows=1,
        width=part.count,
        position_bytes=panels.inner,
        block_bytes=config.columns,
    )
    matrix = panels.inner * panels.columns
    single = part.images > panels.images
    return ArrayStage(
        name=context.name,
        nodes=context.nodes,
        inputs=tensors[:1],
        output=tensors[1],
        input_layout=DenseInput(rows=1, row_bytes=panels.size),
        output_layout=Placed(
            grid=grid,
            offset=part.panel * config.columns * panels.inner,
            x_step=panels.inner,
            row_step=panels.inner,
            image_step=part.count * panels.inner if single else matrix,
            complete=panels.images * matrix if last else 0,
        ),
        loop_nest=LoopNest(x_step=config.rows),
        regions=(OutputRegion.whole(grid, bias_post()),),
        weights=_selecting_weights(tensors[0], panels, part, config),
        params=np.zeros((grid.blocks, 0), np.uint8),
        macs=0,
    )


def _selecting_weights(tensor: str, panels: Panels, part: _Part, config: Config) -> ComputedWeights:
    """Return panels as weights, with constant vectors that each select one column of a matrix."""
    several = part.images > panels.images
    layout = replace(
        panels,
        images=part.images,
        columns=config.columns if several else panels.columns,
        transposed=True,
    )
    first = part.panel * panels.depth // config.rows
    return ComputedWeights(
        tensor=tensor,
        layout=layout,
        steps=1,
        tile_bytes=config.rows * config.columns,
        constants=np.eye(config.rows, dtype=np.int8)[: part.count].tobytes(),
        selections=(Selection(offset=0, first_tile=first, iterations=1, tiles=1),),
    )
