"""Schedules stages as instructions: tiles, order, scratchpad addresses, waits, predicted cycles."""

from matloom.schedule.choices.record import Choices
from matloom.schedule.image import ProgramImage
from matloom.schedule.options import CompileOptions
from matloom.schedule.plan import DoesNotFit
from matloom.schedule.scheduled import Repetition, Scheduled, TriedCandidate
from matloom.schedule.search import schedule_segment
from matloom.schedule.segment import Place, Segment
from matloom.select.errors import CompileError

__all__ = [
    "Choices",
    "CompileError",
    "CompileOptions",
    "DoesNotFit",
    "Place",
    "ProgramImage",
    "Repetition",
    "Scheduled",
    "Segment",
    "TriedCandidate",
    "schedule_segment",
]
