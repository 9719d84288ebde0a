"""Strips of rows of tensors in external memory: which stages use them, and whether they pay."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from matloom.schedule.params import Outside
from matloom.schedule.plan import ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.stages import Tiling
from matloom.select.stage import Stage


def external_tensors(segment: Segment, stage: Stage, params: ScheduleParams) -> Outside:
    """Return which tensors of a stage stay in external memory; `NOTHING` if there are no strips."""
    if not params.strips:
        return Outside.NOTHING
    streamed = not params.spilled.isdisjoint(stage.streamed_inputs)
    found = Outside.INPUT if streamed else Outside.NOTHING
    stored = stage.output in params.spilled - segment.followed_tensors
    return found | (Outside.OUTPUT if stored else Outside.NOTHING)


def strip_params(segment: Segment, params: ScheduleParams) -> ScheduleParams:
    """Return the choices with strips of rows for tensors in external memory."""
    params = replace(params, strips=True)
    limits = tuple(
        replace(each, outside=external_tensors(segment, stage, params))
        for stage, each in zip(segment.stages, params.limits, strict=True)
    )
    return replace(params, limits=limits)


def estimated_ratio(
    segment: Segment, spilled: frozenset[str], plain: Sequence[Tiling], stripped: Sequence[Tiling]
) -> float:
    """Return the estimated cycles with shared strips, as a multiple of those without."""
    return _busy_cycles(segment, spilled, stripped) / _busy_cycles(segment, spilled, plain)


def _busy_cycles(segment: Segment, spilled: frozenset[str], tilings: Sequence[Tiling]) -> float:
    """Return the cycles for which stages keep the array or the bus busy, whichever is longer.

    The maximum is taken for each stage. Only loads of `spilled` tensors count for the bus.
    """
    total = 0.0
    for stage, tiling in zip(segment.stages, tilings, strict=True):
        read = 0
        if not spilled.isdisjoint(stage.streamed_inputs):
            read = sum(each.size for each, _same in itertools.groupby(tiling.input_ranges))
        total += max(sum(tiling.cycles), segment.machine.transfer_cycles(read))
    return total
