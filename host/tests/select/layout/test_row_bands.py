"""A convolution writes two bands of rows as a depthwise layer reads them."""

import numpy as np
import pytest

from matloom.select.layout.base import Grid
from matloom.select.layout.row_bands import JoinedBands, RowBands, SeparateBands

PAD = -3


def bands(packed, *, height=6, width=4, channels=5):
    """Return the banded layout of a tensor, for a producer with some positions per vector."""
    grid = Grid(
        images=1,
        rows=height,
        width=width // packed,
        position_bytes=packed * channels,
        block_bytes=16,
    )
    return RowBands(grid=grid, channels=channels, pad_value=PAD)


@pytest.mark.parametrize("packed", [1, 2])
@pytest.mark.parametrize("pieces", [[(0, 3), (3, 6)], [(0, 2), (2, 3), (3, 4), (4, 6)]], ids=str)
def test_each_band_has_its_rows_and_those_around_them(packed, pieces, written, outputs_of):
    layout = bands(packed)
    outputs = outputs_of(layout.grid)
    memory = written(layout, outputs, [{"rows": rows} for rows in pieces])
    stored = memory.reshape(layout.rows, layout.width, layout.position_bytes)
    outside = np.full((1, 4, 5), PAD)
    around = np.concatenate([outside, outputs[0].reshape(6, 4, 5), outside])
    # A row of the image is one further down here; a band has 3, one above and one below.
    np.testing.assert_array_equal(stored[:, :, 5:10], around[0:5])
    np.testing.assert_array_equal(stored[:, :, 0:5], around[3:8])


def test_positions_are_no_further_apart_than_the_maker_needs():
    assert bands(1).position_bytes == 10
    assert bands(2).position_bytes == 15
    assert bands(2).size == 5 * 4 * 15


@pytest.mark.parametrize("packed", [1, 2])
@pytest.mark.parametrize("pieces", [[(0, 3), (3, 6)], [(0, 2), (2, 3), (3, 6)]], ids=str)
def test_separate_bands_have_their_own_rows(packed, pieces, written, outputs_of):
    grid = bands(packed).grid
    layout = SeparateBands(grid=grid, channels=5, pad_value=0)
    outputs = outputs_of(grid)
    memory = written(layout, outputs, [{"rows": rows} for rows in pieces])
    stored = memory.reshape(3, 4, layout.position_bytes)
    image = outputs[0].reshape(6, 4, 5)
    np.testing.assert_array_equal(stored[:, :, 5:10], image[:3])
    np.testing.assert_array_equal(stored[:, :, 0:5], image[3:])


@pytest.mark.parametrize("pieces", [[(0, 3)], [(0, 1), (1, 2), (2, 3)], [(0, 2), (2, 3)]], ids=str)
def test_joined_bands_have_the_rows_around_them(pieces, written, outputs_of):
    grid = Grid(images=1, rows=3, width=4, position_bytes=10, block_bytes=16)
    layout = JoinedBands(grid=grid, channels=5, pad_value=PAD)
    outputs = outputs_of(grid)
    memory = written(layout, outputs, [{"rows": rows} for rows in pieces])
    stored = memory.reshape(5, 4, 10)
    lower, upper = outputs[0, :, :, :5], outputs[0, :, :, 5:]
    outside = np.full((1, 4, 5), PAD)
    np.testing.assert_array_equal(stored[:, :, 5:], np.concatenate([outside, upper, lower[:1]]))
    np.testing.assert_array_equal(stored[:, :, :5], np.concatenate([upper[-1:], lower, outside]))
