"""Finds the operator for which each instruction works, from waits and timestamps."""

from collections.abc import Mapping, Sequence

from matloom.arch.instruction import Instruction
from matloom.arch.isa import UNITS, Opcode
from matloom.cost import Span
from matloom.cost.dispatch import WAIT_FIELDS


def owners(
    instructions: Sequence[Instruction], spans: Sequence[Span], layers: Mapping[int, int]
) -> tuple[int, ...]:
    """Return the index of the operator that each span (a timed instruction) is part of, or -1.

    Only the last instruction of an operator has a timestamp. A POST or STORE belongs to the
    operator of the next timestamp in program order, an EXEC to the first POST that waits for it,
    and a LOAD to the first instruction that waits for it. If tiles of two operators alternate, a
    few may be attributed to the other operator.

    Parameters
    ----------
    layers:
        Index of the operator for each slot in the completion-time table.
    """
    found = _assign_by_timestamps(instructions, spans, layers)
    for unit in (Opcode.EXEC, Opcode.LOAD):
        _assign_by_waits(unit, instructions, spans, found)
    return tuple(found)


def _assign_by_timestamps(
    instructions: Sequence[Instruction], spans: Sequence[Span], layers: Mapping[int, int]
) -> list[int]:
    """Return the operator of each span: the one whose timestamp is the next in the program."""
    found, owner = [-1] * len(spans), -1
    for at in reversed(range(len(spans))):
        slot = instructions[spans[at].index].values.get("timestamp", 0)
        owner = layers.get(slot, owner)
        found[at] = owner
    return found


def _assign_by_waits(
    unit: Opcode,
    instructions: Sequence[Instruction],
    spans: Sequence[Span],
    owners_so_far: list[int],
) -> None:
    """Set the operator of each instruction of a unit to that of the first one that waits for it.

    `owners_so_far` is changed in place.
    """
    field = WAIT_FIELDS[UNITS.index(unit)]
    own: list[int] = []
    served = 0
    for at, span in enumerate(spans):
        if span.unit is unit:
            own.append(at)
            continue
        count = instructions[span.index].values.get(field, 0)
        until = len(own) - count + 1 if count else 0
        for each in own[served:until]:
            owners_so_far[each] = owners_so_far[at]
        served = max(served, until)
