"""Weights of two parts: chunks, and the EXECs that the second part needs."""

import numpy as np
import pytest

from matloom.select.constant import ConstantWeights
from matloom.select.two_parts import TwoPartWeights

#: Two rows of two columns of two steps, of three blocks; and the tiles with a second part.
STEPS, BLOCKS, TILE = 8, 3, 16
USED = {0: [5], 1: [2, 6], 2: [0, 1, 2, 3, 4, 5, 6, 7]}


def weights(used=USED):
    draw = np.random.default_rng(3)
    first = draw.integers(0, 256, (BLOCKS, STEPS, TILE), np.uint8)
    second = np.zeros_like(first)
    for block, steps in used.items():
        second[block, steps, -1] = 1 + block
    return TwoPartWeights(
        first=ConstantWeights(tiles=first),
        second=ConstantWeights(tiles=second),
        column_steps=2,
        row_steps=4,
    )


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([5], range(5, 6)),
        ([4, 5], range(4, 6)),
        ([5, 6], range(4, 8)),
        ([3, 4], range(8)),
        ([], range(0)),
    ],
)
def test_exec_runs_steps_of_a_column_or_whole_columns_or_rows(steps, expected):
    assert weights({1: steps}).used_steps(1, slice(0, STEPS)) == expected


@pytest.mark.parametrize("blocks", [(0, 3), (1, 3), (0, 1)])
@pytest.mark.parametrize("steps", [(0, 8), (0, 4), (4, 8), (4, 6)])
def test_chunks_have_the_steps_that_blocks_use(blocks, steps):
    blocks, steps, parts = slice(*blocks), slice(*steps), weights()
    chunk = parts.chunk(blocks, steps)
    assert len(chunk) == parts.chunk_bytes(blocks, steps)
    assert chunk.startswith(parts.first.tiles[blocks, steps].tobytes())
    found = 0
    for block in range(blocks.start, blocks.stop):
        used = parts.used_steps(block, steps)
        start = parts.offset(blocks, steps, block)
        tiles = parts.second.tiles[block, used.start : used.stop].tobytes()
        assert chunk[start : start + len(tiles)] == tiles
        found += np.count_nonzero(np.frombuffer(tiles, np.uint8))
    assert found == np.count_nonzero(parts.second.tiles[blocks, steps])


def test_blocks_that_use_all_steps_share_an_exec():
    dense = {0: range(STEPS), 1: range(STEPS), 2: [5]}
    every = slice(0, STEPS)
    runs = list(weights({at: list(used) for at, used in dense.items()}).runs(slice(0, 3), every))
    assert runs == [(range(0, 2), range(STEPS)), (range(2, 3), range(5, 6))]
    runs = list(weights().runs(slice(0, 3), every))
    # Steps 2 and 6 are in different rows.
    assert runs == [(range(0, 1), range(5, 6)), (range(1, 3), range(STEPS))]
    assert list(weights({}).runs(slice(0, 3), every)) == []
