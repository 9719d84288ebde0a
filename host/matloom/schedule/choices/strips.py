"""Strips of rows of tensors in external memory: which stages use them, and whether they pay."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from matloom.schedule.params import ExternalTensors
from matloom.schedule.plan import ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.stages import Tiling
from matloom.select.stage import Stage


def external_tensors(segment: Segment, stage: Stage, params: ScheduleParams) -> ExternalTensors:
    """Return which tensors of a stage stay in external memory and are loaded in strips of rows.

    Return `ExternalTensors.NOTHING` if the choices have no strips.
    """
    if not params.strips:
        return ExternalTensors.NOTHING
    streamed = not params.spilled.isdisjoint(stage.streamed_inputs)
    found = ExternalTensors.INPUT if streamed else ExternalTensors.NOTHING
    stored = stage.output in params.spilled - segment.followed_tensors
    return found | (ExternalTensors.OUTPUT if stored else ExternalTensors.NOTHING)


def strip_params(segment: Segment, params: ScheduleParams) -> ScheduleParams:
    """Return choices in which tiles share strips (loaded ranges of rows) of external tensors."""
    params = replace(params, strips=True)
    limits = tuple(
        replace(each, outside=external_tensors(segment, stage, params))
        for stage, each in zip(segment.stages, params.limits, strict=True)
    )
    return replace(params, limits=limits)


def estimated_ratio(
    segment: Segment, spilled: frozenset[str], plain: Sequence[Tiling], stripped: Sequence[Tiling]
) -> float:
    """Return the estimated cycles of the tilings `stripped` divided by those of `plain`.

    Tiles in `stripped` share strips of rows of the `spilled` tensors.
    """
    return busy_cycles(segment, spilled, stripped) / busy_cycles(segment, spilled, plain)


def busy_cycles(segment: Segment, spilled: frozenset[str], tilings: Sequence[Tiling]) -> float:
    """Return the cycles for which stages keep the array or the bus busy, whichever is longer.

    The maximum is taken for each stage. Only loads of `spilled` tensors, kept in external memory,
    count for the bus.
    """
    total = 0.0
    for stage, tiling in zip(segment.stages, tilings, strict=True):
        read = 0
        if not spilled.isdisjoint(stage.streamed_inputs):
            read = sum(each.size for each, _same in itertools.groupby(tiling.input_ranges))
        total += max(sum(tiling.cycles), segment.machine.transfer_cycles(read))
    return total
