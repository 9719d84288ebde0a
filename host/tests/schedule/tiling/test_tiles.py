import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.schedule.params import FirstTiles, LastTiles, Prologue, TilingParams, WeightsLifetime
from matloom.schedule.tiling.base import BaseTiling
from matloom.schedule.tiling.byte_ranges import cut_vector
from matloom.schedule.tiling.cutting import chunks, cut_array
from matloom.schedule.tiling.tiles import exec_fields, input_box
from matloom.select.exec_steps import limit_steps, split_k_parts
from matloom.select.stage import VectorStage
from support.stages import stage_of

CONFIG = PRESETS["small"]


def _stage(channels=20, height=13, width=9, kernel=3):
    return stage_of(
        CONFIG,
        (channels, kernel, kernel, 4),
        images=2,
        in_height=height,
        in_width=width,
        out_height=height,
        out_width=width,
        pad_top=kernel // 2,
        pad_left=kernel // 2,
    )


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("weights", list(WeightsLifetime))
@pytest.mark.parametrize("chunk_bytes", [1, 700, 1 << 20])
def test_tiles_cover_each_output_once(seed, weights, chunk_bytes):
    stage = _stage()
    limits = TilingParams(weights=weights, chunk_bytes=chunk_bytes, tile_bytes=400)
    made = np.zeros((2, stage.grid.rows, stage.grid.width, stage.grid.blocks), int)
    before = None
    for tile in cut_array(stage, limits, CONFIG, seed):
        assert tile.entries <= CONFIG.acc_entries // 2
        if tile.first_step:
            outputs = tile._replace(first_step=0, end_step=0, chunk=0)
            assert before == (outputs, tile.first_step), "steps follow each other"
        before = tile._replace(first_step=0, end_step=0, chunk=0), tile.end_step
        if tile.end_step < stage.loop_nest.steps:
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
        for tile in cut_array(
            _stage(), TilingParams(weights=WeightsLifetime.RESIDENT), CONFIG, None
        )
    ]
    assert len(rows) >= 4
    assert max(rows) <= 4


def test_a_tile_reads_the_rows_under_its_kernel():
    tiles = cut_array(_stage(), TilingParams(weights=WeightsLifetime.RESIDENT), CONFIG, None)
    first = tiles[0]
    box = input_box(_stage(), first, CONFIG)
    assert (box.low, box.high) == (0, first.end_row + 1)
    last = input_box(_stage(), tiles[-1], CONFIG)
    assert (last.low, last.high) == (tiles[-1].first_row - 1, 13)
    assert (last.left, last.right) == (0, 9 * 4)


@pytest.mark.parametrize("most_steps", [1, 2, 5, 7, 20])
def test_parts_of_a_reduction_make_each_step_once(most_steps):
    stage = _stage(kernel=3)
    found = split_k_parts(stage, most_steps=most_steps, input_bytes=1 << 20, array_rows=CONFIG.rows)
    assert [step for first, end in found for step in range(first, end)] == list(
        range(stage.loop_nest.steps)
    )
    whole = stage.loop_nest.fields((0, 1), (0, 1), 0)
    for first, end in found:
        part = limit_steps(whole, first, end, CONFIG.rows)
        assert part["kernel_rows"] * part["kernel_cols"] * part["blocks"] == end - first
        assert end - first <= most_steps


def test_one_exec_makes_whole_turns_of_a_loop():
    whole = _stage(kernel=3).loop_nest.fields((0, 1), (0, 1), 0)
    rows, columns, blocks = whole["kernel_rows"], whole["kernel_cols"], whole["blocks"]
    assert (rows, columns, blocks) == (3, 1, 2)
    wide = {**whole, "kernel_cols": 2}
    for fields, first, end in (
        *((whole, 0, 3), (whole, 1, 3), (whole, 1, 4), (whole, 4, 8)),
        *((wide, 0, 3), (wide, 1, 3), (wide, 2, 6), (wide, 3, 5), (wide, 2, 2)),
    ):
        by_row = blocks * fields["kernel_cols"]
        sentence = (
            f"steps {first} to {end} must be whole kernel rows of {by_row} steps, columns of 2 in "
            "one row, or blocks of one column"
        )
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            limit_steps(fields, first, end, CONFIG.rows)


@pytest.mark.parametrize("dilation", [1, 2], ids=["runs", "columns apart"])
@pytest.mark.parametrize("kernel", [(3, 1), (5, 1), (3, 3), (1, 5), (1, 1), (2, 4)])
@pytest.mark.parametrize("depth", [5, 8, 20, 40])
def test_a_split_tile_meets_each_byte_under_its_kernel_once(depth, kernel, dilation):
    """Also if the last third of the steps is a separate EXEC."""
    height, width = (dilation * (taps - 1) + 1 for taps in kernel)
    stage = stage_of(
        CONFIG,
        (20, *kernel, depth),
        in_height=height,
        in_width=width,
        out_height=1,
        out_width=1,
        dilation_y=dilation,
        dilation_x=dilation,
    )
    tiles = cut_array(
        stage, TilingParams(weights=WeightsLifetime.RESIDENT, first=FirstTiles.SPLIT), CONFIG, None
    )
    assert len(tiles) > stage.grid.blocks or stage.loop_nest.steps == 1, "the first is split"
    for block in range(stage.grid.blocks):
        met = np.zeros((height, width * depth + 2 * CONFIG.rows), int)
        for tile in tiles:
            if not tile.first_block <= block < tile.end_block:
                continue
            fields = exec_fields(stage, tile, CONFIG)
            for row, column, vector in itertools.product(
                *(range(fields[name]) for name in ("kernel_rows", "kernel_cols", "blocks"))
            ):
                first = fields["first_byte"] + column * fields["kernel_col_step"]
                first += vector * CONFIG.rows
                y = fields["first_row"] + row * fields["kernel_row_step"]
                met[y, first : first + CONFIG.rows] += 1
        taps = met[:, : width * depth].reshape(height, width, depth)[::dilation, ::dilation]
        # Bytes between taps, and beyond the last, meet weights that are zero.
        assert (taps >= 1).all()
        assert met.sum() == stage.loop_nest.steps * CONFIG.rows
        assert met.max() == 1 or dilation > 1


