"""POSTs of a tile whose output is no dense tensor: blocks of positions, or bands of rows."""

from collections.abc import Iterator

from matloom.arch.isa import Destination, Source
from matloom.schedule.tiles import ArrayTile
from matloom.select.row_bands import Bands
from matloom.select.space_to_depth import Blocks
from matloom.select.stage import ArrayStage

__all__ = ["border", "layout_posts"]


def layout_posts(
    stage: ArrayStage, tile: ArrayTile, entry: int, params: int
) -> list[dict[str, int]]:
    """Return the fields of the POSTs of a tile in order; addresses count from the tensor's first.

    Parameters
    ----------
    entry:
        The tile's first accumulator entry.
    params:
        Where its parameters lie in the scratchpad.
    """
    if stage.blocks is not None:
        posts = _blocks(stage, stage.blocks, tile, entry, params)
    else:
        assert stage.bands is not None
        posts = _bands(stage.bands, tile, entry, params)
    made = [
        {"source": Source.ACC, "destination": Destination.SPAD, "oc_blocks": 1, **each, **tile.post}
        for each in posts
    ]
    if stage.bands is not None and tile.end_x == stage.width:
        made += stage.bands.copies(tile.first_row, tile.end_row)
    return made


def border(stage: ArrayStage) -> Iterator[dict[str, int]]:
    """Return the fields of POSTs that write padding around an output, before the first tile."""
    if stage.blocks is not None:
        return stage.blocks.border(stage.oc_blocks)
    assert stage.bands is not None
    return stage.bands.border()


def _blocks(
    stage: ArrayStage, blocks: Blocks, tile: ArrayTile, entry: int, params: int
) -> Iterator[dict[str, int]]:
    """Yield the fields of a POST for each plane."""
    for number, plane in enumerate(range(tile.first_block, tile.end_block)):
        last = plane + 1 == stage.oc_blocks
        yield {
            "width": tile.end_x - tile.first_x,
            "height": tile.height,
            "tail": stage.tail if last else stage.block_bytes,
            "x_step": blocks.x_step,
            "acc_addr": entry + number * tile.positions,
            "dest_addr": blocks.first_byte(tile.first_row, tile.first_x, plane),
            "dest_pitch": blocks.row_bytes,
            "param_addr": params + number * stage.params.shape[1],
        }


def _bands(bands: Bands, tile: ArrayTile, entry: int, params: int) -> Iterator[dict[str, int]]:
    """Yield the fields of a POST for each of the positions that an entry holds."""
    width, step = tile.end_x - tile.first_x, bands.packed * bands.position_bytes
    for tail, byte in bands.writes():
        yield {
            "width": width,
            "height": tile.height,
            "tail": tail,
            "x_step": step,
            "acc_addr": entry,
            "dest_addr": bands.first_byte(tile.first_row) + tile.first_x * step + byte,
            "dest_pitch": bands.row_bytes,
            "param_addr": params,
        }
