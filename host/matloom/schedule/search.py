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

from matloom.schedule import tuning
from matloom.schedule.alternatives import (
    emit_with_separate_banks,
    try_alternating_stages,
    try_separate_banks,
    try_separate_results,
)
from matloom.schedule.cache import Cache
from matloom.schedule.choices.candidates import candidates, is_large
from matloom.schedule.choices.layouts import LAYOUTS, Layout
from matloom.schedule.choices.policies import (
    first_params,
    plain_params,
    random_params,
)
from matloom.schedule.choices.residency import weights_fit
from matloom.schedule.choices.strips import estimated_ratio, strip_params
from matloom.schedule.cut import cut_stages
from matloom.schedule.options import CompileOptions
from matloom.schedule.params import Candidate
from matloom.schedule.pipeline import evaluate, fitting_plan
from matloom.schedule.plan import DoesNotFit, Plan, ScheduleParams
from matloom.schedule.residency import MapFunction, Residency
from matloom.schedule.scheduled import Scheduled, TriedCandidate, outcome_of
from matloom.schedule.segment import Segment

#: The quantity that a search minimises.
_CYCLES = attrgetter("prediction.cycles")
#: Names of the alternatives of `_try_strips`.
_APART, _STRIPS = "tiles read rows apart", "tiles share strips of rows"


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


