"""Shapes the first tiles of stages, whose last steps read the previous stage's last result.

The other steps can run before that result exists. So the first tile has one output block, its
steps are split, and it has enough rows to keep the array busy meanwhile.
"""

import itertools

from matloom.schedule import tuning
from matloom.select.stage import ArrayStage

#: Index of a weight chunk, and a range of its steps (half open).
_Steps = tuple[int, int, int]

#: Number of pieces of rows that become the first tile.
_JOINED_PIECES = 2


def _outer_loop(stage: ArrayStage) -> tuple[int, int]:
    """Return the number of iterations of the outermost EXEC loop above 1, and the steps in each.

    A step is the part of the reduction that one weight tile covers.
    """
    loops = stage.loop_nest.fields((0, 1), (0, 1), 0)
    if loops["kernel_rows"] > 1:
        return loops["kernel_rows"], loops["kernel_cols"] * loops["blocks"]
    if loops["kernel_cols"] > 1:
        return loops["kernel_cols"], loops["blocks"]
    return loops["blocks"], 1


def split_first_steps(stage: ArrayStage, steps: list[_Steps]) -> list[_Steps]:
    """Split the steps (weight tiles) of a stage's first tile into three parts at most.

    The last part is the last third of the steps. The first part is half of the steps, because the
    result of the last tile but one may be late as well. In pooling, which streams few vectors per
    step, there are two parts. Steps that have been split before are returned unchanged.
    """
    iterations, unit = _outer_loop(stage)
    if len(steps) > 1 or iterations == 1:
        return steps
    ((chunk, first, end),) = steps
    third = max(1, iterations // 3)
    last = third if stage.loop_nest.weights_fixed else iterations // 2
    edges = sorted({first, end - last * unit, end - third * unit, end})
    return [(chunk, *part) for part in itertools.pairwise(edges)]


def join_first_rows(
    stage: ArrayStage, pieces: list[tuple[int, int]], width: int, most: int
) -> list[tuple[int, int]]:
    """Join the first two ranges of rows in `pieces` if a tile of the first alone is too short.

    A tile has `width` positions per row and at most `most` rows.
    """
    iterations, unit = _outer_loop(stage)
    if len(pieces) <= _JOINED_PIECES or iterations == 1:
        return pieces
    (first, middle), (_middle, end), *others = pieces
    steps = stage.loop_nest.steps - max(1, iterations // 3) * unit
    if (middle - first) * width * steps >= tuning.RESULT_LATENCY or end - first > most:
        return pieces
    return [(first, end), *others]
