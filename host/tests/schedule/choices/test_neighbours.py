"""Rules for tiles that depend on the stages before and after."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_network
from matloom.schedule.choices.neighbours import is_followed, stages_before_pooling
from matloom.schedule.tiling.first_tiles import join_first_rows, split_first_steps
from matloom.select.stage import VectorStage
from support.chain import Chain, exact_programs, executes
from support.stages import stage_of

CONFIG = PRESETS["reference"]


def _nest(kernel_rows=1, kernel_cols=1, blocks=1, *, fixed=False):
    fields = {"kernel_rows": kernel_rows, "kernel_cols": kernel_cols, "blocks": blocks}
    nest = SimpleNamespace(
        fields=lambda rows, columns, block: fields,
        steps=kernel_rows * kernel_cols * blocks,
        weights_fixed=fixed,
    )
    return SimpleNamespace(loop_nest=nest)


@pytest.mark.parametrize(
    ("nest", "edges"),
    [
        (_nest(blocks=1), [0, 1]),
        (_nest(blocks=2), [0, 1, 2]),
        (_nest(blocks=3), [0, 2, 3]),
        (_nest(blocks=4), [0, 2, 3, 4]),
        (_nest(blocks=8), [0, 4, 6, 8]),
        (_nest(3, 3, 2), [0, 12, 18]),
        (_nest(1, 9, 2), [0, 10, 12, 18]),
        (_nest(9, 3, fixed=True), [0, 18, 27]),
    ],
)
def test_the_last_steps_of_a_first_tile_are_apart(nest, edges):
    """Half of the steps, then up to the last third, in whole iterations of a loop."""
    parts = split_first_steps(nest, [(5, 0, edges[-1])])
    assert [first for _chunk, first, _end in parts] == edges[:-1]
    assert [end for _chunk, _first, end in parts] == edges[1:]
    assert {chunk for chunk, _first, _end in parts} == {5}


def test_steps_in_parts_stay_as_they_are():
    steps = [(0, 0, 4), (1, 4, 8)]
    assert split_first_steps(_nest(blocks=8), steps) == steps


@pytest.mark.parametrize(
    ("blocks", "most", "rows"),
    [
        (4, 20, [(0, 12), (12, 18), (18, 25)]),
        (4, 11, [(0, 6), (6, 12), (12, 18), (18, 25)]),
        (8, 20, [(0, 6), (6, 12), (12, 18), (18, 25)]),
        (1, 20, [(0, 6), (6, 12), (12, 18), (18, 25)]),
    ],
)
def test_a_first_tile_has_work_until_its_last_steps_can_begin(blocks, most, rows):
    """Six rows of five positions and three steps are too few, if two tiles are not too many."""
    pieces = [(0, 6), (6, 12), (12, 18), (18, 25)]
    assert join_first_rows(_nest(blocks=blocks), pieces, 5, most) == rows
    assert join_first_rows(_nest(blocks=blocks), pieces[:2], 5, most) == pieces[:2]


def test_small_tiles_before_a_pooling():
    make = stage_of(CONFIG, (16, 1, 1, 16), in_height=8, in_width=8, out_height=8, out_width=8)
    add = VectorStage(
        name="add", nodes=(1,), inputs=("y", "z"), output="sum", size=1, tile_unit=1, posts=()
    )
    nest = replace(make.loop_nest, weights_fixed=True)
    pool = replace(make, inputs=("sum",), output="mean", loop_nest=nest)
    assert stages_before_pooling(SimpleNamespace(stages=(make, make, add, pool))) == {1, 2}
    other = replace(pool, inputs=("y",))
    assert stages_before_pooling(SimpleNamespace(stages=(make, make, add, other))) == set()
    assert stages_before_pooling(SimpleNamespace(stages=(make, make, add, make))) == set()
    segment = SimpleNamespace(stages=(make, add, pool))
    assert [is_followed(segment, index) for index in range(3)] == [True, False, False]
    assert not is_followed(SimpleNamespace(stages=(make, replace(add, inputs=("z",)))), 0)


def test_windows_stream_few_lines_twice():
    """Each tile streams two extra lines: 24 x 24 outputs in three tiles of eight rows."""
    chain = Chain((1, 24, 24, 16)).convolve(32).halve(stride=(1, 1)).convolve(32)
    (program,) = exact_programs(chain.graph(), CONFIG, (None,))
    windows = [each for each in executes(program) if each.window]
    assert [(each.out_height, each.oc_blocks) for each in windows] == [(8, 2)] * 3
    assert sum(each.width * each.height for each in windows) == 25 * (9 + 10 + 10)


def test_windows_of_many_channels_are_taller():
    """Accumulators hold 4 rows of 28 positions of 4 blocks, or 14 of one: 31 lines, not 41."""
    chain = Chain((1, 28, 28, 16)).convolve(64).halve(stride=(1, 1)).convolve(16)
    (program,) = exact_programs(chain.graph(), CONFIG, (None,))
    windows = [each for each in executes(program) if each.window]
    assert [(each.out_height, each.oc_blocks) for each in windows] == [(14, 1)] * 8
    assert sum(each.width * each.height for each in windows) == 4 * 29 * (15 + 16)


def test_only_the_last_rows_end_in_single_blocks():
    chain = Chain((1, 48, 48, 16)).convolve(32).convolve(32).halve().convolve(32)
    (program,) = exact_programs(chain.graph(), CONFIG, (None,))
    found = executes(program)
    producer = next(number for number, each in enumerate(found) if each.paired)
    blocks = [each.oc_blocks for each in found[producer - 6 : producer]]
    assert blocks == [2, 2, 1, 1, 1, 1]


def test_windows_over_wide_maps_take_parts_of_rows():
    """Of 96 x 5 positions, which is all that accumulators hold, tiles would stream 97 x 7."""
    chain = Chain((1, 96, 96, 8)).convolve(16).halve(stride=(1, 1)).convolve(16)
    program = compile_network(chain.graph(), CONFIG, CompileOptions())
    windows = [each for each in executes(program) if each.window]
    assert {each.out_width for each in windows} == {32}
    assert sum(each.out_width * each.out_height for each in windows) == 96 * 96
    assert sum(each.width * each.height for each in windows) == 3 * 34 * (96 + 2 * 6 - 1)


def test_makers_of_blocks_write_planes_of_many_rows():
    """POST writes each output block of 2 x 2 blocks by itself, so tiles have one of them."""
    chain = Chain((1, 40, 40, 16)).convolve(16).convolve(96).halve().convolve(16)
    program = compile_network(chain.graph(), CONFIG, CompileOptions())
    found = executes(program)
    first = next(number for number, each in enumerate(found) if each.paired)
    tiles = [each for each in found[:first] if each.y_step == 2]
    assert [each.oc_blocks for each in tiles] == [1] * len(tiles)
    assert max(each.height for each in tiles) == 10
