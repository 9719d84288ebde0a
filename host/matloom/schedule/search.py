"""One search for the fastest schedule of a segment: what it tries, and what came of each.

Three decisions follow each other, each over a list of candidates: how the first stage starts,
whether weights stay on chip between calls, and how tensors lie on chip. A candidate
goes through all steps (`fit`: tiles, order, transfers, addresses; then `emit` and `predict`) and
is a `Scheduled`, or the reason why it does not fit; nothing is thrown. All of them are in `tried`.
"""

from dataclasses import dataclass, field, replace

from matloom.arch.config import Config
from matloom.arch.isa import Region
from matloom.cost.predict import predict
from matloom.schedule.candidates import candidates, is_large
from matloom.schedule.constants import Image
from matloom.schedule.emit import emit
from matloom.schedule.fit import fit
from matloom.schedule.layouts import LAYOUTS, Layout
from matloom.schedule.options import CompileOptions
from matloom.schedule.outside import arena_places, chunk_offsets
from matloom.schedule.params import Candidate
from matloom.schedule.plan import DoesNotFit, Plan, ScheduleParams
from matloom.schedule.planner import different_plans, make_plan
from matloom.schedule.policies import repeat_policies, resident_policies, weights_fit
from matloom.schedule.scheduled import Repetition, Scheduled, Tried
from matloom.schedule.segment import Place, Segment

__all__ = ["schedule_segment"]

#: By how much weights that stay may slow the first call down, and must speed later ones up.
_SLOWER, _FASTER = 1.005, 0.98

#: The same of an estimate, which does not know of tiles that fit a call without weights better.
_GAINING = 0.984

#: Stages by whose predicted cycles the start is chosen.
_STAGES_TRIED = 3


def schedule_segment(
    segment: Segment,
    config: Config,
    options: CompileOptions,
    image: Image,
    *,
    arena_start: int,
    output_bytes: int,
    may_pin: bool = True,
) -> Scheduled | DoesNotFit:
    """Return the instructions of a segment, or why none fit; its constants go into `image`.

    What paired windows read lies in blocks where that is possible and predicted to be faster.
    With `may_pin` nothing else uses the scratchpad between two times that it runs.
    """
    search = _Search(
        config=config,
        options=options,
        arena_start=arena_start,
        output_bytes=output_bytes,
        may_pin=may_pin,
    )
    found = search.run(segment, image)
    if isinstance(found, DoesNotFit):
        return found
    return replace(found, tried=tuple(search.tried))


