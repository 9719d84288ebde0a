"""LEAKY_RELU without a table: EXEC keeps the larger of two sums."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from matloom.arch.config import Config
from matloom.ir.graph import Array
from matloom.kernels.two_slopes import TwoSlopes, rows_of
from matloom.select.constant import ConstantWeights
from matloom.select.context import Context, bias_post
from matloom.select.copies import row_grid
from matloom.select.layout.base import Fields
from matloom.select.layout.dense import Dense, DenseInput
from matloom.select.loop_nest import LoopNest, Rows
from matloom.select.stage import ArrayStage, OutputRegion
from matloom.select.weights import identity_tile

#: Number of weight tiles: for the steep sum, for the constant, and for the shallow sum.
_TILES = 3


@dataclass(frozen=True, kw_only=True)
class TwoSlopeLoops(LoopNest):
    """Loop nest of a LEAKY_RELU, with two EXECs for each tile, one for each slope.

    The first EXEC computes ``steep * byte + offset * outside`` (`TwoSlopes`): it reads the byte
    `outside` as a tap outside of the row. The second EXEC computes ``shallow * byte``, and keeps
    the larger of both sums.
    """

    def vectors_per_step(self, height: int, width: int) -> int:
        """Return the number of vectors that both EXECs stream for `height` rows of outputs.

        A row has `width` outputs.
        """
        return _TILES * height * width

    def executes(self, fields: Fields, rows: Rows, block_bytes: int) -> Iterator[Fields]:
        """Yield the fields of both EXECs of a tile, one for each slope."""
        del rows
        outside = {"kernel_cols": 2, "kernel_col_step": fields["input_row_bytes"]}
        yield {**fields, **outside}
        shallow = fields["weight_addr"] + block_bytes // _TILES * (_TILES - 1)
        yield {**fields, "maximum": 1, "accumulate": 1, "weight_addr": shallow}


def sloped_stage(context: Context, slopes: TwoSlopes) -> ArrayStage:
    """Return the stage of LEAKY_RELU with the parameters `slopes`."""
    config, (count, size) = context.config, rows_of(context.output.shape)
    grid = row_grid(count, size, config)
    multiplier, shift = slopes.scale
    post = {
        **bias_post(slopes.bias),
        "multiplier": int(multiplier),
        "shift": int(shift),
        "output_zero": context.output.zero_point,
        "rounding": slopes.rounding,
    }
    identity = identity_tile(config).view(np.int8)
    steep, shallow = (identity * np.int8(weight) for weight in (slopes.steep, slopes.shallow))
    tiles = np.concatenate([steep, _offset_tile(slopes.offset, config), shallow])
    return ArrayStage(
        name=context.name,
        nodes=context.nodes,
        inputs=context.sources[:1],
        output=context.results[0],
        input_layout=DenseInput(rows=grid.rows, row_bytes=size),
        output_layout=Dense(grid=grid),
        loop_nest=TwoSlopeLoops(x_step=grid.position_bytes, pad_value=slopes.outside),
        regions=(OutputRegion.whole(grid, post),),
        weights=ConstantWeights(tiles=tiles.view(np.uint8).reshape(1, 1, -1)),
        params=np.zeros((1, 0), np.uint8),
        macs=0,
    )


def _offset_tile(offset: int, config: Config) -> Array:
    """Return an int8 weight tile whose weights add up to `offset` in each column."""
    share, more = divmod(offset, config.rows)
    by_row = np.full(config.rows, share)
    by_row[:more] += 1
    return np.repeat(by_row, config.columns).astype(np.int8)
