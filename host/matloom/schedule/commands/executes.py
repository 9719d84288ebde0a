"""Fields of the EXECs of a tile: a single one, or several parts of its sums."""

from collections.abc import Iterator

from matloom.arch.config import Config
from matloom.schedule.commands.products import product_executes
from matloom.schedule.commands.second_parts import second_parts
from matloom.schedule.commands.shared_tails import shared_tail_executes
from matloom.schedule.plan import Plan
from matloom.schedule.tiling.tiles import ArrayTile
from matloom.select.layout.base import Fields
from matloom.select.operand import SharedTailWeights
from matloom.select.stage import ArrayStage
from matloom.select.two_parts import TwoPartWeights


def executes(
    plan: Plan, number: int, stage: ArrayStage, tile: ArrayTile, fields: Fields, config: Config
) -> Iterator[Fields]:
    """Yield the fields of the EXECs that compute the tile at slot `number` of the order.

    Parameters
    ----------
    fields:
        Fields of a single EXEC for the whole tile.
    """
    if stage.computed is not None:
        held = plan.weights.get(number)
        constants = 0 if held is None else held.address
        yield from product_executes(stage, tile, fields, constants, config)
        return
    tiles = [(tile, fields)]
    if isinstance(stage.weights, SharedTailWeights | TwoPartWeights):
        chunk = plan.tilings[plan.slots[number].stage].chunks[tile.chunk]
        address = plan.weights[number].address
        if isinstance(stage.weights, SharedTailWeights):
            yield from shared_tail_executes(stage, tile, chunk, fields, address, config)
            return
        tiles += second_parts(stage, tile, chunk, fields, address, config)
    for part, own in tiles:
        yield from _plain_executes(stage, part, own)


def _plain_executes(stage: ArrayStage, tile: ArrayTile, fields: Fields) -> Iterator[Fields]:
    """Yield the fields of each EXEC of a tile, given those of one EXEC for the whole tile."""
    apart = stage.input_layout.plane_bytes
    if not apart:
        rows = tile.first_row, tile.end_row
        yield from stage.loop_nest.executes(fields, rows, stage.weight_block_bytes)
        return
    for plane in range(tile.end_block - tile.first_block):
        yield {
            **fields,
            "oc_blocks": 1,
            "weight_addr": fields["weight_addr"] + plane * stage.weight_tile_bytes,
            "acc_addr": fields["acc_addr"] + plane * tile.positions * stage.sums_per_output,
            "input_addr": fields["input_addr"] + plane * apart,
        }
