"""Finds instructions that were in flight together, from the control unit's events."""

from collections.abc import Sequence
from dataclasses import dataclass

from matloom.arch.instruction import Instruction
from matloom.arch.isa import UNITS
from matloom.coverage.model import Point
from matloom.coverage.variants import flight_kind


@dataclass(frozen=True, kw_only=True)
class Event:
    """Instructions that the control unit issued, and units that completed one, in a cycle.

    Bit n of `done` and of `issued` is for unit n of `UNITS`.
    """

    cycle: int
    done: int = 0
    issued: int = 0


@dataclass(frozen=True, kw_only=True)
class Flight:
    """Instructions of a command buffer that completed, and pairs that were in flight together.

    Members
    -------
    completed:
        Indices of the completed instructions, in the order of completion.
    points:
        Coverage points of the observed pairs: ``A then B`` and ``B overtakes A``.
    """

    completed: tuple[int, ...]
    points: frozenset[Point]


def trace_flight(instructions: Sequence[Instruction], events: Sequence[Event]) -> Flight:
    """Return which instructions completed, and which were in flight together.

    An instruction is in flight from its issue to its completion. One that completes in the cycle in
    which another is issued was not in flight with it. An instruction overtakes those issued before
    it that complete in a later cycle; those that complete in the same cycle are listed in the order
    of `UNITS`.

    Raises
    ------
    ValueError
        The events do not match the instructions: one was issued to another unit, or a unit
        completed more than it was given.
    """
    # Issued instructions are legal, so each has a kind.
    kinds: list[str] = []
    # Instructions in flight of each unit, in order.
    waiting: dict[int, list[int]] = {unit: [] for unit in range(len(UNITS))}
    completed: list[int] = []
    points: set[Point] = set()
    for event in sorted(events, key=lambda event: (event.cycle, not event.done)):
        done = _take_completed(event, waiting)
        completed += done
        left = [each for numbers in waiting.values() for each in numbers]
        points.update(
            f"{kinds[number]} overtakes {kinds[each]}"
            for number in done
            for each in left
            if each < number
        )
        for unit in waiting:
            if not event.issued >> unit & 1:
                continue
            issued = len(kinds)
            if issued >= len(instructions) or instructions[issued].opcode is not UNITS[unit]:
                raise ValueError(f"instruction {issued} was issued to the wrong unit")
            kinds.append(flight_kind(instructions[issued].opcode, instructions[issued].values))
            under_way = [each for numbers in waiting.values() for each in numbers]
            points.update(f"{kinds[each]} then {kinds[issued]}" for each in under_way)
            waiting[unit].append(issued)
    return Flight(completed=tuple(completed), points=frozenset(points))


def _take_completed(event: Event, waiting: dict[int, list[int]]) -> list[int]:
    """Remove the instructions that completed in an event from `waiting`, and return them.

    `waiting` has the indices of the instructions in flight, by number of the unit. The result is in
    the order of units.
    """
    done = []
    for unit, numbers in waiting.items():
        if not event.done >> unit & 1:
            continue
        if not numbers:
            raise ValueError(f"{UNITS[unit].name} completed an instruction that it was never given")
        done.append(numbers.pop(0))
    return done
