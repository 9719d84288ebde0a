"""Timelines: when each instruction runs, as predicted, or fitted to the chip's times."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode
from matloom.arch.machine import Machine
from matloom.cost import HANDOVER, Span, spans
from matloom.device.driver import Counters
from matloom.profile.owners import owners
from matloom.program import EngineStep, Program
from matloom.program.instruction_table import unpack_all


@dataclass(frozen=True, kw_only=True)
class OperatorWindow:
    """Time from the completion of the previous operator to that of an operator, in cycles.

    `layer` is the operator's index in the program's layers; if several operators share a timestamp,
    it is that of the first one.
    """

    layer: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Times at which the instructions and operators of an engine step (command buffer) run.

    They are in cycles since the doorbell, the register write that starts the step.

    Members
    -------
    step, number:
        The step, and its index among the program's steps.
    instructions:
        Instructions that ran, up to and including END.
    spans:
        When each instruction except END ran.
    predicted:
        The predicted `spans`; `measured_time` converts predicted times to real ones.
    points:
        Predicted times and the corresponding real times, both ascending; times in between are
        interpolated.
    owners:
        Index of the operator of each of `spans`; -1 if unknown.
    windows:
        Times between completions, in the order of completion; together they cover the whole step.
        Empty if no operator has a timestamp.
    cycles:
        Duration from the doorbell to completion.
    command_bytes:
        Size of the commands in bytes.
    counted:
        Whether operators complete at times counted by the chip; otherwise, all times are predicted.
    """

    step: EngineStep
    number: int
    instructions: tuple[Instruction, ...]
    spans: tuple[Span, ...]
    predicted: tuple[Span, ...]
    points: tuple[list[int], list[int]]
    owners: tuple[int, ...]
    windows: tuple[OperatorWindow, ...]
    cycles: int
    command_bytes: int
    counted: bool

    def measured_time(self, time: int) -> int:
        """Return the real time for a predicted time, interpolated between known `points`."""
        return _interpolate(time, self.points)


def timelines(
    program: Program, counted: Sequence[Counters] = (), *, resident: bool = False
) -> tuple[Timeline, ...]:
    """Return when instructions run in each engine step, predicted or scaled to `counted`.

    Parameters
    ----------
    counted:
        Counters of each engine step. If they have cycles, predicted times are stretched so that
        operators complete at the chip's times, as the chip does not record single instructions.
    resident:
        Whether the weights were still on chip, so that the shorter commands for this case ran.
    """
    machine = Machine(config=program.config, memory=program.memory)
    steps = [(at, each) for at, each in enumerate(program.steps) if isinstance(each, EngineStep)]
    found = []
    for place, (number, step) in enumerate(steps):
        ran = step.repeat if resident and step.repeat is not None else step
        instructions = tuple(unpack_all(program.commands(ran)))
        own = tuple(spans(list(instructions), machine))
        counters = counted[place] if place < len(counted) else None
        made = _timeline(program, step, number, instructions, own, counters)
        found.append(replace(made, command_bytes=ran.command_bytes))
    return tuple(found)


def _timeline(
    program: Program,
    step: EngineStep,
    number: int,
    instructions: tuple[Instruction, ...],
    predicted: tuple[Span, ...],
    counters: Counters | None,
) -> Timeline:
    """Return the timeline of step `number`; predicted times are scaled to `counters` of a run."""
    layers: dict[int, int] = {}
    for at, layer in enumerate(program.layers):
        if layer.timestamp:
            layers.setdefault(layer.timestamp, at)
    marks: dict[int, int] = {}
    for span in predicted:
        slot = instructions[span.index].values.get("timestamp", 0)
        if slot:
            marks[slot] = max(marks.get(slot, 0), span.done)
    cycles = max((span.done for span in predicted), default=0) + HANDOVER
    own, points = predicted, ([0, cycles], [0, cycles])
    is_counted = counters is not None and counters.cycles > 0
    if counters is not None and is_counted:
        points = _points(marks, cycles, counters)
        own = tuple(_shift_span(span, points) for span in predicted)
        marks = {slot: counters.timestamps[slot] for slot in marks if slot in counters.timestamps}
        cycles = counters.cycles
    return Timeline(
        step=step,
        number=number,
        instructions=instructions,
        spans=own,
        predicted=predicted,
        points=points,
        owners=owners(instructions, own, layers),
        windows=_windows(marks, layers, cycles),
        cycles=cycles,
        command_bytes=step.command_bytes,
        counted=is_counted,
    )


def _windows(
    marks: Mapping[int, int], layers: Mapping[int, int], end: int
) -> tuple[OperatorWindow, ...]:
    """Return the windows between completion times; the last one extends to `end`.

    `marks` are completion times, and `layers` indices of operators, by slot of the table.
    """
    found: list[OperatorWindow] = []
    before = 0
    for slot, time in sorted(marks.items(), key=lambda item: item[1]):
        found.append(OperatorWindow(layer=layers[slot], start=before, end=time))
        before = time
    if found:
        found[-1] = replace(found[-1], end=end)
    return tuple(found)


#: Predicted and real times of the same events, both ascending.
_Points = tuple[list[int], list[int]]


def _points(marks: Mapping[int, int], cycles: int, counters: Counters) -> _Points:
    """Return predicted and real completion times, both ascending; times out of order are dropped.

    Both lists begin with the doorbell and end with the completion of the step.
    """
    times, real = [0], [0]
    for slot, time in sorted(marks.items(), key=lambda item: item[1]):
        at = counters.timestamps.get(slot, 0)
        if time > times[-1] and real[-1] < at < counters.cycles:
            times.append(time)
            real.append(at)
    return [*times, max(cycles, times[-1] + 1)], [*real, counters.cycles]


def _shift_span(span: Span, points: _Points) -> Span:
    """Return a span with real times instead of predicted ones."""
    return replace(
        span,
        start=_interpolate(span.start, points),
        end=_interpolate(span.end, points),
        done=_interpolate(span.done, points),
        queued=_interpolate(span.queued, points),
    )


def _interpolate(time: int, points: _Points) -> int:
    """Return the real time for a predicted time, by linear interpolation."""
    times, real = points
    at = min(bisect_right(times, time), len(times) - 1)
    share = (time - times[at - 1]) / (times[at] - times[at - 1])
    return min(real[-1], round(real[at - 1] + share * (real[at] - real[at - 1])))


def is_fill(instruction: Instruction) -> bool:
    """Return whether an instruction is a LOAD that fills with a constant, and reads nothing."""
    return instruction.opcode is Opcode.LOAD and bool(instruction.values.get("fill"))


def moved_bytes(instruction: Instruction) -> int:
    """Return the number of bytes that a LOAD or STORE moves over the bus; 0 for other units."""
    if instruction.opcode not in (Opcode.LOAD, Opcode.STORE) or is_fill(instruction):
        return 0
    values = instruction.values
    return values["row_bytes"] * values["rows"] * values["planes"]
