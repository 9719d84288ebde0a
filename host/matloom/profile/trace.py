"""Writes timelines in Chrome's trace format, which Perfetto and chrome://tracing open.

The format is defined in "Trace Event Format", Google 2016: events X are slices, C counters, M
names, and s and f the ends of an arrow. Its unit of time is the microsecond; a cycle is written as
one nanosecond, so that times can be read as cycles.
"""

import json
from collections.abc import Iterator
from typing import Any

from matloom.arch.instruction import Instruction
from matloom.arch.isa import UNITS, Opcode
from matloom.cost import Cause, Span
from matloom.printable import printable
from matloom.profile.occupancy import occupied_bytes
from matloom.profile.timeline import Timeline, moved_bytes
from matloom.program import HostStep, Program
from matloom.report import LoopReport, Report

#: Cycles per microsecond of the trace.
_SCALE = 1000

#: Identifiers of the trace's processes.
_ENGINE, _HOST = 1, 2

#: Identifiers of the engine's threads: operators, then units. They differ from those of the host,
#: and from 0, which Perfetto takes for the idle thread of all processes.
_OPERATORS = 1
_UNITS = {unit: _OPERATORS + 1 + at for at, unit in enumerate(UNITS)}
_THREADS = {_OPERATORS: "operators", **{at: unit.name for unit, at in _UNITS.items()}}

#: Identifiers of the host's threads.
_STEPS, _LINE = 11, 12

#: Fields of an instruction that the trace shows.
_SHOWN_FIELDS = {
    Opcode.LOAD: ("region", "spad_addr", "row_bytes", "rows", "planes"),
    Opcode.EXEC: ("width", "height", "kernel_rows", "kernel_cols", "blocks", "oc_blocks"),
    Opcode.POST: ("width", "height", "oc_blocks", "source", "destination"),
    Opcode.STORE: ("region", "spad_addr", "row_bytes", "rows", "planes"),
}

_Event = dict[str, Any]


def to_chrome(program: Program, timelines: tuple[Timeline, ...], report: Report) -> str:
    """Return the trace of a run as JSON text.

    It has a slice for each instruction, operator and host step, arrows for waits, and counters of
    bytes. Steps follow one another. A host step has no cycles, so its slice is one cycle long; that
    of a loop in the report has the cycles of all iterations.
    """
    events: list[_Event] = list(_name_events(report))
    by_number = {each.number: each for each in timelines}
    loops = {each.name: each for each in report.loops}
    offset = 0
    for number, step in enumerate(program.steps):
        timeline = by_number.get(number)
        if timeline is not None:
            events += _operator_slices(program, timeline, offset)
            events += _instruction_slices(program, timeline, offset)
            events += _arrow_events(timeline, offset)
            events += _counter_events(program, timeline, offset)
            offset += timeline.cycles + 1
        elif isinstance(step, HostStep):
            loop = loops.get(step.outputs[0]) if step.outputs else None
            events.append(_host_slice(number, step, loop, offset))
            offset += loop.cycles if loop is not None else 0
    if report.link is not None:
        args = {"bytes out": report.link.sent, "bytes in": report.link.received}
        events.append(_slice_event(_HOST, _LINE, "line", 0, offset, args))
    about = {
        "network": printable(program.name),
        "configuration": f"{program.config.digest:08x}",
        "times": "1 ns is one cycle of the engine",
        "source": "fitted to the chip's completion times"
        if all(each.counted for each in timelines) and timelines
        else "predicted",
    }
    trace = {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}
    return json.dumps(trace, separators=(",", ":")) + "\n"


def _name_events(report: Report) -> Iterator[_Event]:
    """Yield the events that name the processes and threads of the trace."""
    yield _name_event("process_name", _ENGINE, 0, f"engine ({report.device})")
    for thread, name in _THREADS.items():
        yield _name_event("thread_name", _ENGINE, thread, name)
        order = {"ph": "M", "name": "thread_sort_index", "pid": _ENGINE, "tid": thread}
        yield {**order, "args": {"sort_index": thread}}
    yield _name_event("process_name", _HOST, 0, "host")
    yield _name_event("thread_name", _HOST, _STEPS, "steps")
    if report.link is not None:
        yield _name_event("thread_name", _HOST, _LINE, "line")


