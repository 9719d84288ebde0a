"""Instructions of a tile whose EXEC keeps the larger of its sums and an input scaled by POST."""

from matloom.schedule.plan import Load, Plan
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.tiles import ArrayTile
from matloom.select.layout.base import Fields
from matloom.select.stage import ArrayStage


def limit_post(stage: ArrayStage, tile: ArrayTile, execute: Fields, params: int) -> Fields:
    """Return the fields of the POST that puts scaled input into accumulators, for a maximum.

    The EXEC keeps the larger of this limit and its sums. `params` is the address of the parameters
    that scale the input.
    """
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


def affects_results(segment: Segment, plan: Plan, load: Load, slot_index: int) -> bool:
    """Return whether a LOAD overwrites bytes that a tile's results use, or reads the results.

    `slot_index` is the place of the tile in the order of all tiles.
    """
    stage = plan.slots[slot_index].stage
    if load.what[:2] == ("tensor", segment.stages[stage].output):
        return True
    used = (
        *(plan.weights.get(slot_index), plan.stagings.get(slot_index)),
        *(plan.param_buffers.get(stage), plan.tables.get(stage)),
    )
    return any(each is not None and load.buffer.overlaps(each) for each in used)
