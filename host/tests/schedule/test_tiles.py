import dataclasses

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.schedule.build import Requantisation, Window, convolution_stage
from matloom.schedule.reduction import narrowed, parts
from matloom.schedule.tiles import Limits, Weights, cut, input_box

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
@pytest.mark.parametrize("weights", list(Weights))
@pytest.mark.parametrize("chunk_bytes", [1, 700, 1 << 20])
def test_tiles_cover_each_output_once(seed, weights, chunk_bytes):
    stage = _stage()
    limits = Limits(weights=weights, chunk_bytes=chunk_bytes, tile_bytes=400)
    made = np.zeros((2, stage.out_rows, stage.width, stage.oc_blocks), int)
    before = None
    for tile in cut(stage, limits, CONFIG, seed):
        assert tile.entries <= CONFIG.acc_entries // 2
        if tile.first_step:
            outputs = dataclasses.replace(tile, first_step=0, end_step=0, chunk=0)
            assert before == (outputs, tile.first_step), "steps follow each other"
        before = dataclasses.replace(tile, first_step=0, end_step=0, chunk=0), tile.end_step
        if tile.end_step < stage.walk.steps:
            continue
        made[
            tile.image,
            tile.first_row : tile.end_row,
            tile.first_x : tile.end_x,
            tile.first_block : tile.end_block,
        ] += 1
    assert (made == 1).all()


def test_a_stage_is_cut_so_that_the_next_can_start_before_it_ends():
    rows = [
        tile.end_row - tile.first_row
        for tile in cut(_stage(), Limits(weights=Weights.RESIDENT), CONFIG, None)
    ]
    assert len(rows) >= 4
    assert max(rows) <= 4


def test_a_tile_reads_the_rows_under_its_kernel():
    tiles = cut(_stage(), Limits(weights=Weights.RESIDENT), CONFIG, None)
    first = tiles[0]
    box = input_box(_stage(), first, CONFIG)
    assert (box.low, box.high) == (0, first.end_row + 1)
    last = input_box(_stage(), tiles[-1], CONFIG)
    assert (last.low, last.high) == (tiles[-1].first_row - 1, 13)
    assert (last.left, last.right) == (0, 9 * 4)


@pytest.mark.parametrize("most_steps", [1, 2, 5, 7, 20])
def test_parts_of_a_reduction_make_each_step_once(most_steps):
    stage = _stage(kernel=3)
    found = parts(stage, most_steps=most_steps, input_bytes=1 << 20, array_rows=CONFIG.rows)
    assert [step for first, end in found for step in range(first, end)] == list(
        range(stage.walk.steps)
    )
    whole = stage.walk.fields((0, 1), (0, 1), 0)
    for first, end in found:
        part = narrowed(whole, first, end, CONFIG.rows)
        assert part["kernel_rows"] * part["kernel_cols"] * part["blocks"] == end - first
        assert end - first <= most_steps
