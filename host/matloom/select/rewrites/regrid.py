"""Changes the length of rows of position-wise stages.

They make each position from the input at the same place, so rows may be cut anywhere.
"""

from dataclasses import replace

from matloom.select.constant import ConstantWeights
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.loop_nest import LoopNest
from matloom.select.stage import ArrayStage, OutputRegion


def resize_rows(stage: ArrayStage, width: int) -> ArrayStage | None:
    """Return a stage whose outputs are cut into rows of `width` positions.

    Return None if its outputs cannot be cut into such rows. Weights must be constant: a step may
    read beyond its position, where they are zero.
    """
    grid, nest, given = stage.grid, stage.loop_nest, stage.input_layout
    rows, rest = divmod(grid.rows * grid.width, width)
    if rest or not isinstance(nest, LoopNest) or not isinstance(given, DenseInput):
        return None
    single = (nest.kernel_rows, nest.kernel_cols, nest.y_step) == (1, 1, 1)
    inside = not (nest.pad_top or nest.pad_left_bytes or nest.oc_step or nest.weights_fixed)
    same = (given.rows, given.row_bytes) == (grid.rows, grid.width * nest.x_step)
    plain = isinstance(stage.output_layout, Dense) and isinstance(stage.weights, ConstantWeights)
    if not (single and inside and same and plain and len(stage.regions) == 1):
        return None
    grid = replace(grid, rows=rows, width=width)
    return replace(
        stage,
        input_layout=DenseInput(rows=rows, row_bytes=width * nest.x_step),
        output_layout=replace(stage.output_layout, grid=grid),
        regions=(OutputRegion.whole(grid, stage.regions[0].post),),
    )
