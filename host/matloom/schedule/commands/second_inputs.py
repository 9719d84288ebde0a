"""Instructions that copy the second input of an array stage to the accumulators."""

from collections.abc import Iterator
from typing import Any

from matloom.arch.isa import Source
from matloom.schedule.plan import Plan
from matloom.schedule.tiling.array_ranges import reads_whole_positions
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
        # The tiles of an array stage are of its kind.
        tile: Any = plan.slots[number].tile
        x_step, row = size, width
        address = plan.input_ranges[number, name][0].address
        if reads_whole_positions(stage, tile):
            x_step, address = grid.position_bytes, address + tile.first_block * grid.block_bytes
        address += (part.first_row - tile.first_row) * row * x_step
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


def with_addend(
    plan: Plan, number: int, stage: ArrayStage, tile: ArrayTile, post: Fields
) -> Iterator[Fields]:
    """Yield a POST of results, or the POSTs that also add the second input to them.

    POST has a single field for the step between positions. If the second input has another step
    than the results, each position becomes a row, since rows have a step on either side.
    """
    if not stage.adds_results:
        yield post
        return
    other = second_input(plan, number, stage, tile, post["acc_addr"])
    names = ("source_addr", "source_pitch")
    added = {**post, "source": Source.SPAD, **{name: other[name] for name in names}}
    written, read, width = post["x_step"], other["x_step"], post["width"]
    if written == read or width == 1:
        yield added
        return
    rows = {"width": 1, "source_pitch": read, "dest_pitch": written}
    gapless = (added["dest_pitch"], added["source_pitch"]) == (width * written, width * read)
    if gapless or post["height"] == 1:
        yield {**added, **rows, "height": width * post["height"]}
        return
    last = post["oc_blocks"] - 1
    for block in range(last + 1):
        for row in range(post["height"]):
            yield {
                **added,
                **rows,
                "height": width,
                "oc_blocks": 1,
                "tail": post["tail"] if block == last else stage.grid.block_bytes,
                "acc_addr": post["acc_addr"] + (block * post["height"] + row) * width,
                "param_addr": post["param_addr"] + block * stage.params.shape[1],
                **{
                    f"{side}_addr": added[f"{side}_addr"]
                    + block * stage.grid.block_bytes
                    + row * added[f"{side}_pitch"]
                    for side in ("source", "dest")
                },
            }
