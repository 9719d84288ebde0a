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
from matloom.schedule.pipeline import emit_plan, evaluate, make_plan
from matloom.schedule.plan import DoesNotFit, Plan, ScheduleParams
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment


def emit_with_separate_banks(segment: Segment, plan: Plan, cache: Cache) -> Scheduled:
    """Return the schedule of a plan, that is, its instructions and their predicted cycles.

    The buffers of a plan with many slots are first moved to separate banks, if they fit: it would
    take too long to emit instructions for both plans and compare them.
    """
    params, short = plan.params, len(plan.slots) < tuning.LONG_SLOTS
    if not (short or params.avoid_conflicts or params.keeps_weights or params.plain):
        apart = make_plan(segment, replace(params, avoid_conflicts=True), cache)
        plan = apart if isinstance(apart, Plan) else plan
    return emit_plan(segment, plan, cache)


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
    other = replace(current_params, turns=True)
    gain = sum(
        saved_cycles(segment, current_params, turns, apart)
        for turns, apart in zip(
            *(pairwise(cut_stages(segment, each, cache)) for each in (other, current_params)),
            strict=True,
        )
        if turns != apart
    )
    if gain < tuning.TURNS_GAIN * current.prediction.cycles:
        return None
    # Otherwise results of turns would find no room among buffers that LOADs fill early.
    return evaluate(segment, replace(params, turns=True, results_first=True), cache)


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
