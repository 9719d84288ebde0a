"""Stages that alternate: some rows of a depthwise layer, then the same rows of its reader."""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from matloom.schedule.params import ExternalTensors, FirstTiles, LastTiles, TilingParams
from matloom.schedule.plan import ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.array import ArrayTiling
from matloom.schedule.tiling.stages import Tiling
from matloom.schedule.tiling.tile_reads import InputRange
from matloom.select.stage import ArrayStage


def turn_taking_limits(
    producer: ArrayStage, first: TilingParams, second: TilingParams
) -> tuple[TilingParams, TilingParams]:
    """Return bounds on tile sizes for a stage and its reader if they alternate (take turns).

    Each time, the first makes as many rows as fit `tile_bytes` with their input, and half of it
    with their output.
    """
    nest, in_row_bytes = producer.loop_nest, producer.input_layout.row_bytes
    halo = (nest.kernel_rows - 1) * nest.kernel_row_step * in_row_bytes
    reads = in_row_bytes * max(1, nest.y_step)
    most = min((first.tile_bytes - halo) // reads, first.tile_bytes // 2 // producer.grid.row_bytes)
    turns = -(-producer.grid.rows // min(max(1, most), producer.grid.rows))
    rows = -(-producer.grid.rows // turns)
    outside = first.outside & ~ExternalTensors.OUTPUT
    begin = FirstTiles.WHOLE if second.splits else second.first
    return (
        replace(
            first, first=FirstTiles.WHOLE, last=LastTiles.EVEN, outside=outside, turn_rows=rows
        ),
        replace(
            second, first=begin, outside=second.outside & ~ExternalTensors.INPUT, turn_rows=rows
        ),
    )


def saved_cycles(
    segment: Segment,
    params: ScheduleParams,
    turns: tuple[Tiling, Tiling],
    apart: tuple[Tiling, Tiling],
) -> float:
    """Return the estimated cycles that two stages save by alternating; 0 if they do not.

    `turns` and `apart` have the tilings of producer and reader: in `turns` they alternate, in
    `apart` they do not. In alternation, arithmetic hides the transfers of both stages; but with few
    rows at a time, more rows are loaded twice.
    """
    if not (turns[0].tiles_of_strip and turns[1].tiles_of_strip):
        return 0
    # Stages with turns are of the array.
    producer, reader = (cast(ArrayTiling, each) for each in turns)
    transfer_cycles = segment.machine.transfer_cycles
    outside = params.spilled | segment.sources.keys()
    works = [sum(each.cycles) for each in (*turns, *apart)]
    name, addend = producer.stage.inputs[0], reader.stage.addend
    ranges = reader.addend_ranges if addend in outside else []
    added = sum(each.size for each in ranges if each is not None)
    loads = [
        _total_bytes(each.input_ranges) if name in outside else 0 for each in (producer, apart[0])
    ]
    # What both read is loaded once.
    loads[0] += 0 if addend == name else added
    together = max(works[0] + works[1], transfer_cycles(loads[0]))
    first = max(works[2], transfer_cycles(loads[1]))
    second = max(works[3], transfer_cycles(_total_bytes(apart[1].input_ranges) + added))
    return first + second - together


def _total_bytes(ranges: Iterable[InputRange]) -> int:
    """Return the total size in bytes of the ranges that tiles load one after another.

    A range that equals the one before it is not loaded again.
    """
    return sum(each.size for each, _same in itertools.groupby(ranges))
