"""Parts of inputs that tiles of array stages read."""

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.tiling.tile_reads import InputRange
from matloom.schedule.tiling.tiles import ArrayTile, input_box
from matloom.select.exec_steps import Box
from matloom.select.stage import ArrayStage


def array_input_range(stage: ArrayStage, tile: ArrayTile, box: Box) -> InputRange:
    """Return the rows of a box: whole rows as one run, unless narrow rows save bytes."""
    pitch = stage.input_layout.row_bytes
    start = (tile.image * stage.input_layout.rows + box.low) * pitch
    rows, width = box.high - box.low, box.right - box.left
    if rows > 1 and pitch - width <= tuning.NARROWER_BYTES:
        return InputRange(start=start, rows=1, width=rows * pitch, pitch=0)
    return InputRange(start=start + box.left, rows=rows, width=width, pitch=pitch)


def strip_range(
    stage: ArrayStage, tile: ArrayTile, strip: tuple[int, int], config: Config
) -> InputRange:
    """Return all rows that the outputs of a strip read, even if the tile reads fewer."""
    every = tile._replace(first_row=strip[0], end_row=strip[1], first_step=0, end_step=stage.steps)
    box, pitch = input_box(stage, every, config), stage.input_layout.row_bytes
    start = (tile.image * stage.input_layout.rows + box.low) * pitch
    return InputRange(start=start, rows=1, width=(box.high - box.low) * pitch, pitch=0)


def reads_whole_positions(stage: ArrayStage, tile: ArrayTile) -> bool:
    """Return whether a tile reads all channels of the second input: parts of rows have one step."""
    part = tile.end_x - tile.first_x < stage.grid.width
    return tile.height > 1 and part and stage.grid.bytes_in(tile) < stage.grid.position_bytes


def addend_range(stage: ArrayStage, tile: ArrayTile) -> InputRange:
    """Return the positions of a tile in a tensor with the same layout as the output."""
    assert stage.output_layout.contiguous
    ((start, pitch, row_step, width, *_),) = stage.output_layout.writes(tile)
    if reads_whole_positions(stage, tile):
        start -= tile.first_block * stage.grid.block_bytes
        width = pitch
    if tile.height > 1 and tile.end_x - tile.first_x < stage.grid.width:
        size = (tile.end_x - tile.first_x) * width
        return InputRange(start=start, rows=tile.height, width=size, pitch=row_step)
    # Positions have the same distance across rows as within a row.
    if width == pitch:
        return InputRange(start=start, rows=1, width=tile.positions * width, pitch=0)
    return InputRange(start=start, rows=tile.positions, width=width, pitch=pitch)
