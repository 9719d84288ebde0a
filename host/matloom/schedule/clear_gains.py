"""Changes of a plan that gain so much by an estimate that they need no comparison."""

from dataclasses import dataclass

from matloom.schedule import tuning
from matloom.schedule.alternatives import cycles_saved_by_turns, with_turns
from matloom.schedule.cache import Cache
from matloom.schedule.choices.residency import residency_may_pay, weights_fit
from matloom.schedule.choices.strips import busy_cycles, estimated_ratio, strip_params
from matloom.schedule.cut import cut_stages
from matloom.schedule.options import CompileOptions
from matloom.schedule.pipeline import fitting_plan
from matloom.schedule.plan import Plan, ScheduleParams
from matloom.schedule.scheduled import TriedCandidate
from matloom.schedule.segment import Segment

#: Names of the two ways to read tensors in external memory, in the list of candidates.
ROWS_APART, STRIPS = "tiles read rows apart", "tiles share strips of rows"


def strip_choices(
    segment: Segment, params: ScheduleParams, cache: Cache
) -> tuple[ScheduleParams, float]:
    """Return choices with strips of rows, and the estimated cycles as a multiple of those now."""
    other_way = strip_params(segment, params)
    tilings = (cut_stages(segment, each, cache) for each in (params, other_way))
    return other_way, estimated_ratio(segment, params.spilled, *tilings)


def may_have_strips(params: ScheduleParams, options: CompileOptions) -> bool:
    """Return whether tiles could share strips: ranges of rows of a spilled tensor."""
    fixed = params.strips or params.keeps_weights or options.tiling_seed is not None
    return bool(params.spilled) and not fixed


@dataclass(frozen=True, kw_only=True)
class ClearGains:
    """Changes plans that clearly gain by it, before instructions are emitted, which is slow.

    Members
    -------
    may_pin:
        Whether weights may stay on chip between calls.
    tried:
        The candidates of the search so far, to which this adds its own.
    """

    options: CompileOptions
    may_pin: bool
    cache: Cache
    tried: list[TriedCandidate]

    def apply(self, segment: Segment, params: ScheduleParams, plan: Plan) -> Plan:
        """Return the plan with all changes that are clearly faster; `plan` itself if there is none.

        `params` are the choices for `plan` before any was tightened.
        """
        plan = self._with_turns(segment, params, plan) or plan
        return self._with_strips(segment, plan) or plan

    def _with_turns(self, segment: Segment, params: ScheduleParams, plan: Plan) -> Plan | None:
        """Return the plan with alternating stages; None if it may not be faster or does not fit."""
        if self.options.tiling_seed is not None or not self._may_decide(segment, plan):
            return None
        gain = cycles_saved_by_turns(segment, plan.params, self.cache)
        if gain < tuning.TURNS_SURE * busy_cycles(segment, plan.params.spilled, plan.tilings):
            return None
        found = fitting_plan(segment, with_turns(params), self.cache)
        if not isinstance(found, Plan):
            return None
        self._record_outcome("stages in turns", "chosen")
        return found

    def _with_strips(self, segment: Segment, plan: Plan) -> Plan | None:
        """Return the plan with strips of rows; None if it may not be faster or does not fit.

        A long plan would take too long to emit for a comparison, so it needs a smaller gain.
        """
        allowed = may_have_strips(plan.params, self.options)
        if not (allowed and self._may_decide(segment, plan)):
            return None
        other_way, share = strip_choices(segment, plan.params, self.cache)
        long = len(plan.slots) > tuning.LONG_SLOTS
        if share > (tuning.STRIPS_FASTER if long else tuning.STRIPS_SURE):
            return None
        found = fitting_plan(segment, other_way, self.cache)
        if not isinstance(found, Plan):
            return None
        self._record_outcome(ROWS_APART, "estimated to be slower")
        self._record_outcome(STRIPS, "chosen")
        return found

    def _may_decide(self, segment: Segment, plan: Plan) -> bool:
        """Return whether an estimate may choose between a plan and an alternative.

        Not if weights might rather stay on chip, or if the user asked for more effort.
        """
        if self.options.effort != 1 or self.options.plain:
            return False
        may_stay = self.may_pin and self.options.resident is not False
        if not (may_stay and weights_fit(plan, segment.config)):
            return True
        return not self.options.resident and not residency_may_pay(segment, plan)

    def _record_outcome(self, candidate: str, outcome: str) -> None:
        """Record a candidate and its outcome in the list of tried candidates."""
        self.tried.append(
            TriedCandidate(decision="memory", candidate=candidate, cycles=None, outcome=outcome)
        )
