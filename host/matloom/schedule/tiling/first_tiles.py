"""First tiles of stages whose last steps read the result of the tile before.

The other steps are done meanwhile. So the first tile is of one output block, its steps are in
parts, and it has as many rows as keep the array busy until then.
"""

import itertools

from matloom.schedule import tuning
from matloom.select.stage import ArrayStage

__all__ = ["first_parts", "first_rows"]

#: Steps from the chunk (number) of weights that they are in, half open.
_Steps = tuple[int, int, int]

#: Pieces of rows that become the first tile.
_JOINED = 2


def _turns(stage: ArrayStage) -> tuple[int, int]:
    """Return the turns of the outermost loop that has several, and the steps of each."""
    loops = stage.loop_nest.fields((0, 1), (0, 1), 0)
    if loops["kernel_rows"] > 1:
        return loops["kernel_rows"], loops["kernel_cols"] * loops["blocks"]
    if loops["kernel_cols"] > 1:
        return loops["kernel_cols"], loops["blocks"]
    return loops["blocks"], 1


def first_parts(stage: ArrayStage, steps: list[_Steps]) -> list[_Steps]:
    """Cut the steps of a tile where they are not in parts anyway, between two turns of a loop.

    The last part is the last third of the steps. The first is half of them, because what the tile
    before the last makes may be late as well; of pooling, which has few vectors to a step, it is
    all the others.
    """
    turns, unit = _turns(stage)
    if len(steps) > 1 or turns == 1:
        return steps
    ((chunk, first, end),) = steps
    third = max(1, turns // 3)
    last = third if stage.loop_nest.weights_fixed else turns // 2
    edges = sorted({first, end - last * unit, end - third * unit, end})
    return [(chunk, *part) for part in itertools.pairwise(edges)]


def first_rows(
    stage: ArrayStage, pieces: list[tuple[int, int]], width: int, most: int
) -> list[tuple[int, int]]:
    """Return the rows of tiles, with the first two joined if the first alone ends too soon.

    A tile has `width` positions of a row, and at most so many rows.
    """
    turns, unit = _turns(stage)
    if len(pieces) <= _JOINED or turns == 1:
        return pieces
    (first, middle), (_middle, end), *others = pieces
    steps = stage.loop_nest.steps - max(1, turns // 3) * unit
    if (middle - first) * width * steps >= tuning.RESULT_LATENCY or end - first > most:
        return pieces
    return [(first, end), *others]
