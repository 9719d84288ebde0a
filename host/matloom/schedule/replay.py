"""Makes a schedule from recorded choices, without a search."""

from dataclasses import replace

from matloom.schedule import tuning
from matloom.schedule.cache import Cache
from matloom.schedule.choices.layouts import LAYOUTS
from matloom.schedule.choices.record import Choices
from matloom.schedule.cut import cut_stages
from matloom.schedule.params import ORDINARY_START
from matloom.schedule.pipeline import evaluate
from matloom.schedule.plan import DoesNotFit, ScheduleParams
from matloom.schedule.scheduled import Scheduled
from matloom.schedule.segment import Segment


def choices_of(scheduled: Scheduled) -> Choices:
    """Return the choices from which `replay` makes this schedule again."""
    later = None
    if scheduled.repeat is not None:
        later = replace(scheduled.repeat.plan.params, pinned_at=None, start=ORDINARY_START)
    return Choices(
        layouts=scheduled.segment.layouts,
        first=replace(scheduled.plan.params, start=ORDINARY_START),
        later=later,
    )


def replay(
    segment: Segment, choices: Choices, cache: Cache | None = None
) -> Scheduled | DoesNotFit:
    """Return the schedule of a segment with these choices, or why there is none.

    A cache may only be shared with choices that have the same layouts and constants.
    """
    laid = apply_layouts(segment, choices)
    if isinstance(laid, DoesNotFit):
        return laid
    cache = Cache() if cache is None else cache
    with tuning.override(dict(choices.constants)):
        first = evaluate(laid, choices.first, cache)
        if isinstance(first, DoesNotFit) or choices.later is None:
            return first
        return _add_later_calls(laid, first, choices.later, cache)


def apply_layouts(segment: Segment, choices: Choices) -> Segment | DoesNotFit:
    """Return the segment with the recorded layouts, or why the choices do not apply to it."""
    known = {layout.name: layout for layout in LAYOUTS}
    for name, tensors in choices.layouts:
        made = known[name].make(segment, tensors) if name in known else None
        if made is None or made.layouts[-1] != (name, tensors):
            return DoesNotFit(reason=f"{name!r} is no layout of these tensors")
        segment = made
    stages, count = len(segment.stages), len(choices.first.limits)
    if count != stages or (choices.later is not None and len(choices.later.limits) != stages):
        return DoesNotFit(reason=f"there are {stages} stages, and choices of {count}")
    return segment


def _add_later_calls(
    segment: Segment, first: Scheduled, later: ScheduleParams, cache: Cache
) -> Scheduled | DoesNotFit:
    """Add the instructions for later calls to the schedule of the first; or return why it fails.

    Later calls are made from the choices `later`; they find the weights on chip.
    """
    params = replace(later, resident=False, pinned_at=first.plan.chunk_addresses)
    if not _keeps_same_chunks(segment, first.plan.params, params, cache):
        return DoesNotFit(reason="later calls cut weights differently from the first one")
    # Its constants are in the image already.
    again = evaluate(replace(segment, image=first.image), params, cache)
    if isinstance(again, DoesNotFit):
        return again
    return first.followed_by(again)


def _keeps_same_chunks(
    segment: Segment, first: ScheduleParams, later: ScheduleParams, cache: Cache
) -> bool:
    """Return whether weights that stay on chip are loaded in the same chunks under both choices.

    Otherwise later calls could not use the chunks that the first call leaves on chip.
    """
    if not first.resident or (first.leaving, first.partly) != (later.leaving, later.partly):
        return False
    cuts = [cut_stages(segment, params, cache) for params in (first, later)]
    for index, (one, other) in enumerate(zip(*cuts, strict=True)):
        if index in first.leaving:
            continue
        apart = first.limits[index].params_apart, later.limits[index].params_apart
        if apart[0] != apart[1] or one.chunk_bytes != other.chunk_bytes:
            return False
    return True
