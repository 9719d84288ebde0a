"""A convolution writes 2 x 2 blocks as a strided depthwise layer reads them."""

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.select.layout.base import Grid
from matloom.select.layout.space_to_depth import SpaceToDepth
from support.chain import Chain, exact_programs, executes

CHANNELS, PAD = 4, -3


def layout_of(height, width, above, left, channels=10):
    grid = Grid(images=1, rows=height, width=width, position_bytes=channels, block_bytes=CHANNELS)
    return SpaceToDepth(grid=grid, above=above, left=left, pad_value=PAD)


def blocks_of(layout, outputs):
    """Return blocks by definition: (planes, rows, columns, x, y, channels); NaN: any byte."""
    image = outputs[0]
    height, width, channels = image.shape
    padded = np.full((2 * layout.rows, layout.row_bytes // layout.block_bytes * 2, 12), np.nan)
    padded[: layout.above + height, : layout.left + width, :channels] = PAD
    padded[layout.above :, layout.left :][:height, :width, :channels] = image
    planes = padded.reshape(layout.rows, 2, -1, 2, 3, CHANNELS)
    return planes.transpose(4, 0, 2, 3, 1, 5)


def parities(first, end):
    """Return the rows of two tiles that together cover a range."""
    return [{"rows": (row, end)} for row in (first, first + 1) if row < end]


@pytest.mark.parametrize(("above", "left"), [(0, 0), (1, 1), (1, 0), (0, 1)])
@pytest.mark.parametrize(("height", "width"), [(6, 8), (5, 7), (2, 3)])
def test_the_reader_finds_every_position_and_its_padding(
    height, width, above, left, written, outputs_of
):
    layout = layout_of(height, width, above, left)
    outputs = outputs_of(layout.grid)
    tiles = [*parities(0, 2), *parities(2, height)]
    found = written(layout, outputs, tiles).reshape(3, layout.rows, -1, 2, 2, CHANNELS)
    expected = blocks_of(layout, outputs)
    known = ~np.isnan(expected)
    assert known.sum() == (height + above) * (width + left) * 10
    np.testing.assert_array_equal(found[known], expected[known])


def test_tiles_of_some_planes_and_positions(written, outputs_of):
    layout = layout_of(4, 6, 1, 1)
    outputs = outputs_of(layout.grid)
    whole = written(layout, outputs, parities(0, 4))
    pieces = [
        {**rows, "blocks": blocks, "xs": xs}
        for rows in parities(0, 4)
        for blocks in ((0, 2), (2, 3))
        for xs in ((0, 5), (5, 6))
    ]
    np.testing.assert_array_equal(written(layout, outputs, pieces), whole)


def test_positions_do_not_share_bytes():
    layout = layout_of(6, 8, 0, 0, channels=12)
    places = [
        layout.byte(0, row, x, plane) + channel
        for row, x, plane, channel in np.ndindex(6, 8, 3, CHANNELS)
    ]
    assert sorted(places) == list(range(6 * 8 * 12)) == list(range(layout.size))
    # The four positions of a block, from left to right and there downwards.
    corner = layout.byte(0, 2, 4, 1)
    assert layout.byte(0, 3, 4, 1) == corner + 4
    assert layout.byte(0, 2, 5, 1) == corner + 8
    assert layout.byte(0, 3, 5, 1) == corner + 12
    assert layout.byte(0, 2, 6, 1) == corner + layout.block_bytes
    assert not list(layout.borders())


@pytest.mark.parametrize(("size", "use_space_to_depth"), [(4, False), (6, False), (12, True)])
def test_small_maps_stay_in_rows(size, use_space_to_depth):
    """The POSTs of six planes, twice, take longer than windows over few positions."""
    graph = Chain((1, size, size, 16)).convolve(96).halve().convolve(16).graph()
    (program,) = exact_programs(graph, load_config("reference"), (None,))
    assert any(each.window and each.paired for each in executes(program)) == use_space_to_depth