def _name_event(kind: str, process: int, thread: int, name: str) -> _Event:
    """Return the event that names a process or thread."""
    args = {"name": printable(name)}
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}


def _slice_event(
    process: int, thread: int, name: str, start: int, end: int, args: dict[str, Any]
) -> _Event:
    """Return the event of a slice, a named box on a thread from cycle `start` to cycle `end`."""
    return {
        "ph": "X",
        "name": printable(name),
        "pid": process,
        "tid": thread,
        "ts": start / _SCALE,
        "dur": (end - start) / _SCALE,
        "args": args,
    }


def _operator_slices(program: Program, timeline: Timeline, offset: int) -> Iterator[_Event]:
    """Yield a slice for each operator; `offset` is the cycle at which the timeline begins."""
    for window in timeline.windows:
        layer = program.layers[window.layer]
        args = {"output": printable(layer.name), "macs": layer.macs}
        start, end = offset + window.start, offset + window.end
        yield _slice_event(_ENGINE, _OPERATORS, layer.operator, start, end, args)


def _instruction_slices(program: Program, timeline: Timeline, offset: int) -> Iterator[_Event]:
    """Yield a slice for each instruction; `offset` is the cycle at which the timeline begins."""
    for span, owner in zip(timeline.spans, timeline.owners, strict=True):
        instruction = timeline.instructions[span.index]
        name = program.layers[owner].operator if owner >= 0 else instruction.opcode.name
        args = {"index": span.index, "waited for": span.cause.value, **_shown_fields(instruction)}
        args["done"] = offset + span.done
        yield _slice_event(
            _ENGINE, _UNITS[span.unit], name, offset + span.start, offset + span.end, args
        )


def _shown_fields(instruction: Instruction) -> dict[str, int]:
    """Return the fields of an instruction that the trace shows, by name."""
    values = instruction.values
    return {name: values.get(name, 0) for name in _SHOWN_FIELDS[instruction.opcode]}


def _arrow_events(timeline: Timeline, offset: int) -> Iterator[_Event]:
    """Yield an arrow to each instruction that waited, from the instruction it waited for last."""
    places = {span.index: span for span in timeline.spans}
    for span in timeline.spans:
        if span.cause is not Cause.OPERANDS or span.awaited is None:
            continue
        for phase, end, time in (
            ("s", places[span.awaited], _last_moment(places[span.awaited])),
            ("f", span, span.start),
        ):
            yield {
                "ph": phase,
                "bp": "e",
                "name": "wait",
                "cat": "wait",
                "id": offset + span.index,
                "pid": _ENGINE,
                "tid": _UNITS[end.unit],
                "ts": (offset + time) / _SCALE,
            }


def _last_moment(span: Span) -> int:
    """Return the last cycle of a slice, as an arrow must begin within its slice."""
    return max(span.start, span.end - 1)


def _counter_events(program: Program, timeline: Timeline, offset: int) -> Iterator[_Event]:
    """Yield the counters: bytes per cycle on the bus by direction, and scratchpad bytes in use."""
    for unit, name in ((Opcode.LOAD, "bus, read"), (Opcode.STORE, "bus, written")):
        for span in timeline.spans:
            size = moved_bytes(timeline.instructions[span.index])
            if span.unit is not unit or not size:
                continue
            rate = round(size / max(1, span.end - span.start), 2)
            yield _counter_event(name, offset + span.start, "bytes per cycle", rate)
            yield _counter_event(name, offset + max(span.end, span.start + 1), "bytes per cycle", 0)
    for time, size in occupied_bytes(timeline, program.config):
        yield _counter_event("scratchpad in use", offset + time, "bytes", size)


def _counter_event(name: str, time: int, unit: str, value: float) -> _Event:
    """Return an event that sets a counter, a curve of the trace, from cycle `time` on."""
    return {"ph": "C", "name": name, "pid": _ENGINE, "ts": time / _SCALE, "args": {unit: value}}


def _host_slice(number: int, step: HostStep, loop: LoopReport | None, start: int) -> _Event:
    """Return the slice of host step `number`; `loop` is the report of a loop, or None."""
    args: dict[str, Any] = {"reason": printable(step.reason), "step": number}
    cycles = 1
    if loop is not None:
        args["iterations"], cycles = loop.iterations, max(1, loop.cycles)
    return _slice_event(_HOST, _STEPS, step.operator, start, start + cycles, args)