def _product(rows, inner, columns):
    return stage_of(
        CONFIG, (columns, 1, 1, inner), in_height=rows, in_width=1, out_height=rows, out_width=1
    )


@pytest.mark.parametrize("last", [LastTiles.EVEN, LastTiles.CHUNKS])
@pytest.mark.parametrize("prologue", [(16, 2, 1), (50, 3, 4), (16, 8, 1), (500, 9, 100)])
def test_an_opening_covers_each_step_of_each_output_once(prologue, last):
    stage = _product(61, 100, 70)
    rows, blocks, steps = prologue
    limits = TilingParams(
        weights=WeightsLifetime.RESIDENT,
        chunk_bytes=2000,
        first=Prologue(rows=rows, blocks=blocks, steps=steps),
        last=last,
    )
    made = np.zeros((stage.grid.rows, stage.grid.blocks, stage.loop_nest.steps), int)
    pinned_at = np.full((2, CONFIG.acc_entries // 2), -1)
    loaded = chunks(stage, limits, CONFIG)
    for tile in cut_array(stage, limits, CONFIG, None):
        chunk = loaded[tile.chunk]
        assert chunk.first_block <= tile.first_block < tile.end_block <= chunk.end_block
        part = made[tile.first_row : tile.end_row, tile.first_block : tile.end_block]
        assert (part.sum(axis=2) == tile.first_step).all(), "steps follow each other"
        part[:, :, tile.first_step : tile.end_step] += 1
        if tile.prologue_sums is None:
            continue
        names = (
            np.arange(tile.first_row, tile.end_row)
            + 1000 * np.c_[tile.first_block : tile.end_block]
        )
        first = tile.prologue_sums.entry
        entries = pinned_at[tile.prologue_sums.half, first : first + tile.entries]
        assert entries.size == tile.entries
        assert ((entries == names.reshape(-1)) | (tile.first_step == 0)).all()
        entries[:] = names.reshape(-1)
    assert (made == 1).all()


@pytest.mark.parametrize("ramp_down", [False, True])
def test_ranges_of_bytes_follow_each_other(ramp_down):
    """If they taper, the last is a single row."""
    rows, row_bytes = 32, 512
    stage = VectorStage(
        name="add",
        nodes=(0,),
        inputs=("a", "b"),
        output="c",
        size=rows * row_bytes,
        tile_unit=row_bytes,
        posts=(),
    )
    limits = TilingParams(
        weights=WeightsLifetime.RESIDENT, last=LastTiles.ROWS if ramp_down else LastTiles.EVEN
    )
    ends = [0]
    for tile in cut_vector(stage, limits, CONFIG, None):
        assert tile.start == ends[-1]
        assert tile.end % row_bytes == 0
        ends.append(tile.end)
    assert ends[-1] == stage.size
    assert ends[-1] - ends[-2] == (1 if ramp_down else 4) * row_bytes


@pytest.mark.parametrize(
    ("positions", "tiles"),
    [
        # One tile: the next stage waits for 60 x 2 x 2 vectors, and a second fill would take 256.
        (60, 1),
        # Four tiles, each of a quarter of 1,024 x 2 x 2 vectors; half of the accumulators holds
        # 512 of them.
        (1024, 4),
    ],
)
@pytest.mark.parametrize("ramp_down", [False, True])
def test_tiles_that_fill_tables_by_channel_are_few_and_equal(positions, tiles, ramp_down):
    config = PRESETS["reference"]
    blocks, columns = 2, config.columns
    stage = VectorStage(
        name="add",
        nodes=(0,),
        inputs=("a", "b"),
        output="c",
        size=positions * blocks * columns,
        tile_unit=positions // 4 * blocks * columns,
        posts=((0, {}), (1, {})),
        table=np.zeros((blocks, columns, 256), np.uint8),
    )
    limits = TilingParams(
        weights=WeightsLifetime.RESIDENT, last=LastTiles.ROWS if ramp_down else LastTiles.EVEN
    )
    cut = cut_vector(stage, limits, config, None)
    sizes = {(tile.end - tile.start) // (blocks * columns) for tile in cut}
    assert len(cut) == tiles
    assert sizes == {positions // tiles}


def test_the_last_positions_end_with_a_single_block():
    """After the last arithmetic, POST has one block left, and fetches only its parameters."""
    *others, final = cut_array(
        _stage(channels=60),
        TilingParams(weights=WeightsLifetime.RESIDENT, last=LastTiles.ROWS),
        CONFIG,
        None,
    )
    assert (final.first_block, final.end_block) == (7, 8)
    assert any(tile.end_block - tile.first_block > 2 for tile in others)


def test_each_kind_of_bytes_is_of_the_tile_that_needs_most_of_it():
    """Weights of one tile may exceed the room although another tile needs more in all."""
    tiles = SimpleNamespace(
        live_chunk_bytes=[100, 10],
        input_ranges=[SimpleNamespace(size=1), SimpleNamespace(size=20)],
        output_bytes=[5, 110],
        completes=[True, True],
    )
    assert BaseTiling._count_max_tile_bytes(tiles, 1, True) == (100, 101, 10 + 20 + 110 + 5)
