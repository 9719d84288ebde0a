import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.schedule.build import Requantisation, Window, convolution_stage
from matloom.schedule.tiles import Limits, cut, input_rows

CONFIG = PRESETS["small"]
SCALE = Requantisation(multiplier=2**30, shift=-3, zero=0, low=-128, high=127)


def _stage(channels=20, height=13, width=9, kernel=3):
    return convolution_stage(
        name="conv",
        nodes=(0,),
        tensors=("x", "y"),
        window=Window(
            images=2,
            in_height=height,
            in_width=width,
            depth=4,
            out_height=height,
            out_width=width,
            kernel_height=kernel,
            kernel_width=kernel,
            pad_top=kernel // 2,
            pad_left=kernel // 2,
        ),
        filters=np.ones((channels, kernel, kernel, 4), np.int8),
        bias=np.zeros(channels, np.int64),
        input_zero=0,
        scale=SCALE,
        config=CONFIG,
    )


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("chunk_bytes", [1, 700, 1 << 20])
def test_tiles_cover_each_output_once(seed, resident, chunk_bytes):
    stage = _stage()
    limits = Limits(resident=resident, chunk_bytes=chunk_bytes, tile_bytes=400)
    made = np.zeros((2, stage.out_rows, stage.width, stage.oc_blocks), int)
    for tile in cut(stage, limits, CONFIG, seed):
        assert tile.entries <= CONFIG.acc_entries // 2
        made[
            tile.image,
            tile.first_row : tile.end_row,
            tile.first_x : tile.end_x,
            tile.first_block : tile.end_block,
        ] += 1
    assert (made == 1).all()


def test_a_stage_is_cut_so_that_the_next_can_start_before_it_ends():
    rows = [
        tile.end_row - tile.first_row for tile in cut(_stage(), Limits(resident=True), CONFIG, None)
    ]
    assert len(rows) >= 4
    assert max(rows) <= 4


def test_a_tile_reads_the_rows_under_its_kernel():
    tiles = cut(_stage(), Limits(resident=True), CONFIG, None)
    first = tiles[0]
    assert input_rows(_stage(), first) == (0, first.end_row + 1)
    last = tiles[-1]
    assert input_rows(_stage(), last) == (last.first_row - 1, 13)