@dataclass(kw_only=True)
class _Decisions:
    """The decisions of one search, and the candidates tried so far."""

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

    def best_schedule(self, segment: Segment) -> Scheduled | DoesNotFit:
        """Return the best schedule that the decisions lead to, or why none fits."""
        best, options = self._best_start(segment), self.options
        if isinstance(best, DoesNotFit):
            return best
        params, known = best
        if known is None:
            plan = fitting_plan(segment, params, self.cache)
            if isinstance(plan, DoesNotFit):
                return plan
            known = self._surely_faster_strips(segment, plan)
            known = known or emit_with_separate_banks(segment, plan, self.cache)
        if options.tiling_seed is None and options.effort:
            known = self._faster(
                "maps apart", known, try_separate_results(params, known, self.cache)
            )
        found = self._try_residency(segment, params, known)
        if isinstance(found, DoesNotFit):
            return found
        if options.plain or not options.effort:
            return found
        found = self._try_strips(segment, found)
        for layout in LAYOUTS:
            found = self._try_layout(params.start, found, layout)
        found = self._residency.keep_part_of_weights(found)
        start = self._first_params(found.segment, params.start)
        found = self._faster(
            "stages in turns", found, try_alternating_stages(start, found, self.cache)
        )
        return self._faster("banks apart", found, try_separate_banks(found, self.cache))

    def _note(self, decision: str, candidate: str, cycles: int | None, outcome: str) -> None:
        self.tried.append(
            TriedCandidate(decision=decision, candidate=candidate, cycles=cycles, outcome=outcome)
        )

    def _first_params(self, segment: Segment, candidate: Candidate) -> ScheduleParams:
        """Return the choices of a candidate before any is tightened."""
        if self.options.tiling_seed is not None:
            return random_params(segment, self.options.tiling_seed)
        return plain_params(segment) if self.options.plain else first_params(segment, candidate)

    def _best_start(self, segment: Segment) -> tuple[ScheduleParams, Scheduled | None] | DoesNotFit:
        """Compare the candidates for the start of the segment; return the choices of the fastest.

        Return also their schedule, None if the whole segment was not scheduled for the comparison.
        """
        options = self.options
        if options.tiling_seed is not None or options.plain or not options.effort:
            return self._first_params(segment, Candidate()), None
        tried = candidates(segment, effort=options.effort)
        if len(tried) == 1 and self._takes_long(segment, tried[0]):
            return self._first_params(segment, tried[0]), None
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
        return self._first_params(segment, tried[best]), chosen if start is segment else None

    def _takes_long(self, segment: Segment, start: Candidate) -> bool:
        """Return whether the plan for `start` is so long that instructions are emitted only once.

        Shorter plans are emitted twice, with and without buffers in separate banks, to compare
        them.
        """
        plan = fitting_plan(segment, self._first_params(segment, start), self.cache)
        return isinstance(plan, Plan) and len(plan.slots) > tuning.VERY_LONG_SLOTS

    def _strip_choices(
        self, segment: Segment, params: ScheduleParams
    ) -> tuple[ScheduleParams, float]:
        """Return choices with strips of rows, and their estimated cycles as a multiple of now."""
        other_way = strip_params(segment, params)
        tilings = (cut_stages(segment, each, self.cache) for each in (params, other_way))
        return other_way, estimated_ratio(segment, params.spilled, *tilings)

    def _may_have_strips(self, params: ScheduleParams) -> bool:
        """Return whether tiles could share strips: ranges of rows of a spilled tensor."""
        fixed = params.strips or params.keeps_weights or self.options.tiling_seed is not None
        return bool(params.spilled) and not fixed

    def _surely_faster_strips(self, segment: Segment, plan: Plan) -> Scheduled | None:
        """Return the schedule with strips of rows if it is estimated to be clearly faster.

        Return None otherwise, and if weights could stay on chip instead.
        """
        usual = self.options.effort == 1 and not self.options.plain
        stays = self.may_pin and self.options.resident is not False
        stays = stays and weights_fit(plan, segment.config)
        if stays or not (usual and self._may_have_strips(plan.params)):
            return None
        other_way, share = self._strip_choices(segment, plan.params)
        if share > tuning.STRIPS_SURE:
            return None
        found = fitting_plan(segment, other_way, self.cache)
        if isinstance(found, DoesNotFit):
            return None
        other = emit_with_separate_banks(segment, found, self.cache)
        self._note("memory", _APART, None, "estimated to be slower")
        self._note("memory", _STRIPS, other.cycles_of_calls, "chosen")
        return other

    def _try_strips(self, segment: Segment, current: Scheduled) -> Scheduled:
        """Return a schedule whose tiles share strips of rows of spilled tensors, if it is faster.

        Otherwise return `current`.
        """
        if not self._may_have_strips(current.plan.params):
            return current
        other_way, share = self._strip_choices(segment, current.plan.params)
        if self.options.effort <= 1 and share > tuning.STRIPS_FASTER:
            self._note("memory", _STRIPS, None, "estimated to gain too little")
            return current
        other = self._try_residency(segment, other_way, None)
        if isinstance(other, DoesNotFit):
            self._note("memory", _STRIPS, None, other.reason)
            return current
        better = other.cycles_of_calls < current.cycles_of_calls
        self._note("memory", _APART, current.cycles_of_calls, "slower" if better else "chosen")
        self._note("memory", _STRIPS, other.cycles_of_calls, "chosen" if better else "not faster")
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
        # Candidates inside this one concern only its own weights.
        other = self._try_residency(segment, self._first_params(segment, candidate), None)
        if isinstance(other, DoesNotFit):
            self._note("layout", layout.name, None, other.reason)
            return current
        better = random or other.cycles_of_calls < current.cycles_of_calls
        plain = "slower" if better else "chosen"
        self._note("layout", layout.without, current.cycles_of_calls, plain)
        self._note(
            "layout", layout.name, other.cycles_of_calls, "chosen" if better else "not faster"
        )
        return other if better else current

    def _try_residency(
        self, segment: Segment, params: ScheduleParams, known: Scheduled | None
    ) -> Scheduled | DoesNotFit:
        """Return the schedule of a segment, with weights kept on chip if that is better.

        `known` is the schedule without resident weights, if it exists already.
        """
        found = evaluate(segment, params, self.cache) if known is None else known
        if isinstance(found, DoesNotFit):
            return found
        return self._residency.keep_all_weights(found)
