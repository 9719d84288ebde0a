"""Weights that stay on chip between calls: whether they fit, and which of them stay if not."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from matloom.arch.config import Config
from matloom.arch.machine import Machine
from matloom.schedule import tuning
from matloom.schedule.choices.policies import waits_for_weights
from matloom.schedule.choices.strips import busy_cycles
from matloom.schedule.params import FirstTiles, LastTiles, TilingParams, WeightsLifetime
from matloom.schedule.plan import Plan, ScheduleParams
from matloom.schedule.segment import Segment
from matloom.schedule.tiling.cutting import chunks
from matloom.select.stage import ArrayStage, Stage


def weights_fit(plan: Plan, config: Config) -> bool:
    """Return whether the scratchpad could hold all weights at once, ignoring other buffers."""
    if any(limits.weights is WeightsLifetime.STREAMED for limits in plan.params.limits):
        return False
    sizes = (sum(tiling.chunk_bytes) for tiling in plan.tilings)
    return sum(sizes) <= config.spad_bytes


def residency_may_pay(segment: Segment, plan: Plan) -> bool:
    """Return whether later calls might become faster enough if they did not load the weights."""
    weights = sum(sum(tiling.chunk_bytes) for tiling in plan.tilings)
    busy = busy_cycles(segment, plan.params.spilled, plan.tilings)
    return segment.machine.transfer_cycles(weights) > (1 - tuning.LATER_CALLS_FASTER) * busy


def resident_params(segment: Segment, params: ScheduleParams) -> tuple[ScheduleParams, ...]:
    """Return choices to try that keep weights on chip between calls, the best first, if any.

    Some choices keep parameters and weights in different banks. That avoids conflicts between POST
    and EXEC, which reads weights in most cycles of repeated calls, but takes one more transfer.
    """
    if any(limits.weights is WeightsLifetime.STREAMED for limits in params.limits):
        return ()
    apart = (
        replace(limits, params_apart=_reads_weights_always(stage, segment.config))
        for stage, limits in zip(segment.stages, params.limits, strict=True)
    )
    resident = replace(params, resident=True)
    close = replace(resident, avoid_conflicts=False)
    return (
        replace(resident, limits=tuple(apart)),
        resident,
        close,
        replace(close, in_place=True),
    )


def repeat_params(segment: Segment, first: Plan) -> tuple[ScheduleParams, ...]:
    """Return choices to try for the later calls, which find the weights of plan `first` on chip."""
    pinned_at = replace(first.params, resident=False, pinned_at=first.chunk_addresses)
    ramped_down = tuple(
        replace(limits, last=_with_blocks(limits.last, _hides_results(stage, segment.machine)))
        for stage, limits in zip(segment.stages, pinned_at.limits, strict=True)
    )
    early = tuple(
        replace(limits, first=FirstTiles.SPLIT)
        if limits.first is FirstTiles.WHOLE and LastTiles.BLOCKS in before.last & limits.last
        else limits
        for before, limits in itertools.pairwise((ramped_down[0], *ramped_down))
    )
    return tuple(
        replace(pinned_at, limits=limits) for limits in (pinned_at.limits, ramped_down, early)
    )


def keep_some_weights(segment: Segment, params: ScheduleParams, share: float) -> ScheduleParams:
    """Return choices that keep some weights on chip, in a share (0 to 1) of the scratchpad."""
    most = chunk_counts(segment, params.limits)
    leaving, partly = resident_chunks(segment, most, chunks_in_share(segment, most, share))
    return replace(params, resident=True, leaving=leaving, partly=partly)


def chunk_counts(segment: Segment, limits: Sequence[TilingParams]) -> dict[int, int]:
    """Return, by stage, the number of LOADs (chunks) of weights that may stay on chip.

    The key is the index of the stage. `limits` has the bounds on tiles of each stage, which
    determine its chunks.
    """
    return {
        # Only stages of the array load weights.
        at: len(chunks(cast(ArrayStage, stage), each, segment.config))
        for at, (stage, each) in enumerate(zip(segment.stages, limits, strict=True))
        if stage.loads_weights and each.weights is not WeightsLifetime.STREAMED
    }


def chunks_in_share(segment: Segment, most: Mapping[int, int], share: float) -> dict[int, int]:
    """Return how many weight chunks of each stage to keep on chip, in a share of the scratchpad.

    `most` has the number of chunks of each stage. Stages that use their weights least come first,
    since less arithmetic hides their LOADs. A stage may keep only some of its chunks.
    """
    room, counts = share * segment.config.spad_bytes, dict.fromkeys(most, 0)
    for at in sorted(most, key=lambda each: (_weight_uses(segment.stages[each]), -each)):
        size = segment.stages[at].weight_bytes / most[at]
        counts[at] = min(most[at], int(room / size))
        room -= counts[at] * size
    return counts


def resident_chunks(
    segment: Segment, most: Mapping[int, int], counts: Mapping[int, int]
) -> tuple[frozenset[int], tuple[tuple[int, int], ...]]:
    """Return stages whose weights leave the chip, and (stage, chunks) of those kept in part.

    A chunk is the part of a stage's weights that one LOAD brings; `counts` is by stage.

    `most` has the number of chunks of each stage whose weights may stay.
    """
    leaving = frozenset(at for at in range(len(segment.stages)) if not counts.get(at))
    return leaving, tuple((at, n) for at, n in sorted(counts.items()) if 0 < n < most[at])


def _weight_uses(stage: Stage) -> int:
    """Return how often a stage uses each of its weights."""
    return stage.grid.images * stage.grid.rows * stage.grid.width


def _reads_weights_always(stage: Stage, config: Config) -> bool:
    """Return whether EXEC reads weights from the scratchpad in most cycles of a stage."""
    if not stage.loads_weights or not stage.has_params:
        return False
    return (
        stage.grid.blocks > 1 and stage.grid.rows * stage.grid.width < 2 * config.tile_load_cycles
    )


def _hides_results(stage: Stage, machine: Machine) -> bool:
    """Return whether a stage waits so long for weights that tiles of fewer blocks cost no time."""
    if not waits_for_weights(stage, machine):
        return False
    return stage.steps * machine.config.tile_load_cycles >= tuning.RESULT_CYCLES


def _with_blocks(last: LastTiles, enabled: bool) -> LastTiles:
    """Return the flags with or without `LastTiles.BLOCKS`: last tiles with ever fewer channels."""
    return last | LastTiles.BLOCKS if enabled else last & ~LastTiles.BLOCKS
