"""Weight tiles whose last rows meet zeros: no LOAD has to bring these rows."""

from dataclasses import replace

from matloom.arch.config import Config
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import Constant
from matloom.select.stage import ArrayStage
from matloom.select.window import Window

#: Positions up to which a stage waits for its weights.
_FEW_POSITIONS = 16

#: Bytes of weights for each unused one up to which a LOAD by rows pays.
_LARGEST_SHARE = 32


def without_unused_rows(stage: ArrayStage, window: Window, config: Config) -> ArrayStage:
    """Return a convolution whose LOADs leave out the unused rows of its last weight tiles.

    They meet padding, which may be zero, if each position is a whole row of the input. That pays in
    a stage of few positions, which waits for its weights. Other stages stay as they are.
    """
    nest, weights = stage.loop_nest, stage.weights
    rows = -window.depth % config.rows
    alone = window.is_pointwise and window.in_width == 1
    # Taller stages may start with parts of their weights.
    few = window.images * window.out_height < min(_FEW_POSITIONS, 4 * config.tile_load_cycles)
    whole = stage.steps * config.rows == window.depth + rows
    if not (alone and few and whole) or rows * _LARGEST_SHARE < window.depth:
        return stage
    if stage.mode != "i8xi8" or type(nest) is not LoopNest or not isinstance(weights, Constant):
        return stage
    unused = rows * config.columns
    return replace(
        stage, loop_nest=replace(nest, pad_value=0), weights=replace(weights, unused=unused)
    )
