"""Dense tensors: tiles form an array in C order, and LOADs copy any part of it."""

import numpy as np
import pytest

from matloom.select.layout import dense
from matloom.select.layout.base import Grid, Transfer
from matloom.select.layout.dense import Dense, DenseInput, staged_writes

from .conftest import tile_of

GRID = Grid(images=1, rows=5, width=4, position_bytes=11, block_bytes=4)


def test_tiles_join_to_the_array(written, outputs_of):
    layout, outputs = Dense(grid=GRID), outputs_of(GRID)
    tiles = [
        {"rows": rows, "xs": xs, "blocks": blocks}
        for rows in ((0, 2), (2, 5))
        for xs in ((0, 3), (3, 4))
        for blocks in ((0, 1), (1, 3))
    ]
    np.testing.assert_array_equal(written(layout, outputs, tiles), outputs.ravel())


def test_limbs_are_tensors_one_after_the_other():
    layout = Dense(grid=GRID, limbs=4)
    writes = list(layout.writes(tile_of(layout, (1, 3))))
    assert [write.limb for write in writes] == [0, 1, 2, 3]
    assert [write.first_byte for write in writes] == [44 + limb * layout.size for limb in range(4)]


def test_a_separate_tile_is_its_own_array():
    layout = Dense(grid=GRID, limbs=2)
    low, high = staged_writes(layout, tile_of(layout, (1, 3), blocks=(1, 3), xs=(1, 4)))
    # Two rows of three positions of 7 bytes.
    assert low[:4] == (0, 7, 21, 7)
    assert high[:4] == (42, 7, 21, 7)


@pytest.mark.parametrize("longest", [3, 100])
def test_loads_copy_runs(longest, monkeypatch):
    monkeypatch.setattr(dense, "LONGEST_ROW", longest)
    source, spad = np.arange(60), np.full(60, -1)
    transfer = Transfer(start=5, size=7, runs=3, step=20, address=2, pitch=10)
    for load in DenseInput(rows=1, row_bytes=60).loads(transfer):
        for row in range(load["rows"]):
            at = load["dram_offset"] + row * load["dram_row_step"]
            to = load["spad_addr"] + row * load["spad_row_step"]
            spad[to : to + load["row_bytes"]] = source[at : at + load["row_bytes"]]
    expected = np.full(60, -1)
    for run in range(3):
        expected[2 + 10 * run :][:7] = source[5 + 20 * run :][:7]
    np.testing.assert_array_equal(spad, expected)
