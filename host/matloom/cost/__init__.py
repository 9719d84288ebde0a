"""Predicts cycles: estimates for tiles, and a simulation of the units for command buffers."""

from matloom.cost.arithmetic import ArithmeticTimeline
from matloom.cost.estimates import exec_cycles, step_cycles, vector_cycles
from matloom.cost.predict import Prediction, predict
from matloom.cost.spans import Cause, Span, spans
from matloom.cost.timing import HANDOVER, Timing, shared_timings

__all__ = [
    "HANDOVER",
    "ArithmeticTimeline",
    "Cause",
    "Prediction",
    "Span",
    "Timing",
    "exec_cycles",
    "predict",
    "shared_timings",
    "spans",
    "step_cycles",
    "vector_cycles",
]
