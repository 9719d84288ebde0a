import itertools
import sys

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.machine import Machine
from matloom.schedule.params import UNBOUNDED, TilingParams, WeightsLifetime
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.sequence import _interleave, _just_in_time, _stage_slots, order_tiles
from matloom.schedule.tiling.tiles import VectorTile
from matloom.schedule.tiling.vector import VectorTiling
from matloom.select.stage import VectorStage


def _stage(inputs, output, *, ratio=1, repeated=()):
    return VectorStage(
        name=output,
        nodes=(0,),
        inputs=inputs,
        output=output,
        size=64 // ratio,
        tile_unit=8,
        posts=(),
        input_ratio=ratio,
        repeated=repeated,
        period=8 if repeated else 0,
    )


def _tiling(stage, tiles, **limits):
    limits = TilingParams(weights=WeightsLifetime.RESIDENT, **limits)
    return VectorTiling(stage=stage, limits=limits, config=PRESETS["nano"], tiles=tiles, chunks=[])


def _order(*stages, spilled=()):
    """Return stage and first byte of each tile; each stage has four."""
    sizes = {"x": 64, "r": 8, **{stage.output: stage.size for stage in stages}}
    machine = Machine(config=PRESETS["nano"])
    segment = Segment(
        stages=stages,
        machine=machine,
        sizes=sizes,
        sources={},
        results={},
        timestamps=(0,) * len(stages),
    )
    tilings = [
        _tiling(
            stage,
            [
                VectorTile(start=start, end=start + stage.size // 4)
                for start in range(0, stage.size, stage.size // 4)
            ],
        )
        for stage in stages
    ]
    order = order_tiles(segment, tilings, frozenset(spilled))
    slots = order.slots
    assert [slot.last for slot in slots] == [
        slot.tile is tilings[slot.stage].tiles[-1] for slot in slots
    ]
    ticks = [
        [tick for tick, slot in enumerate(slots) if slot.stage == at] for at in range(len(stages))
    ]
    assert order.spans == [(min(of_stage), max(of_stage)) for of_stage in ticks]
    return [(slot.stage, 4 * slot.tile.start // stages[slot.stage].size) for slot in slots]


def test_stages_follow_each_other_tile_by_tile():
    """The last of three stages writes half as many bytes, so its tiles are half as large."""
    chain = _stage(("x",), "a"), _stage(("a",), "b"), _stage(("b",), "c", ratio=2)
    assert _order(*chain) == [(stage, tile) for tile in range(4) for stage in range(3)]


def test_stored_tiles_are_read_two_tiles_later():
    chain = _stage(("x",), "a"), _stage(("a",), "b"), _stage(("b",), "c")
    stages = [stage for stage, _ in _order(*chain, spilled=("a",))]
    assert stages == [0, 0, 0, 1, 2, 0, 1, 2, 1, 2, 1, 2]


def test_tiles_that_read_back_keep_pace_with_their_producer():
    """Two tiles share a LOAD, so they are ready together, but do not run together."""
    tiles = [VectorTile(start=start, end=start + 4) for start in range(0, 64, 4)]
    producer, reader = (
        _tiling(_stage(inputs, output), tiles, tile_bytes=bound)
        for inputs, output, bound in ((("x",), "a", UNBOUNDED), (("a",), "b", 16))
    )
    assert [each.size for each in reader.input_ranges] == [8] * len(tiles)
    assert [each.start for each in reader.input_ranges[:4]] == [0, 0, 8, 8]
    stages = [slot.stage for slot in _interleave(0, _stage_slots(producer, 0), producer, reader, 1)]
    assert stages == [0, 0, 0, *(1, 0) * 13, 1, 1, 1]


def test_tiles_just_ahead_of_their_reader():
    """When a tile of the reader starts, what the next one reads is already made."""
    producer, reader = (
        _tiling(_stage(inputs, output), [VectorTile(start=at, end=at + size) for at in starts])
        for inputs, output, size, starts in (
            (("x",), "a", 4, range(0, 24, 4)),
            (("a",), "b", 6, range(0, 24, 6)),
        )
    )
    order = [(slot.stage, slot.number) for slot in _just_in_time(0, producer, reader)]
    assert order == [
        *((0, 0), (0, 1), (0, 2)),
        *((1, 0), (0, 3), (0, 4)),
        *((1, 1), (0, 5), (1, 2)),
        (1, 3),
    ]


@pytest.mark.parametrize(
    "last",
    [_stage(("x",), "c"), _stage(("b", "x"), "c", repeated=(0,)), _stage(("b", "a"), "c")],
    ids=["another tensor", "all of it again and again", "what is not finished"],
)
def test_instructions_that_cannot_follow_wait(last):
    order = _order(_stage(("x",), "a"), _stage(("a",), "b"), last)
    assert order[-4:] == [(2, tile) for tile in range(4)]


def test_stages_beyond_the_depth_of_pythons_calls():
    count = sys.getrecursionlimit() + 100
    names = ["x", *(f"t{at}" for at in range(count))]
    order = _order(*(_stage((a,), b) for a, b in itertools.pairwise(names)))
    assert order == [(stage, tile) for tile in range(4) for stage in range(count)]