@dataclass(kw_only=True)
class _Search:
    """What every candidate is asked for, and those that were tried."""

    config: Config
    options: CompileOptions
    arena_start: int
    output_bytes: int
    may_pin: bool
    tried: list[Tried] = field(default_factory=list)

    def run(self, segment: Segment, image: Image) -> Scheduled | DoesNotFit:
        """Return the best schedule; its constants go into `image`."""
        best = self._best_start(segment, image)
        if isinstance(best, DoesNotFit):
            return best
        candidate, known = best
        plain = image.fork()
        scheduled = self._resident(segment, plain, candidate, known)
        if isinstance(scheduled, DoesNotFit):
            return scheduled
        found = scheduled, plain
        for layout in () if self.options.plain or not self.options.effort else LAYOUTS:
            found = self._layout(image, candidate, found, layout)
        image.take(found[1])
        return found[0]

    def _note(self, decision: str, candidate: str, cycles: int | None, outcome: str) -> None:
        self.tried.append(
            Tried(decision=decision, candidate=candidate, cycles=cycles, outcome=outcome)
        )

    def _layout(
        self,
        image: Image,
        candidate: Candidate,
        known: tuple[Scheduled, Image],
        layout: Layout,
    ) -> tuple[Scheduled, Image]:
        """Return the faster of a schedule and that of the same segment laid out otherwise."""
        options, (scheduled, before) = self.options, known
        segment = layout.make(scheduled.segment, self.config)
        if segment is None:
            return known
        grown = image.fork()
        # The candidates within this one are those of its own weights.
        other = self._resident(segment, grown, candidate, None)
        if isinstance(other, DoesNotFit):
            self._note("layout", layout.name, None, other.reason)
            return known
        # At random it is this one wherever it is possible.
        better = options.tiling_seed is not None or _calls(other) < _calls(scheduled)
        plain = "slower" if better else "chosen"
        self._note("layout", layout.without, _calls(scheduled), plain)
        self._note("layout", layout.name, _calls(other), "chosen" if better else "not faster")
        return (other, grown) if better else (scheduled, before)

    def _best_start(
        self, segment: Segment, image: Image
    ) -> tuple[Candidate, tuple[Scheduled, Image] | None] | DoesNotFit:
        """Return the start with the fewest predicted cycles; where known, all it leads to."""
        options = self.options
        if options.tiling_seed is not None or options.plain or not options.effort:
            return Candidate(), None
        tried = candidates(segment, self.config, effort=options.effort)
        whole = options.effort > 1 or is_large(segment, self.config)
        start = segment if whole else _start(segment)
        made = max(self.output_bytes, *(segment.sizes[name] for name in start.results))
        plans, dropped = self._start_plans(start, tried)
        if isinstance(plans, DoesNotFit):
            return plans
        results: dict[Candidate, tuple[Scheduled, Image]] = {}
        # Of the only plan for a part of the segment nobody asks how long it takes.
        if start is segment or len(plans) > 1:
            for candidate, plan in plans.items():
                grown = image.fork() if start is segment else Image()
                results[candidate] = self._emitted(start, plan, grown, made), grown
        cycles = {each: made.prediction.cycles for each, (made, _) in results.items()}
        best = min(plans, key=lambda each: cycles.get(each, 0))
        decision = "start" if start is segment else f"start, by {len(start.stages)} stages"
        for candidate in tried:
            outcome = "chosen" if candidate is best else dropped.get(candidate, "not faster")
            self._note(decision, candidate.text, cycles.get(candidate), outcome)
        return best, results[best] if start is segment else None

    def _start_plans(
        self, start: Segment, tried: tuple[Candidate, ...]
    ) -> tuple[dict[Candidate, Plan] | DoesNotFit, dict[Candidate, str]]:
        """Return the different plans, and why the others were dropped.

        Where the first does not fit, neither do others, which differ in the first stage alone.
        """
        plans: dict[Candidate, Plan] = {}
        dropped: dict[Candidate, str] = {}
        for candidate in tried:
            plan = fit(start, self.config, self.options, candidate)
            if isinstance(plan, DoesNotFit):
                if not plans:
                    return plan, dropped
                dropped[candidate] = plan.reason
                continue
            same = next((each for each, had in plans.items() if had is plan), None)
            if same is not None:
                dropped[candidate] = f"the same plan as {same.text}"
                continue
            plans[candidate] = plan
        return plans, dropped

    def _resident(
        self,
        segment: Segment,
        image: Image,
        candidate: Candidate,
        known: tuple[Scheduled, Image] | None,
    ) -> Scheduled | DoesNotFit:
        """Return the schedule of a segment, with its weights on chip where that is better.

        Without residency it is `known`, with the image that goes with it, or found now.
        """
        if known is None:
            first = image.fork()
            plan = fit(segment, self.config, self.options, candidate)
            if isinstance(plan, DoesNotFit):
                return plan
            scheduled = self._emitted(segment, plan, first, self.output_bytes)
        else:
            scheduled, first = known
        for number, policy in enumerate(self._resident_policies(segment, scheduled)):
            second = image.fork()
            pinned = self._pinned(segment, policy, second)
            if self._takes(scheduled, pinned, f"weights stay on chip, way {number + 1}"):
                assert pinned is not None
                image.take(second)
                return pinned
        image.take(first)
        return scheduled

    def _resident_policies(
        self, segment: Segment, scheduled: Scheduled
    ) -> tuple[ScheduleParams, ...]:
        """Return the ways to keep weights on chip that may be worth a plan."""
        if not self.may_pin or self.options.resident is False:
            return ()
        if not weights_fit(scheduled.plan, self.config):
            self._note("residency", "weights stay on chip", None, "they do not fit at once")
            return ()
        if not self._may_gain(scheduled):
            self._note("residency", "weights stay on chip", None, "estimated to gain too little")
            return ()
        return resident_policies(segment, scheduled.plan.policy, self.config)

    def _may_gain(self, scheduled: Scheduled) -> bool:
        """Return whether later calls may become shorter if weights stay: estimated without them."""
        if self.options.resident or self.options.effort > 1:
            return True
        machine = scheduled.segment.machine
        without = predict(scheduled.instructions, machine, resident=True)
        return without.cycles <= _GAINING * scheduled.prediction.cycles

    def _takes(self, scheduled: Scheduled, pinned: Scheduled | None, way: str) -> bool:
        """Return whether weights should stay this way."""
        if pinned is None:
            self._note("residency", way, None, "no room")
            return False
        taken = bool(self.options.resident) or _worth(scheduled, pinned)
        self._note("residency", way, _calls(pinned), "chosen" if taken else "gains too little")
        return taken

    def _pinned(self, segment: Segment, policy: ScheduleParams, image: Image) -> Scheduled | None:
        """Return a schedule with weights that stay for the next time; None for no room."""
        plan = make_plan(segment, policy, self.config)
        if not isinstance(plan, Plan):
            return None
        first = self._emitted(segment, plan, image, self.output_bytes)
        again = self._again(segment, plan, image)
        if again is None:
            return None
        return replace(
            first,
            arena_end=max(first.arena_end, again.arena_end),
            repeat=Repetition(
                instructions=again.instructions,
                plan=again.plan,
                prediction=again.prediction,
                kept=plan.resident_bytes,
            ),
        )

    def _again(self, segment: Segment, first: Plan, image: Image) -> Scheduled | None:
        """Return the fastest way to run a plan again with its weights where they are."""
        policies = repeat_policies(segment, first, self.config)
        made = [
            self._emitted(segment, plan, image, self.output_bytes)
            for plan in different_plans(segment, policies, self.config)
        ]
        return min(made, key=lambda item: item.prediction.cycles, default=None)

    def _emitted(self, segment: Segment, plan: Plan, image: Image, output_bytes: int) -> Scheduled:
        """Return the instructions of a plan."""
        places, arena_end = arena_places(segment, plan, self.config, self.arena_start)
        dram_bytes = {Region.OUTPUT: max(1, output_bytes), Region.ARENA: max(1, arena_end)}
        offsets = chunk_offsets(segment, plan, image, self.config)
        instructions = emit(segment, plan, self.config, places, offsets, dram_bytes)
        return Scheduled(
            segment=segment,
            instructions=instructions,
            plan=plan,
            prediction=predict(instructions, segment.machine),
            arena_end=arena_end,
        )


def _calls(scheduled: Scheduled) -> int:
    """Return the cycles of a first call and a later one."""
    later = scheduled if scheduled.repeat is None else scheduled.repeat
    return scheduled.prediction.cycles + later.prediction.cycles


def _worth(scheduled: Scheduled, pinned: Scheduled) -> bool:
    """Return whether weights that stay cost the first call little, and save later ones more."""
    assert pinned.repeat is not None
    before, again = scheduled.prediction.cycles, pinned.repeat.prediction.cycles
    return pinned.prediction.cycles <= _SLOWER * before and again <= _FASTER * before


def _start(segment: Segment) -> Segment:
    """Return the first stages, for choices that concern the start."""
    stages = segment.stages[:_STAGES_TRIED]
    if len(stages) == len(segment.stages):
        return segment
    made = stages[-1].output
    return replace(segment, stages=stages, results={made: Place(region=Region.OUTPUT, offset=0)})
