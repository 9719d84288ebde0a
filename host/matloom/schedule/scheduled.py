"""Results of a search: instructions, the plan behind them, and every candidate tried."""

from dataclasses import dataclass, field

from matloom.arch.instruction import Instruction
from matloom.cost.predict import Prediction
from matloom.schedule.image import Image
from matloom.schedule.plan import Plan
from matloom.schedule.segment import Segment

__all__ = ["Repetition", "Scheduled", "Tried"]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Candidate of a decision, with its outcome.

    Members
    -------
    cycles:
        Predicted; None for a candidate that was not scheduled.
    outcome:
        Why it was dropped, or that it was chosen.
    """

    decision: str
    candidate: str
    cycles: int | None
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """A segment's instructions where weights are in the scratchpad already.

    Members
    -------
    kept:
        The bytes of the scratchpad (half open) that hold them.
    """

    instructions: list[Instruction]
    plan: Plan
    prediction: Prediction
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """A segment's instructions, how they came about, and what they need.

    Members
    -------
    segment:
        What was scheduled: the given stages, some of their tensors in 2 x 2 blocks.
    arena_end:
        First byte of the ARENA window that the segment does not use.
    image:
        The constants up to those of the segment.
    repeat:
        How to do it again without the transfers of weights; None if they do not stay.
    tried:
        All candidates, in the order of the search.
    """

    segment: Segment
    instructions: list[Instruction]
    plan: Plan
    prediction: Prediction
    arena_end: int
    image: Image = field(repr=False)
    repeat: Repetition | None = None
    tried: tuple[Tried, ...] = ()
