"""Results of a search: instructions, the plan behind them, and every candidate tried."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from matloom.arch.instruction import Instruction
from matloom.cost.predict import Prediction
from matloom.schedule import tuning
from matloom.schedule.image import ProgramImage
from matloom.schedule.params import Candidate
from matloom.schedule.plan import DoesNotFit, Plan
from matloom.schedule.segment import Segment


@dataclass(frozen=True, kw_only=True)
class TriedCandidate:
    """A candidate (way to schedule) that a search tried, with its outcome.

    Members
    -------
    cycles:
        Predicted cycles; None if the candidate was not scheduled.
    outcome:
        Chosen, or the reason why it was dropped.
    """

    decision: str
    candidate: str
    cycles: int | None
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """Instructions for later calls of a segment, when its weights are already on chip.

    Members
    -------
    weight_ranges:
        Ranges of the scratchpad (half open) that hold the weights.
    """

    instructions: list[Instruction]
    plan: Plan
    prediction: Prediction
    weight_ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """The instructions of a segment, the plan and search that led to them, and their needs.

    Members
    -------
    segment:
        The scheduled stages, possibly with other layouts than the given ones.
    arena_end:
        End of the bytes of region ARENA that the segment uses.
    image:
        The constants, including those of the segment.
    repeat:
        Instructions for later calls, without transfers of weights; None if weights do not stay.
    tried:
        All candidates, in the order of the search.
    """

    segment: Segment
    instructions: list[Instruction]
    plan: Plan
    prediction: Prediction
    arena_end: int
    image: ProgramImage = field(repr=False)
    repeat: Repetition | None = None
    tried: tuple[TriedCandidate, ...] = ()

    def followed_by(self, later: "Scheduled") -> "Scheduled":
        """Return this schedule of a first call, with the instructions of `later` for later calls.

        The weights of the first call stay on chip for them.
        """
        return replace(
            self,
            image=later.image,
            arena_end=max(self.arena_end, later.arena_end),
            repeat=Repetition(
                instructions=later.instructions,
                plan=later.plan,
                prediction=later.prediction,
                weight_ranges=self.plan.resident_bytes,
            ),
        )

    @property
    def cycles_of_calls(self) -> int:
        """Predicted cycles of the first call and one later call, added up."""
        later = self if self.repeat is None else self.repeat
        return self.prediction.cycles + later.prediction.cycles

    def worth_keeping(self, without: "Scheduled") -> bool:
        """Return whether this schedule, with weights kept on chip, is better than `without`.

        They stay if the first call hardly takes longer and later calls take clearly fewer cycles.
        """
        assert self.repeat is not None
        before, again = without.prediction.cycles, self.repeat.prediction.cycles
        return (
            self.prediction.cycles <= tuning.FIRST_CALL_SLOWER * before
            and again <= tuning.LATER_CALLS_FASTER * before
        )


def outcome_of(
    number: int,
    best: int,
    candidates: Sequence[Candidate],
    outcomes: Sequence[Scheduled | DoesNotFit],
) -> str:
    """Return a phrase on the outcome of candidate `number`: chosen, or why it was dropped.

    `best` is the index of the chosen candidate; `outcomes` has one result per candidate.
    """
    result = outcomes[number]
    if isinstance(result, DoesNotFit):
        return result.reason
    for other in range(number):
        before = outcomes[other]
        if isinstance(before, Scheduled) and before.instructions == result.instructions:
            return f"the same plan as {candidates[other].text}"
    return "chosen" if number == best else "not faster"
