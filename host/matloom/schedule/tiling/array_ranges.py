"""Parts of inputs that tiles of array stages read."""

from collections.abc import Sequence

from matloom.arch.config import Config
from matloom.schedule import tuning
from matloom.schedule.tiling.joint_stores import positions_of
from matloom.schedule.tiling.tile_reads import InputRange
from matloom.schedule.tiling.tiles import ArrayTile, input_box
from matloom.select.exec_steps import Box
from matloom.select.stage import ArrayStage


def shares_channels(stage: ArrayStage, tiles: Sequence[ArrayTile], config: Config) -> bool:
    """Return whether tiles of the same positions share one LOAD with all channels of the input.

    They do if that is hardly more bytes. In rows of a depthwise layer, all channels of a position
    lie side by side, so a LOAD of some channels often reads most of the row.
    """
    first, *following = tiles[:2]
    if not stage.is_depthwise or [positions_of(first)] != list(map(positions_of, following)):
        return False
    every = first._replace(first_block=0, end_block=stage.grid.blocks)
    own, shared = (input_box(stage, tile, config).size for tile in (first, every))
    return shared <= tuning.SHARED_READS * own


def tile_range(stage: ArrayStage, tile: ArrayTile, tile_bytes: int, config: Config) -> InputRange:
    """Return the part of the first input that a tile reads.

    A tile with some of the reduction steps gets the part for all steps, if it fits `tile_bytes`.
    """
    if stage.computed is not None and stage.computed.selections:
        size = stage.input_layout.rows * stage.input_layout.row_bytes
        return InputRange(start=0, rows=1, width=size, pitch=0)
    if tile.strip is not None:
        return strip_range(stage, tile, tile.strip, config)
    whole = input_box(stage, tile, config)
    if (tile.first_step, tile.end_step) != (0, stage.loop_nest.steps):
        every = tile._replace(first_step=0, end_step=stage.loop_nest.steps)
        box = input_box(stage, every, config)
        whole = box if box.size <= tile_bytes else whole
    return array_input_range(stage, tile, whole)


def array_input_range(stage: ArrayStage, tile: ArrayTile, box: Box) -> InputRange:
    """Return the part of the input to load for a box of rows and bytes.

    It has whole rows, unless parts of rows save enough bytes.
    """
    pitch = stage.input_layout.row_bytes
    start = (tile.image * stage.input_layout.rows + box.low) * pitch
    rows, width = box.high - box.low, box.right - box.left
    if rows > 1 and pitch - width <= tuning.NARROWER_BYTES:
        return InputRange(start=start, rows=1, width=rows * pitch, pitch=0)
    return InputRange(start=start + box.left, rows=rows, width=width, pitch=pitch)


def strip_range(
    stage: ArrayStage, tile: ArrayTile, strip: tuple[int, int], config: Config
) -> InputRange:
    """Return all input rows that the outputs of a strip read, even if the tile reads fewer."""
    every = tile._replace(first_row=strip[0], end_row=strip[1], first_step=0, end_step=stage.steps)
    box, pitch = input_box(stage, every, config), stage.input_layout.row_bytes
    start = (tile.image * stage.input_layout.rows + box.low) * pitch
    return InputRange(start=start, rows=1, width=(box.high - box.low) * pitch, pitch=0)


def addend_part(stage: ArrayStage, tile: ArrayTile) -> ArrayTile | None:
    """Return a tile without the blocks of channels that the added tensor does not have.

    Return None if that has none of them.
    """
    end = min(tile.end_block, stage.addend_layout.grid.blocks)
    return tile._replace(end_block=end) if tile.first_block < end else None


def reads_whole_positions(stage: ArrayStage, tile: ArrayTile) -> bool:
    """Return whether a tile loads all channels of its positions from the added tensor.

    A tile with some of the channels must do so if it covers parts of several rows: a range has only
    one pitch, which is then that of the rows.
    """
    grid, part = stage.addend_layout.grid, tile.end_x - tile.first_x < stage.grid.width
    return tile.height > 1 and part and grid.bytes_in(tile) < grid.position_bytes


def addend_range(stage: ArrayStage, tile: ArrayTile) -> InputRange | None:
    """Return the part of the added tensor that a tile needs; None if that lacks its channels."""
    layout, part = stage.addend_layout, addend_part(stage, tile)
    assert layout.contiguous
    if part is None:
        return None
    ((start, pitch, row_step, width, *_),) = layout.writes(part)
    if reads_whole_positions(stage, part):
        start -= part.first_block * layout.grid.block_bytes
        width = pitch
    if part.height > 1 and part.end_x - part.first_x < layout.grid.width:
        size = (part.end_x - part.first_x) * width
        return InputRange(start=start, rows=part.height, width=size, pitch=row_step)
    # Positions have the same distance across rows as within a row.
    if width == pitch:
        return InputRange(start=start, rows=1, width=part.positions * width, pitch=0)
    return InputRange(start=start, rows=part.positions, width=width, pitch=pitch)
