"""Causes of an operator's cycles: the array works, or waits for something."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.arch.machine import Machine
from matloom.cost import Cause, Span
from matloom.profile.timeline import Timeline


class CauseOfCycles(NamedTuple):
    """Cause of cycles; `title` is for people, and `meaning` explains it and names remedies."""

    name: str
    title: str
    meaning: str


#: All causes, in the order in which they are drawn.
CAUSES = (
    CauseOfCycles("stream", "array at work", "A vector enters the array."),
    CauseOfCycles(
        "weights",
        "weight tiles",
        "The next weight tile is not in the array yet: a step has fewer vectors than a tile takes "
        "to load. Larger tiles of the output or more rows of weights a cycle (weight_rows) help.",
    ),
    CauseOfCycles(
        "constants",
        "loading weights",
        "Weights or parameters are on their way from memory. Weights that stay on chip, a wider "
        "bus or a faster memory help.",
    ),
    CauseOfCycles(
        "input",
        "loading tensors",
        "Bytes of a tensor are on their way from memory. A larger scratchpad, a wider bus or a "
        "faster memory help.",
    ),
    CauseOfCycles(
        "post",
        "post-processing",
        "Post-processing is at work, and the array is done or waits for it. More lanes help.",
    ),
    CauseOfCycles(
        "store",
        "storing results",
        "Results are on their way to memory. A wider bus or a faster memory help.",
    ),
    CauseOfCycles(
        "command",
        "commands",
        "No unit works: the next instruction is being fetched and checked. Fewer and longer "
        "instructions help, as larger memories on chip allow them.",
    ),
    CauseOfCycles(
        "bank",
        "bank conflicts",
        "The array and another unit need the same bank of the scratchpad. More banks help.",
    ),
)

#: Time in cycles from which a cause holds, until the next change, and the name of the cause.
_Change = tuple[int, str]


def cycles_by_cause(timeline: Timeline, machine: Machine) -> dict[int, dict[str, int]]:
    """Return the cycles of each operator, by its index in the program's layers and by cause.

    If operators have completion times (`Timeline.windows`), the sum of all cycles is the length
    of the timeline. Causes within an operator are predicted, and scaled to its real time.
    """
    changes = [(timeline.measured_time(time), cause) for time, cause in _changes(timeline, machine)]
    times = [time for time, _ in changes]
    found: dict[int, dict[str, int]] = {}
    for window in timeline.windows:
        own = found.setdefault(window.layer, {})
        at = max(0, bisect_left(times, window.start + 1) - 1)
        while at < len(changes) and times[at] < window.end:
            until = times[at + 1] if at + 1 < len(changes) else timeline.cycles
            length = min(until, window.end) - max(times[at], window.start)
            if length > 0:
                own[changes[at][1]] = own.get(changes[at][1], 0) + length
            at += 1
    return found


def _changes(timeline: Timeline, machine: Machine) -> Iterator[_Change]:
    """Yield each time at which the cause of cycles changes, with the new cause, in ascending order.

    Times are predicted.
    """
    working = {unit: _Busy(timeline, unit) for unit in _OTHER_UNITS}
    free = 0
    for span in timeline.predicted:
        if span.unit is not Opcode.EXEC:
            continue
        dispatched = min(max(span.queued, free), span.start)
        yield from _causes_without_exec(free, dispatched, working)
        if span.start > dispatched:
            yield dispatched, _cause_of_wait(span, timeline)
        yield from _causes_of_exec(span, timeline.instructions[span.index], machine)
        free = max(free, span.end)
    yield from _causes_without_exec(free, timeline.points[0][-1], working)


def _causes_of_exec(span: Span, instruction: Instruction, machine: Machine) -> Iterator[_Change]:
    """Yield the changes of cause during an EXEC, as if each cause came once.

    The cycles of streaming come first, then those of waiting for weights, then bank conflicts.
    """
    values = instruction.values
    steps = values["kernel_rows"] * values["kernel_cols"] * values["blocks"] * values["oc_blocks"]
    streams, works = values["width"] * values["height"] * steps, machine.exec_cycles(values)
    whole = span.end - span.start
    yield span.start, "stream"
    yield span.start + min(streams, works, whole), "weights"
    yield span.start + min(works, whole), "bank"


def _cause_of_wait(span: Span, timeline: Timeline) -> str:
    """Return the cause of the cycles for which a dispatched EXEC waits before it starts."""
    if span.cause is not Cause.OPERANDS or span.awaited is None:
        return "command"
    return _cause_of_waiting_for(timeline.instructions[span.awaited])


def _cause_of_waiting_for(instruction: Instruction) -> str:
    """Return the cause of cycles in which an EXEC waits for this instruction of another unit."""
    if instruction.opcode is Opcode.LOAD:
        program = instruction.values.get("region") == Region.PROGRAM
        return "constants" if program and not instruction.values.get("fill") else "input"
    return "store" if instruction.opcode is Opcode.STORE else "post"


class _Busy:
    """Intervals in which a unit works, each with the cause of cycles that wait for this work."""

    def __init__(self, timeline: Timeline, unit: Opcode) -> None:
        own = [span for span in timeline.predicted if span.unit is unit]
        self.starts = [span.start for span in own]
        self.ends = [max(span.end, span.start) for span in own]
        self.work = [_cause_of_waiting_for(timeline.instructions[span.index]) for span in own]

    def next(self, time: int) -> tuple[int, int, str]:
        """Return start, end and cause of the first interval that ends after `time`.

        Without such an interval, return times beyond all others.
        """
        at = bisect_left(self.ends, time + 1)
        if at == len(self.ends):
            return 1 << 60, 1 << 60, ""
        return self.starts[at], self.ends[at], self.work[at]


#: Units whose work counts while the array is idle, by priority.
_OTHER_UNITS = (Opcode.POST, Opcode.STORE, Opcode.LOAD)


def _causes_without_exec(start: int, end: int, working: dict[Opcode, _Busy]) -> Iterator[_Change]:
    """Yield the changes of cause from `start` to `end`, while no EXEC runs or waits for operands.

    The cause is the work of another unit, or else fetching commands.
    """
    time = start
    while time < end:
        until, cause = end, "command"
        for unit in _OTHER_UNITS:
            begins, ends, work = working[unit].next(time)
            if begins <= time:
                until, cause = min(until, ends), work
                break
            until = min(until, begins)
        yield time, cause
        time = until
