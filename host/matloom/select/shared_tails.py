"""Packs weights of dense layers whose depth exceeds whole steps by a few rows of the array.

The last step of an output block would fill a whole tile with zeros. If LOADs of weights are the
bottleneck, several blocks share a tile instead.
"""

import numpy as np

from matloom.arch.config import Config
from matloom.ir.graph import Array
from matloom.select.constant import ConstantWeights
from matloom.select.loop_nest import LoopNest
from matloom.select.operand import Operand, SharedTailWeights
from matloom.select.window import Window

#: Minimum cycles of the bus that a shared tile must save, as its EXEC takes some 30 to dispatch.
_MIN_SAVED_CYCLES = 48

#: Minimum number of output blocks of a layer.
_LEAST_BLOCKS = 8


def share_tails(
    weights: ConstantWeights, nest: LoopNest, window: Window, config: Config
) -> Operand:
    """Return weights in which blocks of channels share the tile of their last step.

    A step is the part of the reduction that one weight tile covers.

    The weights are unchanged if the layer reads more than one tap, has few output blocks, or makes
    so many positions that LOADs of weights are not the bottleneck.
    """
    rest = window.depth % config.rows
    rows = -(-rest // config.weight_rows) * config.weight_rows
    single = nest.steps == nest.blocks == -(-window.depth // config.rows) > 1
    few = window.images == window.out_width == 1 and window.out_height < config.rows
    many = len(weights.tiles) >= _LEAST_BLOCKS
    if not (rest and single and few and many) or config.rows % rows:
        return weights
    if (config.rows // rows - 1) * weights.tile_bytes < _MIN_SAVED_CYCLES * config.bus_bytes:
        return weights
    tails: Array = weights.tiles[:, -1, : rows * config.columns]
    return SharedTailWeights(
        whole=ConstantWeights(tiles=np.ascontiguousarray(weights.tiles[:, :-1])),
        tails=np.ascontiguousarray(tails),
    )
