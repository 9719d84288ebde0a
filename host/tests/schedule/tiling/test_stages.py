import pytest

from matloom.arch.config import PRESETS
from matloom.schedule.params import TilingParams, WeightsLifetime
from matloom.schedule.tiling.cutting import chunks, cut_array
from matloom.schedule.tiling.stages import TilingCache
from support.stages import stage_of

CONFIG = PRESETS["small"]


@pytest.fixture
def stage():
    return stage_of(CONFIG, (20, 3, 3, 4), in_height=12, in_width=10, out_height=10, out_width=8)


def test_a_tiling_is_remembered_for_equal_limits_of_the_same_stage(stage):
    tilings = TilingCache()
    known = tilings.tiling_of(
        stage, TilingParams(weights=WeightsLifetime.ONCE, chunk_bytes=700), CONFIG, None
    )
    assert (
        tilings.tiling_of(
            stage, TilingParams(weights=WeightsLifetime.ONCE, chunk_bytes=700), CONFIG, None
        )
        is known
    )
    assert known.tiles == cut_array(stage, known.limits, CONFIG, None)
    for other in (
        TilingParams(weights=WeightsLifetime.ONCE, chunk_bytes=1600),
        TilingParams(weights=WeightsLifetime.STREAMED, chunk_bytes=700),
        TilingParams(weights=WeightsLifetime.ONCE, chunk_bytes=700, tile_bytes=300),
    ):
        assert tilings.tiling_of(stage, other, CONFIG, None) is not known
    assert tilings.tiling_of(stage, known.limits, CONFIG, 3) is not known


def test_limits_that_make_the_same_tiles_have_the_same_tiling(stage):
    tilings = TilingCache()
    known, other = (
        tilings.tiling_of(
            stage, TilingParams(weights=WeightsLifetime.ONCE, chunk_bytes=size), CONFIG, None
        )
        for size in (700, 800)
    )
    assert other is known
    assert chunks(stage, known.limits, CONFIG) == known.chunks
    assert cut_array(
        stage, TilingParams(weights=WeightsLifetime.ONCE, chunk_bytes=800), CONFIG, None
    ) == (known.tiles)


def test_few_tilings_of_a_stage_are_kept(stage):
    tilings = TilingCache()
    limits = TilingParams(weights=WeightsLifetime.ONCE)
    first = tilings.tiling_of(stage, limits, CONFIG, 0)
    for seed in range(1, 100):
        last = tilings.tiling_of(stage, limits, CONFIG, seed)
    assert tilings.tiling_of(stage, limits, CONFIG, 99) is last
    assert tilings.tiling_of(stage, limits, CONFIG, 0) is not first


def test_streamed_weights_differ_only_in_several_chunks(stage):
    tilings = TilingCache()

    def both(**more):
        return (
            tilings.tiling_of(stage, TilingParams(weights=weights, **more), CONFIG, None)
            for weights in (WeightsLifetime.ONCE, WeightsLifetime.STREAMED)
        )

    once, streamed = both()
    assert len(once.chunks) == 1
    assert once is streamed
    once, streamed = both(chunk_bytes=700)
    assert len(once.chunks) > 1
    assert once is not streamed


def test_printed_tiles_add_up_to_the_stage(stage):
    found = TilingCache().tiling_of(
        stage, TilingParams(weights=WeightsLifetime.ONCE, chunk_bytes=700), CONFIG, None
    )
    assert (
        len(found.tiles) == len(found.cycles) == len(found.input_ranges) == len(found.output_bytes)
    )
    finished = [
        made
        for tile, made in zip(found.tiles, found.output_bytes, strict=True)
        if tile.end_step == stage.loop_nest.steps
    ]
    assert sum(finished) == stage.size == 10 * 8 * 20
    assert sum(found.chunk_bytes) == stage.weights.nbytes + stage.params.nbytes
    # A row of outputs reads three rows of inputs, which are 10 positions of 4 bytes.
    for tile, input_range in zip(found.tiles, found.input_ranges, strict=True):
        assert (input_range.start, input_range.size) == (
            tile.first_row * 40,
            (tile.height + 2) * 40,
        )


def test_streamed_weights_come_for_taller_tiles():
    """A tile of less than 64 positions would wait for its next weights (256 bytes, 8 a cycle)."""
    config = PRESETS["reference"]
    size = {"in_height": 7, "in_width": 7, "out_height": 7, "out_width": 7}
    product = stage_of(config, (64, 1, 1, 64), **size)
    for weights, rows in ((WeightsLifetime.RESIDENT, 2), (WeightsLifetime.STREAMED, 7)):
        limits = TilingParams(weights=weights, chunk_bytes=1024)
        assert cut_array(product, limits, config, None)[0].height == rows


def test_a_single_row_is_cut_so_that_the_next_stage_starts():
    config = PRESETS["reference"]
    size = {"in_height": 1, "in_width": 250, "out_height": 1, "out_width": 250}
    stage = stage_of(config, (32, 1, 1, 32), **size)
    found = TilingCache().tiling_of(
        stage, TilingParams(weights=WeightsLifetime.RESIDENT), config, None
    )
    assert [tile.end_x - tile.first_x for tile in found.tiles] == [62, 63, 62, 63]
    assert found.finished == [32 * end for end in (62, 125, 187, 250)]
