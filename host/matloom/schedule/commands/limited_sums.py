"""Instructions of a tile whose sums are compared with its input, scaled by POST."""

from matloom.schedule.tiling.tiles import ArrayTile
from matloom.select.layout.base import Fields
from matloom.select.stage import ArrayStage

__all__ = ["halves", "limit_post"]


def halves(tile: ArrayTile) -> tuple[ArrayTile, ...]:
    """Return two parts of a tile, so that EXEC works on one while POST works on the other.

    They have half of the output blocks each, or half of the rows of a single block.
    """
    blocks = tile.end_block - tile.first_block
    if blocks > 1:
        middle = tile.first_block + blocks // 2
        return tile._replace(end_block=middle), tile._replace(first_block=middle)
    if tile.height > 1:
        middle = tile.first_row + tile.height // 2 * tile.row_step
        return tile._replace(end_row=middle), tile._replace(first_row=middle)
    return (tile,)


def limit_post(stage: ArrayStage, tile: ArrayTile, execute: Fields, params: int) -> Fields:
    """Return the fields of the POST that sets the accumulators to the input of an EXEC."""
    first = execute["first_row"] * execute["input_pitch"] + execute["first_byte"]
    return {
        "width": execute["width"],
        "height": execute["height"],
        "oc_blocks": execute["oc_blocks"],
        "tail": stage.grid.bytes_in(tile) - (execute["oc_blocks"] - 1) * stage.grid.block_bytes,
        "x_step": execute["x_step"],
        "acc_addr": execute["acc_addr"],
        "source_addr": execute["input_addr"] + first,
        "source_pitch": execute["input_pitch"] * execute["y_step"],
        "param_addr": params,
        **(stage.accumulator_post or {}),
    }
