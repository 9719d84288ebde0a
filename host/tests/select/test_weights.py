import numpy as np

from matloom.arch.config import PRESETS
from matloom.select.weights import (
    block_diagonal,
    depthwise_as_dense,
    fold_zero_point,
    identity_tile,
    parameter_blocks,
    run_matrices,
    weight_tiles,
)

CONFIG = PRESETS["small"]
RNG = np.random.default_rng(3)


def _filters(*shape):
    return RNG.integers(-128, 128, shape).astype(np.int8)


def _tiles(weights, *loops):
    return weights.view(np.int8).reshape(*loops, CONFIG.rows, CONFIG.columns)


def test_a_kernel_row_is_one_run_cut_into_blocks():
    filters = _filters(11, 3, 3, 5)
    matrices = run_matrices(filters, single_run=True, pack=1, shift=0)
    tiles = _tiles(weight_tiles(matrices, CONFIG), 2, 3, 1, 2)
    for channel in range(11):
        block, column = divmod(channel, CONFIG.columns)
        run = tiles[block, 1, 0, :, :, column].reshape(-1)
        assert (run[:15] == filters[channel, 1].reshape(-1)).all()
        assert not run[15:].any()
    assert not tiles[1, :, :, :, :, 3:].any()


def test_packed_positions_see_the_same_filters_shifted():
    filters = _filters(3, 2, 3, 2)
    matrices = run_matrices(filters, single_run=True, pack=2, shift=4)
    assert matrices.shape == (2, 1, 10, 6)
    assert (matrices[0, 0, :6, :3] == filters[:, 0].reshape(3, 6).T).all()
    assert (matrices[0, 0, 4:, 3:] == filters[:, 0].reshape(3, 6).T).all()
    assert not matrices[0, 0, 6:, :3].any()
    assert not matrices[0, 0, :4, 3:].any()


def test_taps_apart_are_steps_of_their_own():
    filters = _filters(8, 2, 3, 9)
    tiles = _tiles(
        weight_tiles(run_matrices(filters, single_run=False, pack=1, shift=0), CONFIG), 1, 2, 3, 2
    )
    assert tiles[0, 1, 2, 1, 0, 6] == filters[6, 1, 2, 8]
    assert not tiles[0, 1, 2, 1, 1:].any()


def test_depthwise_both_ways_multiplies_the_same_channels():
    filters = _filters(2, 2, 12)
    dense = depthwise_as_dense(filters, 6)
    assert dense.shape == (12, 2, 2, 6)
    assert np.count_nonzero(dense.sum(axis=(1, 2)) != 0) <= 12
    diagonal = _tiles(block_diagonal(filters, 6, CONFIG), 2, 2, 2)
    for channel in range(12):
        assert (dense[channel, :, :, channel // 2] == filters[:, :, channel]).all()
        block, column = divmod(channel, CONFIG.columns)
        taps = diagonal[block, :, :, channel // 2 - block * 4, column]
        assert (taps == filters[:, :, channel]).all()
    assert np.count_nonzero(diagonal) == np.count_nonzero(filters)


def test_identity_passes_bytes_on():
    assert (identity_tile(CONFIG).reshape(8, 8) == np.eye(8)).all()


def test_the_folded_zero_point_wraps_at_32_bits():
    folded = fold_zero_point(np.array([2**31 - 1, -5]), np.array([-1, 7]), 1)
    assert folded.tolist() == [-(2**31), -12]


def test_parameter_blocks_hold_bias_multiplier_shift():
    bias = np.arange(10)
    blocks = parameter_blocks(bias, (bias + 2**30, -bias), CONFIG)
    assert blocks.shape == (2, 9 * CONFIG.columns)
    assert blocks[1, :8].view("<i4").tolist() == [8, 9]
    assert blocks[1, 32:40].view("<i4").tolist() == [2**30 + 8, 2**30 + 9]
    assert blocks[1, 64:66].view("i1").tolist() == [-8, -9]
    assert parameter_blocks(bias, None, CONFIG).shape == (2, 4 * CONFIG.columns)
