"""Decides whether weights stay on chip between calls: all of them, a part, or none."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

from matloom.cost.predict import predict
from matloom.schedule import tuning
from matloom.schedule.cache import Cache
from matloom.schedule.choices.residency import (
    keep_some_weights,
    repeat_params,
    resident_params,
    weights_fit,
)
from matloom.schedule.distinct import skip_repeated_tilings
from matloom.schedule.options import CompileOptions
from matloom.schedule.pipeline import evaluate
from matloom.schedule.plan import DoesNotFit, Plan, ScheduleParams
from matloom.schedule.scheduled import Scheduled, TriedCandidate
from matloom.schedule.segment import Segment

#: Type of `map`, and of replacements that may call the function in other processes.
MapFunction = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, kw_only=True)
class Residency:
    """Decides which weights of a segment stay on chip between calls.

    Members
    -------
    may_pin:
        Whether nothing else uses the scratchpad between two calls.
    map_function:
        `map`, or a parallel replacement, that evaluates candidates.
    tried:
        The candidates of the search so far, to which this class appends its own.
    """

    options: CompileOptions
    may_pin: bool
    map_function: MapFunction
    cache: Cache
    tried: list[TriedCandidate]

    def _record_outcome(self, candidate: str, cycles: int | None, outcome: str) -> None:
        """Record a candidate, its predicted cycles and its outcome as tried."""
        self.tried.append(
            TriedCandidate(
                decision="residency", candidate=candidate, cycles=cycles, outcome=outcome
            )
        )

    def keep_all_weights(self, scheduled: Scheduled) -> Scheduled:
        """Return a schedule that keeps all weights on chip between calls, if that is better.

        Otherwise return `scheduled`.
        """
        ways = self._resident_choices(scheduled)
        names = (f"weights stay on chip, variant {number}" for number in itertools.count(1))
        return self._first_worthwhile(scheduled, zip(ways, names, strict=False))

    def keep_part_of_weights(self, scheduled: Scheduled) -> Scheduled:
        """Return a schedule that keeps part of the weights on chip, or `scheduled` unchanged.

        Ever smaller parts are tried, until a schedule hardly slows down the first call and speeds
        up later ones. A schedule that keeps weights already is not changed.
        """
        segment, plan = scheduled.segment, scheduled.plan
        allowed = self.may_pin and self.options.resident is None
        if not allowed or scheduled.repeat is not None:
            return scheduled
        long = len(plan.slots) > tuning.LONG_SLOTS
        if long or not self._may_gain(scheduled, 1 - tuning.PART_GAIN / _largest_part(plan)):
            self._record_outcome("some weights stay", None, "estimated to gain too little")
            return scheduled
        shares = [tuning.LARGEST_PART * tuning.PART_RATIO**at for at in range(tuning.PARTS)]
        ways = (
            (
                keep_some_weights(segment, plan.params, share),
                f"weights stay in {share:.0%} of the scratchpad",
            )
            for share in shares
        )
        return self._first_worthwhile(scheduled, ways)

    def _first_worthwhile(
        self, scheduled: Scheduled, ways: Iterable[tuple[ScheduleParams, str]]
    ) -> Scheduled:
        """Return the first schedule with weights kept on chip that is worthwhile, else `scheduled`.

        `ways` are the choices to try, each with a name for the list of candidates.
        """
        for params, way in ways:
            pinned = self._resident_schedule(scheduled.segment, params)
            if pinned is None:
                self._record_outcome(way, None, "no room")
                continue
            if self.options.resident or pinned.worth_keeping(scheduled):
                self._record_outcome(way, pinned.cycles_of_calls, "chosen")
                return pinned
            self._record_outcome(way, pinned.cycles_of_calls, "gains too little")
        return scheduled

    def _resident_choices(self, scheduled: Scheduled) -> tuple[ScheduleParams, ...]:
        """Return the choices with weights kept on chip between calls that are worth planning."""
        if not self.may_pin or self.options.resident is False:
            return ()
        if not weights_fit(scheduled.plan, scheduled.segment.config):
            self._record_outcome("all weights stay on chip", None, "they do not fit together")
            return ()
        if not self._may_gain(scheduled, tuning.ESTIMATE_FASTER):
            self._record_outcome("weights stay on chip", None, "estimated to gain too little")
            return ()
        return resident_params(scheduled.segment, scheduled.plan.params)

    def _may_gain(self, scheduled: Scheduled, share: float) -> bool:
        """Return whether weights on chip could shorten later calls to this share of the cycles.

        The estimate assumes that nothing waits for weights. If the options ask for resident weights
        or for most effort, the result is always true.
        """
        if self.options.resident or self.options.effort > 1:
            return True
        machine = scheduled.segment.machine
        without = predict(scheduled.instructions, machine, resident=True)
        return without.cycles <= share * scheduled.prediction.cycles

    def _resident_schedule(self, segment: Segment, params: ScheduleParams) -> Scheduled | None:
        """Return a schedule whose weights stay for the next call; None if there is no room."""
        first = evaluate(segment, params, self.cache)
        if isinstance(first, DoesNotFit):
            return None
        # Its constants are in the image already.
        later = replace(segment, image=first.image)
        space = list(skip_repeated_tilings(later, repeat_params(later, first.plan), self.cache))
        again = [
            outcome
            for outcome in self.map_function(partial(evaluate, later, cache=self.cache), space)
            if isinstance(outcome, Scheduled)
        ]
        if not again:
            return None
        return first.followed_by(min(again, key=attrgetter("prediction.cycles")))


def _largest_part(plan: Plan) -> float:
    """Return the largest fraction of the weights that may stay on chip if not all of them do."""
    room = tuning.LARGEST_PART * plan.tilings[0].config.spad_bytes
    return min(1.0, room / max(1, sum(sum(tiling.chunk_bytes) for tiling in plan.tilings)))
