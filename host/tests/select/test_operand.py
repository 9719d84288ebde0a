"""Weights as an operand: tiles by output block and step."""

from dataclasses import replace

import numpy as np

from matloom.arch.config import PRESETS
from matloom.select.layout.panels import Panels
from matloom.select.operand import ComputedWeights, constant_weights

NANO = PRESETS["nano"]


def test_tiles_of_a_block_follow_each_other():
    size = NANO.rows * NANO.columns
    blocks = np.arange(2 * 3 * size, dtype=np.uint32).astype(np.uint8).reshape(2, 3 * size)
    weights = constant_weights(blocks, "i8xi8", NANO)
    assert (weights.steps, weights.tile_bytes, weights.nbytes) == (3, size, 6 * size)
    assert weights.tile(1, 2) == blocks[1, 2 * size :].tobytes()
    assert weights.chunk(slice(0, 2), slice(1, 3)) == blocks[:, size:].tobytes()


def test_computed_weights_have_places_and_constants():
    panels = Panels(images=2, inner=6, columns=7, depth=8, width=NANO.columns)
    weights = ComputedWeights(
        tensor="keys", layout=panels, steps=2, tile_bytes=NANO.tile_bytes, constants=b"12"
    )
    assert weights.nbytes == 2 * 2 * 8 * NANO.columns
    assert weights.first_byte(1, 1, 1) == weights.nbytes - NANO.tile_bytes
    assert weights.chunk(slice(0, 2), slice(0, 2)) == b"12"
    shared = replace(weights, layout=replace(panels, images=1))
    assert shared.first_byte(1, 0, 0) == 0
