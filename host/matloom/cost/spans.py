"""Predicted start and end of each instruction in a command buffer, for timelines."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from matloom.arch.instruction import Instruction
from matloom.arch.isa import UNITS, Opcode
from matloom.arch.machine import Machine
from matloom.cost.dispatch import WAIT_FIELDS
from matloom.cost.predict import EngineSimulation
from matloom.cost.timing import HANDOVER, shared_timings


class Cause(enum.Enum):
    """Reason for which an instruction did not start earlier: its last wait.

    DISPATCH: its entry into the queue; BUSY: the previous instruction of its unit; OPERANDS: an
    instruction that its wait fields name; PARAMETERS: the read of a POST's parameters; COMMANDS:
    beats of commands, which share the bus with a LOAD.
    """

    DISPATCH = "dispatch"
    BUSY = "busy"
    OPERANDS = "operands"
    PARAMETERS = "parameters"
    COMMANDS = "commands"


@dataclass(frozen=True, kw_only=True)
class Span:
    """Time that an instruction spends in its unit, in cycles from the start of the run.

    Members
    -------
    unit, index:
        The unit, and the instruction's index in the command buffer.
    start, end:
        When it starts and when its unit is free for the next one; for a LOAD, its first and last
        beat.
    done:
        When it completes; dependent instructions start `HANDOVER` cycles later.
    queued:
        When it enters the queue of its unit.
    cause:
        Its last wait.
    awaited:
        Index of the instruction that it waited for, if the cause is OPERANDS or BUSY.
    """

    unit: Opcode
    index: int
    start: int
    end: int
    done: int
    queued: int
    cause: Cause
    awaited: int | None = None


def spans(instructions: list[Instruction], machine: Machine) -> list[Span]:
    """Return when each instruction of a command buffer that ends with END runs, in program order.

    It uses the same simulation as `predict`: the last `done` plus `HANDOVER` are the predicted
    cycles. `predict` itself does not record spans, so searches stay fast.
    """
    engine = EngineSimulation(instructions, machine, resident=False)
    engine.run()
    return list(_spans(instructions, machine, engine))


def _spans(
    instructions: list[Instruction], machine: Machine, engine: EngineSimulation
) -> Iterator[Span]:
    """Yield the span of each instruction except END, from a simulation that has ended."""
    timings, ends = shared_timings(machine), dict.fromkeys(UNITS, 0)
    places: dict[Opcode, list[int]] = {unit: [] for unit in UNITS}
    for index, instruction in enumerate(instructions):
        unit = instruction.opcode
        if unit is Opcode.END:
            continue
        number, at = len(places[unit]), UNITS.index(unit)
        start, done = engine.started[at][number], engine.done[at][number]
        cause, awaited = _cause(instruction, number, places, engine, ends[unit])
        if unit is Opcode.LOAD:
            start, end = engine.loads.starts[number], engine.loads.ends[number]
        else:
            back_to_back = number > 0 and ends[unit] >= start
            end = done - timings.of(instruction).durations[back_to_back][1]
        ends[unit] = end
        places[unit].append(index)
        yield Span(
            unit=unit,
            index=index,
            start=start,
            end=end,
            done=done,
            queued=engine.queued[at][number],
            cause=cause,
            awaited=awaited,
        )


def _cause(
    instruction: Instruction,
    number: int,
    places: dict[Opcode, list[int]],
    engine: EngineSimulation,
    free: int,
) -> tuple[Cause, int | None]:
    """Return the last wait of an instruction, and the index of the instruction it waited for.

    `number` is its index among the instructions of its unit, which is free from cycle `free` on.
    `places` has the indices of all earlier instructions, by unit. The second result is None if it
    waited for something else.
    """
    unit = UNITS.index(instruction.opcode)
    last = engine.queued[unit][number]
    cause, awaited = Cause.DISPATCH, None
    for other, name in enumerate(WAIT_FIELDS):
        count = instruction.values.get(name, 0)
        own = places[UNITS[other]]
        if count and engine.done[other][len(own) - count] > last:
            last = engine.done[other][len(own) - count]
            cause, awaited = Cause.OPERANDS, own[-count]
    start = engine.started[unit][number]
    if start <= last + HANDOVER:
        return cause, awaited
    if instruction.opcode is Opcode.POST and start > free:
        return Cause.PARAMETERS, None
    if instruction.opcode is Opcode.LOAD and engine.loads.starts[number] > free:
        return Cause.COMMANDS, None
    return Cause.BUSY, places[instruction.opcode][-1]
