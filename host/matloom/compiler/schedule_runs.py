"""Schedules the runs of the engine one after another, with one image of constants for all."""

from dataclasses import replace

from matloom.arch.config import Config
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Region
from matloom.compiler.values import (
    Bound,
    BoundRun,
    Job,
    Rewritten,
    ScheduledNetwork,
    ScheduledRun,
)
from matloom.compiler.variables import overwritten_addresses
from matloom.program.instruction_table import InstructionTable
from matloom.schedule import (
    DoesNotFit,
    Place,
    ProgramImage,
    Scheduled,
    Segment,
    schedule_segment,
)
from matloom.schedule.replay import replay
from matloom.select.partition import HostRun


def schedule_runs(bound: Bound, job: Job) -> ScheduledNetwork | DoesNotFit:
    """Return the instructions of all runs, or why a run does not fit the engine."""
    image = ProgramImage()
    runs: list[ScheduledRun | HostRun] = []
    found: set[int] = set()
    for run in bound.runs:
        if isinstance(run, HostRun):
            runs.append(run)
            continue
        scheduled = _schedule_run(bound, run, job, image)
        if isinstance(scheduled, DoesNotFit):
            return scheduled
        image = scheduled.scheduled.image
        runs.append(scheduled)
        found |= _overwritten_variables(bound.rewritten, scheduled.scheduled, job.config)
    return ScheduledNetwork(
        bound=bound, runs=tuple(runs), image=bytes(image), overwritten=frozenset(found)
    )


def _schedule_run(
    bound: Bound, run: BoundRun, job: Job, image: ProgramImage
) -> ScheduledRun | DoesNotFit:
    """Return a run with its instructions, or why it does not fit the engine.

    The image of the result is a copy of `image` with the constants of the run.
    """
    found = _find_schedule(bound, run, job, place_constants(bound, run, image))
    if isinstance(found, DoesNotFit):
        return found
    commands = _pack(found.instructions, job.config)
    again = None if found.repeat is None else _pack(found.repeat.instructions, job.config)
    for packed in (commands, again):
        if isinstance(packed, DoesNotFit):
            return packed
    assert isinstance(commands, bytes)
    assert again is None or isinstance(again, bytes)
    return ScheduledRun(bound=run, scheduled=found, commands=commands, repeat_commands=again)


def place_constants(bound: Bound, run: BoundRun, image: ProgramImage) -> Segment:
    """Return the segment of a run, whose constants are appended to a copy of `image`."""
    image = image.fork()
    constants = {
        name: Place(region=Region.PROGRAM, offset=image.add(values))
        for name, values in run.constants.items()
    }
    return replace(
        run.segment,
        sources={**run.segment.sources, **constants},
        image=image,
        arena_start=bound.rewritten.state_bytes,
    )


def _find_schedule(
    bound: Bound, run: BoundRun, job: Job, segment: Segment
) -> Scheduled | DoesNotFit:
    """Return the schedule that recorded choices give, if they apply; else search for one."""
    runs = [each for each in bound.runs if not isinstance(each, HostRun)]
    alone = len(runs) == 1
    if len(runs) == len(job.options.choices):
        at = next(number for number, each in enumerate(runs) if each is run)
        choices = job.options.choices[at]
        found = None if choices is None else replay(segment, choices)
        if isinstance(found, Scheduled) and (alone or found.repeat is None):
            return found
    return schedule_segment(segment, job.options, may_pin=alone)


def _pack(instructions: list[Instruction], config: Config) -> bytes | DoesNotFit:
    """Return the command buffer, or a `DoesNotFit` that names a field out of range."""
    table = InstructionTable(instructions)
    problem = table.first_violation(config)
    if problem is not None:
        return DoesNotFit(reason=f"the network does not fit the instruction set: {problem}")
    return table.pack()


def _overwritten_variables(rewritten: Rewritten, scheduled: Scheduled, config: Config) -> set[int]:
    """Return the variables whose old value a command buffer would read after overwriting it.

    Each is given as the number of its tensor before the update.
    """
    graph, state = rewritten.selected.prepared.graph, rewritten.state
    before = {
        (place.offset, place.offset + graph.tensors[variable.before].size_bytes): variable.before
        for variable in graph.variables
        if (place := state.get(variable.before)) is not None
    }
    again = [] if scheduled.repeat is None else scheduled.repeat.instructions
    numbers: set[int] = set()
    for instructions in (scheduled.instructions, again):
        found = overwritten_addresses(instructions, before, config)
        numbers.update(number for place, number in before.items() if place[0] in found)
    return numbers
