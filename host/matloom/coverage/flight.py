"""Finds instructions in flight together, from the control unit's issue and completion events."""

from collections.abc import Sequence
from dataclasses import dataclass

from matloom.arch.instruction import Instruction
from matloom.arch.isa import UNITS
from matloom.coverage.model import Point
from matloom.coverage.variants import flight_kind


@dataclass(frozen=True, kw_only=True)
class Event:
    """Events of the control unit in a cycle: one bit for each of `UNITS`."""

    cycle: int
    done: int = 0
    issued: int = 0


@dataclass(frozen=True, kw_only=True)
class Flight:
    """Outcome of a command buffer.

    Members
    -------
    completed:
        Numbers of the completed instructions.
    points:
        Observed pairs.
    """

    completed: tuple[int, ...]
    points: frozenset[Point]


def trace_flight(instructions: Sequence[Instruction], events: Sequence[Event]) -> Flight:
    """Return which instructions were in flight together: issued, but not yet completed.

    An instruction that completes in the cycle in which another is issued was not in flight with it.
    An instruction overtakes those issued before it that complete after it.

    Raises
    ------
    ValueError
        More instructions were issued or completed than the buffer has.
    """
    # Issued instructions are legal, so each has a kind.
    kinds: list[str] = []
    # Instructions in flight of each unit, in order.
    waiting: dict[int, list[int]] = {unit: [] for unit in range(len(UNITS))}
    completed: list[int] = []
    points: set[Point] = set()
    for event in sorted(events, key=lambda event: (event.cycle, not event.done)):
        for unit, numbers in waiting.items():
            if not event.done >> unit & 1:
                continue
            if not numbers:
                raise ValueError(
                    f"{UNITS[unit].name} completed an instruction that it was never given"
                )
            number = numbers.pop(0)
            completed.append(number)
            earlier = [each for others in waiting.values() for each in others if each < number]
            points.update(f"{kinds[number]} overtakes {kinds[each]}" for each in earlier)
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
