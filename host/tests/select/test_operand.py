"""Weights as an operand: tiles by output block and step."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.select.layout.base import Grid
from matloom.select.layout.dense import Dense
from matloom.select.operand import Computed, Constant, constant_weights

NANO = PRESETS["nano"]


def test_tiles_of_a_block_follow_each_other():
    size = NANO.rows * NANO.columns
    blocks = np.arange(2 * 3 * size, dtype=np.uint32).astype(np.uint8).reshape(2, 3 * size)
    weights = constant_weights(blocks, "i8xi8", NANO)
    assert (weights.steps, weights.tile_bytes, weights.nbytes) == (3, size, 6 * size)
    assert weights.tile(1, 2) == blocks[1, 2 * size :].tobytes()
    assert weights.chunk(slice(0, 2), slice(1, 3)) == blocks[:, size:].tobytes()


def test_what_is_computed_has_a_size_but_no_bytes():
    grid = Grid(images=1, rows=4, width=1, position_bytes=8, block_bytes=8)
    weights = Computed(tensor="keys", layout=Dense(grid=grid), steps=1, tile_bytes=32)
    assert weights.nbytes == 32
    assert weights.block_bytes == Constant(tiles=np.zeros((1, 1, 32), np.uint8)).block_bytes
    with pytest.raises(NotImplementedError, match="tile 0 of block 0 of keys is computed"):
        weights.tile(0, 0)
