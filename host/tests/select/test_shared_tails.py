"""Dense layers whose depth exceeds whole steps by a few rows: output blocks share weight tiles."""

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.ir.names import unique_names
from matloom.meaning import check_meaning
from matloom.select.constant import ConstantWeights
from matloom.select.operand import SharedTailWeights
from support.chain import Chain, exact_programs, executes


def dense(depth, units, rows=1):
    """Return a dense layer of rows of values."""
    chain = Chain((1, rows, 1, depth), seed=depth)
    return chain.dense(units).graph()


@pytest.mark.parametrize(
    ("depth", "units", "rows"),
    [(100, 784, 1), (257, 130, 1), (20, 150, 5), (33, 129, 15), (50, 200, 2)],
)
@pytest.mark.fast_cases(5)
def test_results_are_the_interpreters(depth, units, rows):
    graph, config = dense(depth, units, rows), load_config("reference")
    for program in exact_programs(graph, config, (None, 1, 2, 3, 4)):
        shared = [each for each in executes(program) if each.values["weights_fixed"]]
        assert shared
        assert {each.values["pad_value"] for each in shared} == {0}
        assert check_meaning(graph, program, unique_names(graph)) == (1, 1)


@pytest.mark.parametrize(
    ("change", "depth", "units", "rows"),
    [
        ("reference", 104, 784, 1),
        ("reference", 105, 784, 1),
        ("nano", 257, 130, 1),
        ("reference", 112, 784, 1),
        ("reference", 100, 100, 1),
        ("reference", 4, 784, 1),
        ("reference", 100, 784, 16),
        ("reference+weight_rows=16", 100, 784, 1),
    ],
)
def test_other_layers_have_whole_tiles(change, depth, units, rows):
    (program,) = exact_programs(dense(depth, units, rows), load_config(change), (None,))
    assert not any(each.values["weights_fixed"] for each in executes(program))


def weights():
    """Return weights of five blocks, three whole steps and tails of a quarter of a tile."""
    draw = np.random.default_rng(5)
    whole = draw.integers(0, 256, (5, 3, 64), np.uint8)
    tails = draw.integers(0, 256, (5, 16), np.uint8)
    return SharedTailWeights(whole=ConstantWeights(tiles=whole), tails=tails)


@pytest.mark.parametrize("blocks", [(0, 5), (1, 3), (4, 5)])
@pytest.mark.parametrize("steps", [(0, 4), (0, 2), (1, 4), (3, 4)])
def test_chunks_have_the_bytes_that_they_count(blocks, steps):
    shared = weights()
    chunk = shared.chunk(slice(*blocks), slice(*steps))
    assert len(chunk) == shared.chunk_bytes(slice(*blocks), slice(*steps))
    whole = shared.whole.tiles[slice(*blocks), slice(*steps)].tobytes()
    assert chunk.startswith(whole)
    if steps[1] == shared.steps:
        tails = shared.tails[slice(*blocks)][::-1].tobytes()
        assert chunk[len(whole) :].rstrip(b"\0").startswith(tails.rstrip(b"\0"))
        assert len(chunk) - len(whole) >= shared.tile_bytes


def test_all_blocks_together_are_smaller_than_whole_tiles():
    shared = weights()
    assert (shared.steps, shared.block_bytes, shared.nbytes) == (4, 3 * 64 + 16, 5 * (3 * 64 + 16))
    some = shared.select_blocks(slice(1, None, 2))
    np.testing.assert_array_equal(some.tails, shared.tails[1::2])
    np.testing.assert_array_equal(some.whole.tiles, shared.whole.tiles[1::2])
