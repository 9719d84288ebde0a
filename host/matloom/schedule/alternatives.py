"""Alternatives to a finished schedule, each of which the search compares with it.

The alternatives put buffers into separate banks, give results bytes that hold no input, or let
neighbouring stages alternate. A plan that does not fit first gives up separate banks, then lets
results overwrite inputs, and only then makes tiles smaller. The first two cost waits, which can be
worse than smaller tiles.
"""

from dataclasses import replace
from itertools import pairwise

from matloom.schedule import tuning
from matloom.schedule.cache import Cache
from matloom.schedule.choices.turns import saved_cycles
from matloom.schedule.cut import cut_stages
from matloom.schedule.pipeline import evaluate
from matloom.schedule.plan import DoesNotFit, ScheduleParams
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment


def try_separate_banks(current: Scheduled, cache: Cache) -> Scheduled | DoesNotFit | None:
    """Return a schedule with buffers in different banks, or the reason why it does not fit.

    Returns None if `current` has such buffers already or keeps weights on chip, or if POST and
    STORE seldom wait for a bank in it.
    """
    params, prediction = current.plan.params, current.prediction
    if params.avoid_conflicts or params.keeps_weights:
        return None
    if prediction.bank_waits < tuning.BANK_WAITS * prediction.cycles:
        return None
    return evaluate(current.segment, replace(params, avoid_conflicts=True), cache)


def with_turns(params: ScheduleParams) -> ScheduleParams:
    """Return the choices with turns: a stage and its reader alternate, some rows at a time."""
    # Otherwise results of turns would find no room among buffers that LOADs fill early.
    return replace(params, turns=True, results_first=True)


def cycles_saved_by_turns(segment: Segment, params: ScheduleParams, cache: Cache) -> float:
    """Return the estimated cycles that stages save by alternating with their readers (turns)."""
    turned = replace(params, turns=True)
    tilings = (pairwise(cut_stages(segment, each, cache)) for each in (turned, params))
    return sum(
        saved_cycles(segment, params, turns, apart)
        for turns, apart in zip(*tilings, strict=True)
        if turns != apart
    )


def try_alternating_stages(
    params: ScheduleParams, current: Scheduled, cache: Cache
) -> Scheduled | DoesNotFit | None:
    """Return a schedule in which a stage and its reader alternate, some rows at a time.

    Return the reason if that does not fit, and None if no two stages can alternate or if the
    estimated gain is small. `params` are the choices of `current` before they were tightened to
    fit.
    """
    current_params, segment = current.plan.params, current.segment
    if (
        current_params.turns
        or current_params.keeps_weights
        or not current_params.spilled & segment.alternating_tensors
    ):
        return None
    gain = cycles_saved_by_turns(segment, current_params, cache)
    if gain < tuning.TURNS_GAIN * current.prediction.cycles:
        return None
    return evaluate(segment, with_turns(params), cache)


def try_separate_results(
    params: ScheduleParams, current: Scheduled, cache: Cache
) -> Scheduled | DoesNotFit | None:
    """Return a schedule whose results do not overwrite inputs, or the reason why it does not fit.

    Return None if no results overwrite inputs in `current`, the schedule made from `params`, or if
    another plan would take long to make. Return None also if EXEC and POST often idle in `current`:
    a schedule that keeps more tensors in external memory would then not be faster.
    """
    current_params, prediction = current.plan.params, current.prediction
    # Separate results save more than separate banks, so this comparison may take longer.
    long = len(current.plan.slots) > 2 * tuning.LONG_SLOTS
    if not current_params.over_inputs or current_params.plain or long:
        return None
    if max(prediction.busy[unit] for unit in ("exec", "post")) < tuning.BUSY * prediction.cycles:
        return None
    return evaluate(
        current.segment, replace(params, over_inputs=False, strips=current_params.strips), cache
    )
