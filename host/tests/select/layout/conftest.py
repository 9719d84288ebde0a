"""A memory that POSTs write with the fields of a layout, byte by byte."""

import numpy as np
import pytest

from matloom.arch.isa import Source
from matloom.schedule.tiling.tiles import ArrayTile


def tile_of(layout, rows, blocks=None, xs=None):
    """Return the tile of some rows (half open), by default with all positions and blocks."""
    first_block, end_block = blocks or (0, layout.grid.blocks)
    first_x, end_x = xs or (0, layout.grid.width)
    return ArrayTile(
        image=0,
        first_row=rows[0],
        end_row=rows[1],
        first_x=first_x,
        end_x=end_x,
        first_block=first_block,
        end_block=end_block,
        first_step=0,
        end_step=1,
        chunk=0,
        post={},
        row_step=layout.row_stride,
    )


def copy(memory, post):
    """Execute a POST that copies bytes within the scratchpad, with clamping."""
    assert post["source"] == Source.SPAD
    for row in range(post["height"]):
        for x in range(post["width"]):
            far = x * post["x_step"]
            source = post.get("source_addr", 0) + row * post.get("source_pitch", 0) + far
            target = post.get("dest_addr", 0) + row * post.get("dest_pitch", 0) + far
            # All blocks but the last are full; a border of several has blocks of `tail`.
            size = post["oc_blocks"] * post["tail"]
            values = memory[source : source + size].clip(post["clamp_low"], post["clamp_high"])
            assert target + size <= len(memory)
            memory[target : target + size] = values


def store(memory, layout, tile, outputs):
    """Execute POSTs that write a tile of outputs (images, rows, positions, bytes of a position)."""
    for write in layout.writes(tile):
        start = (tile.first_block + write.block) * layout.grid.block_bytes
        for number, row in enumerate(range(tile.first_row, tile.end_row, tile.row_step)):
            for place, x in enumerate(range(tile.first_x, tile.end_x)):
                at = write.first_byte + number * write.row_step + place * write.x_step
                assert 0 <= at <= at + write.size <= len(memory)
                values = outputs[tile.image, row, x, start : start + write.size]
                memory[at : at + write.size] = values
    for post in layout.copies(tile):
        copy(memory, post)


@pytest.fixture
def written():
    """Return a function that writes outputs, tile by tile, to a memory of random bytes."""

    def write(layout, outputs, tiles, size=None):
        random = np.random.default_rng(5)
        memory = random.integers(-128, 128, layout.size if size is None else size)
        for post in layout.borders():
            copy(memory, post)
        for tile in tiles:
            store(memory, layout, tile_of(layout, **tile), outputs)
        return memory

    return write


@pytest.fixture
def outputs_of():
    """Return a function that makes random outputs: (images, rows, positions, bytes)."""

    def make(grid):
        shape = (grid.images, grid.rows, grid.width, grid.position_bytes)
        return np.random.default_rng(7).integers(-128, 128, shape)

    return make
