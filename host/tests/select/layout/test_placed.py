"""Outputs written into a part of a larger tensor."""

import numpy as np

from matloom.select.layout.base import Grid
from matloom.select.layout.dense import Dense
from matloom.select.layout.placed import Placed

from .conftest import tile_of

GRID = Grid(images=1, rows=3, width=4, position_bytes=5, block_bytes=4)


def test_two_parts_make_a_concatenation(written, outputs_of):
    left = outputs_of(GRID)
    right = left + 1000
    joined = np.concatenate([left, right], axis=3)
    memory = np.full(joined.size, -1)
    for number, part in enumerate((left, right)):
        layout = Placed(
            grid=GRID, offset=5 * number, x_step=10, row_step=40, image_step=120, complete=0
        )
        made = written(layout, part, [{"rows": (0, 1)}, {"rows": (1, 3)}], joined.size)
        at = np.arange(joined.size) % 10 // 5 == number
        memory[at] = made[at]
    np.testing.assert_array_equal(memory, joined.ravel())


def test_nothing_is_complete_before_the_last_tile():
    layout = Placed(grid=GRID, offset=0, x_step=10, row_step=40, image_step=120, complete=120)
    assert layout.complete_bytes(tile_of(layout, (0, 2))) == 0
    assert layout.complete_bytes(tile_of(layout, (2, 3))) == 120


def copying(line):
    """Return the layout of a copy whose lines are 40 bytes apart."""
    grid = Grid(images=1, rows=60 // line, width=1, position_bytes=line, block_bytes=16)
    return Placed(
        grid=grid, offset=7, x_step=line, row_step=40, image_step=120, complete=120, line=line
    )


def test_a_producer_writes_what_its_copy_would(written, outputs_of):
    """The producer writes the same bytes as a copy of lines would."""
    producer, outputs = Dense(grid=GRID), outputs_of(GRID)
    for line in (5, 20):
        size = 7 + 40 * 60 // line
        taken = copying(line).for_producer(producer)
        found = written(taken, outputs, [{"rows": (0, 3)}], size)
        expected = written(
            copying(line), outputs.reshape(1, -1, 1, line), [{"rows": (0, 60 // line)}], size
        )
        np.testing.assert_array_equal(found, expected)


def test_only_copies_of_whole_lines_are_elided():
    producer = Dense(grid=GRID)
    assert copying(10).for_producer(producer) is None
    placed = Placed(grid=GRID, offset=0, x_step=10, row_step=40, image_step=120, complete=0)
    assert placed.for_producer(producer) is None
    assert copying(20).for_producer(placed) is None
