"""POSTs that combine the second input of an array stage with its sums or results."""

from collections.abc import Iterator
from typing import Any

from matloom.arch.isa import Source
from matloom.schedule.plan import Plan
from matloom.schedule.tiling.array_ranges import addend_part, reads_whole_positions
from matloom.schedule.tiling.tiles import ArrayTile
from matloom.select.layout.base import Fields
from matloom.select.stage import ArrayStage


def second_input(
    plan: Plan, slot_index: int, stage: ArrayStage, part: ArrayTile, entry: int
) -> Fields:
    """Return the fields of the POST that adds the second input to the sums of some rows of a tile.

    Parameters
    ----------
    slot_index:
        Index of the tile in the order of all tiles.
    part:
        The tile, or some of its rows.
    entry:
        First accumulator entry of the part.
    """
    name, grid = stage.addend, stage.addend_layout.grid
    assert name is not None
    size, width = grid.bytes_in(part), part.end_x - part.first_x
    if name in plan.tensor_buffers:
        ((first, x_step, *_),) = stage.addend_layout.writes(part)
        address, row = plan.address(name) + first, grid.width
    else:
        # The tiles of an array stage are of its kind.
        tile: Any = plan.slots[slot_index].tile
        x_step, row = size, width
        held, read = plan.input_ranges[slot_index, name]
        address = held.address
        whole = grid.position_bytes
        if read.rows == 1 and not (read.start % whole or read.width % whole):
            x_step, row = whole, grid.width
            output = part.image, part.first_row, part.first_x, part.first_block
            address += stage.addend_layout.byte(*output) - read.start
        elif reads_whole_positions(stage, tile):
            x_step, address = whole, address + tile.first_block * grid.block_bytes
            address += (part.first_row - tile.first_row) * row * x_step
        else:
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
    """Yield the POST of results unchanged, or POSTs that also add the second input.

    For channels that the second input lacks, they add constants, which follow the stage's table in
    its buffer.
    """
    if not stage.reads_with_sums:
        yield post
        return
    part = addend_part(stage, tile)
    count = 0 if part is None else part.end_block - part.first_block
    if part is not None:
        added = second_input(plan, number, stage, part, post["acc_addr"])
        blocks = stage.grid.block_bytes
        some = post if count == post["oc_blocks"] else {**post, "oc_blocks": count, "tail": blocks}
        yield from _sum_posts(stage, some, added)
    if count < post["oc_blocks"]:
        first = tile.first_block + count - stage.addend_layout.grid.blocks
        constants = plan.tables[plan.slots[number].stage].address
        if stage.table is not None:
            constants += stage.table.nbytes
        constants += first * stage.grid.block_bytes
        nowhere = {"source_addr": constants, "source_pitch": 0, "x_step": 0}
        yield from _sum_posts(stage, _skip_blocks(stage, post, count), nowhere)


def _skip_blocks(stage: ArrayStage, post: Fields, count: int) -> Fields:
    """Return the POST fields, changed to leave out the first `count` blocks of channels."""
    return {
        **post,
        "oc_blocks": post["oc_blocks"] - count,
        "acc_addr": post["acc_addr"] + count * post["width"] * post["height"],
        "param_addr": post["param_addr"] + count * stage.params.shape[1],
        "dest_addr": post["dest_addr"] + count * stage.grid.block_bytes,
    }


def _sum_posts(stage: ArrayStage, post: Fields, other: Fields) -> Iterator[Fields]:
    """Yield the POSTs that add other bytes to results, and write the sums.

    `other` has the fields that locate these bytes. POST has a single field for the step between
    positions. If the other bytes have another step than the results, each position becomes a row,
    because the steps between rows of source and destination may differ.
    """
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
