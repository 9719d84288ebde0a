"""Searches for the fastest schedule of a segment, and records every candidate with its outcome.

It makes one decision after another, each by comparing candidates, such as how the first stage
starts, whether weights stay on chip between calls, and which layouts tensors have on chip. The
steps of `pipeline` turn a candidate into a `Scheduled` or into the reason why it does not fit,
without exceptions. `tried` lists all candidates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from matloom.schedule import tuning
from matloom.schedule.alternatives import (
    try_alternating_stages,
    try_separate_banks,
    try_separate_results,
    with_turns,
)
from matloom.schedule.cache import Cache
from matloom.schedule.choices.candidates import candidates, is_large
from matloom.schedule.choices.layouts import LAYOUTS, Layout
from matloom.schedule.choices.policies import (
    first_params,
    plain_params,
    random_params,
)
from matloom.schedule.clear_gains import (
    ROWS_APART,
    STRIPS,
    ClearGains,
    may_have_strips,
    strip_choices,
)
from matloom.schedule.options import CompileOptions
from matloom.schedule.params import Candidate
from matloom.schedule.pipeline import emit_with_separate_banks, evaluate, fitting_plan
from matloom.schedule.plan import DoesNotFit, ScheduleParams
from matloom.schedule.residency import MapFunction, Residency
from matloom.schedule.scheduled import Scheduled, TriedCandidate, outcome_of
from matloom.schedule.segment import Segment

#: The quantity that a search minimises.
_CYCLES = attrgetter("prediction.cycles")


def search(
    segment: Segment,
    space: Sequence[ScheduleParams],
    objective: Callable[[Scheduled], float],
    map_function: MapFunction = map,
    cache: Cache | None = None,
) -> tuple[int | None, list[Scheduled | DoesNotFit]]:
    """Return the index of the best choices, the first among equals, and the outcome of each.

    If the first choices do not fit, the others are not tried, since they need more memory. The
    index is then None, and the list has one entry.

    Parameters
    ----------
    objective:
        The quantity to minimise, such as predicted cycles.
    map_function:
        `map`, or a replacement such as the `map` of a `concurrent.futures.ProcessPoolExecutor`.
    """
    found: list[Scheduled | DoesNotFit] = []
    for outcome in map_function(partial(evaluate, segment, cache=cache), space):
        found.append(outcome)
        if isinstance(found[0], DoesNotFit):
            return None, found
    values = {
        number: objective(outcome)
        for number, outcome in enumerate(found)
        if isinstance(outcome, Scheduled)
    }
    return min(values, key=values.__getitem__, default=None), found


def schedule_segment(
    segment: Segment,
    options: CompileOptions,
    *,
    may_pin: bool = True,
    map_function: MapFunction = map,
) -> Scheduled | DoesNotFit:
    """Return the fastest schedule of a segment, or why none fits.

    Other layouts of tensors are used where they are predicted to be faster. `may_pin` says that
    nothing else uses the scratchpad between two calls, so weights may stay. `map_function`, which
    evaluates candidates, does not affect the result.
    """
    decisions = _Decisions(options=options, may_pin=may_pin, map_function=map_function)
    found = decisions.best_schedule(segment)
    if isinstance(found, DoesNotFit):
        return found
    return replace(found, tried=tuple(decisions.tried))


class _Start(NamedTuple):
    """First choices of a search.

    Members
    -------
    long_slots:
        Number of slots from which their plan gets separate banks without a comparison.
    scheduled:
        Their schedule; None if the whole segment has not been scheduled yet.
    """

    params: ScheduleParams
    long_slots: int
    scheduled: Scheduled | None = None


@dataclass(kw_only=True)
class _Decisions:
    """Search for the schedule of consecutive layers: options, and candidates tried so far."""

    options: CompileOptions
    may_pin: bool
    map_function: MapFunction
    cache: Cache = field(default_factory=Cache)
    tried: list[TriedCandidate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._residency = Residency(
            options=self.options,
            may_pin=self.may_pin,
            map_function=self.map_function,
            cache=self.cache,
            tried=self.tried,
        )

        self._clear_gains = ClearGains(
            options=self.options, may_pin=self.may_pin, cache=self.cache, tried=self.tried
        )

    def best_schedule(self, segment: Segment) -> Scheduled | DoesNotFit:
        """Return the best schedule that the decisions lead to, or why none fits."""
        best, options = self._best_start(segment), self.options
        if isinstance(best, DoesNotFit):
            return best
        params, known = best.params, best.scheduled
        if known is None:
            plan = fitting_plan(segment, params, self.cache)
            if isinstance(plan, DoesNotFit):
                return plan
            plan = self._clear_gains.apply(segment, params, plan)
            known = emit_with_separate_banks(segment, plan, self.cache, best.long_slots)
        if options.tiling_seed is None and options.effort:
            known = self._faster(
                "maps apart", known, try_separate_results(params, known, self.cache)
            )
        found = self._try_residency(segment, params, known)
        if isinstance(found, DoesNotFit):
            return found
        if options.plain or not options.effort:
            return found
        found = self._try_turns(params.start, self._try_strips(segment, found))
        before = found.segment
        for layout in LAYOUTS:
            found = self._try_layout(params.start, found, layout)
        found = self._residency.keep_part_of_weights(found)
        if found.segment is not before:
            found = self._try_turns(params.start, found)
        return self._faster("banks apart", found, try_separate_banks(found, self.cache))

    def _try_turns(self, candidate: Candidate, current: Scheduled) -> Scheduled:
        """Return the faster of a schedule and one in which stages and their readers alternate."""
        start = self._first_params(current.segment, candidate)
        other = try_alternating_stages(start, current, self.cache)
        return self._faster("stages in turns", current, other)

    def _note(self, decision: str, candidate: str, cycles: int | None, outcome: str) -> None:
        """Record a candidate, its predicted cycles and its outcome as tried."""
        self.tried.append(
            TriedCandidate(decision=decision, candidate=candidate, cycles=cycles, outcome=outcome)
        )

    def _first_params(self, segment: Segment, candidate: Candidate) -> ScheduleParams:
        """Return the choices of a candidate before any is tightened."""
        if self.options.tiling_seed is not None:
            return random_params(segment, self.options.tiling_seed)
        return plain_params(segment) if self.options.plain else first_params(segment, candidate)

    def _best_start(self, segment: Segment) -> _Start | DoesNotFit:
        """Compare the candidates for the start of the segment; return the fastest."""
        options = self.options
        if options.tiling_seed is not None or options.plain or not options.effort:
            return _Start(self._first_params(segment, Candidate()), tuning.LONG_SLOTS)
        tried = candidates(segment, effort=options.effort)
        if len(tried) == 1:
            return _Start(self._first_params(segment, tried[0]), tuning.VERY_LONG_SLOTS)
        whole = options.effort > 1 or is_large(segment)
        start = segment if whole else segment.first_stages(tuning.STAGES_TRIED)
        space = [self._first_params(start, each) for each in tried]
        best, found = search(start, space, _CYCLES, self.map_function, self.cache)
        if best is None:
            (refused,) = found
            assert isinstance(refused, DoesNotFit)
            return refused
        decision = "start" if start is segment else f"start, by {len(start.stages)} stages"
        for number, (candidate, result) in enumerate(zip(tried, found, strict=True)):
            cycles = result.prediction.cycles if isinstance(result, Scheduled) else None
            self._note(decision, candidate.text, cycles, outcome_of(number, best, tried, found))
        chosen = found[best]
        assert isinstance(chosen, Scheduled)
        known = chosen if start is segment else None
        return _Start(self._first_params(segment, tried[best]), tuning.LONG_SLOTS, known)

    def _try_strips(self, segment: Segment, current: Scheduled) -> Scheduled:
        """Return a schedule whose tiles share strips of rows of spilled tensors, if it is faster.

        Otherwise return `current`.
        """
        if not may_have_strips(current.plan.params, self.options):
            return current
        other_way, share = strip_choices(segment, current.plan.params, self.cache)
        if self.options.effort <= 1 and share > tuning.STRIPS_FASTER:
            self._note("memory", STRIPS, None, "estimated to gain too little")
            return current
        other = self._try_residency(segment, other_way, None)
        if isinstance(other, DoesNotFit):
            self._note("memory", STRIPS, None, other.reason)
            return current
        better = other.cycles_of_calls < current.cycles_of_calls
        self._note("memory", ROWS_APART, current.cycles_of_calls, "slower" if better else "chosen")
        self._note("memory", STRIPS, other.cycles_of_calls, "chosen" if better else "not faster")
        return other if better else current

    def _faster(
        self, decision: str, current: Scheduled, other: Scheduled | DoesNotFit | None
    ) -> Scheduled:
        """Return the faster of two schedules; `current` if the other does not exist or fit.

        Note the outcome under the name `decision` in the list of candidates.
        """
        better = isinstance(other, Scheduled) and other.cycles_of_calls < current.cycles_of_calls
        if other is not None:
            self._note("memory", decision, None, "chosen" if better else "not faster")
        return other if better and isinstance(other, Scheduled) else current

    def _try_layout(self, candidate: Candidate, current: Scheduled, layout: Layout) -> Scheduled:
        """Return the faster of a schedule and one of the same segment with another layout."""
        # Random choices use the layout wherever it is possible.
        random = self.options.tiling_seed is not None
        segment = layout.make(current.segment, None if random else layout.choice(current))
        if segment is None:
            return current
        made = self._schedule_like(current, segment, self._first_params(segment, candidate))
        if isinstance(made, DoesNotFit):
            self._note("layout", layout.name, None, made.reason)
            return current
        # Candidates inside this one concern only its own weights.
        other = self._residency.keep_all_weights(made)
        better = random or other.cycles_of_calls < current.cycles_of_calls
        plain = "slower" if better else "chosen"
        self._note("layout", layout.without, current.cycles_of_calls, plain)
        self._note(
            "layout", layout.name, other.cycles_of_calls, "chosen" if better else "not faster"
        )
        return other if better else current

    def _schedule_like(
        self, current: Scheduled, segment: Segment, params: ScheduleParams
    ) -> Scheduled | DoesNotFit:
        """Return the schedule of another segment, with alternation and banks as in `current`."""
        if current.plan.params.turns:
            params = with_turns(params)
        if not current.plan.params.avoid_conflicts:
            return evaluate(segment, params, self.cache)
        plan = fitting_plan(segment, params, self.cache)
        if isinstance(plan, DoesNotFit):
            return plan
        return emit_with_separate_banks(segment, plan, self.cache, tuning.LONG_SLOTS)

    def _try_residency(
        self, segment: Segment, params: ScheduleParams, known: Scheduled | None
    ) -> Scheduled | DoesNotFit:
        """Return the schedule of a segment, with weights kept on chip if that is better.

        `known` is the schedule without weights kept on chip, if it exists already.
        """
        found = evaluate(segment, params, self.cache) if known is None else known
        if isinstance(found, DoesNotFit):
            return found
        return self._residency.keep_all_weights(found)
