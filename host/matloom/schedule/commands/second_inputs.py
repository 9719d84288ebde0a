"""Instructions that copy the second input of an array stage to the accumulators."""

from matloom.schedule.plan import Plan
from matloom.schedule.tiling.tiles import ArrayTile
from matloom.select.layout.base import Fields
from matloom.select.stage import ArrayStage


def second_input(plan: Plan, number: int, stage: ArrayStage, part: ArrayTile, entry: int) -> Fields:
    """Return the fields of the POST that adds the second input to the sums of a part of a tile.

    Parameters
    ----------
    number:
        Slot of the tile.
    part:
        The tile, or some of its rows.
    entry:
        First accumulator entry of the part.
    """
    name, size, grid = stage.addend, stage.grid.bytes_in(part), stage.grid
    assert name is not None
    width = part.end_x - part.first_x
    if name in plan.tensor_buffers:
        ((first, x_step, *_),) = stage.output_layout.writes(part)
        address, row = plan.address(name) + first, grid.width
    else:
        x_step, row = size, width
        address = plan.input_ranges[number, name][0].address
        address += (part.first_row - plan.slots[number].tile.first_row) * row * x_step
    blocks = part.end_block - part.first_block
    return {
        "width": width,
        "height": part.height,
        "oc_blocks": blocks,
        "tail": (size - (blocks - 1) * grid.block_bytes) // stage.element_bytes,
        "x_step": x_step,
        "acc_addr": entry,
        "source_addr": address,
        "source_pitch": x_step * row,
        **(stage.accumulator_post or {}),
    }
