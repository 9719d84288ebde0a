"""Checks that waits order all conflicting memory accesses of different units."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from matloom.arch.instruction import Instruction
from matloom.arch.isa import UNITS, Opcode
from matloom.program.accesses import MemoryAccess, Space, strided_view
from matloom.program.errors import VerifyError

_WAITS = tuple(f"wait_{unit.name.lower()}" for unit in UNITS)

#: Names of operands that are fetched before the instruction starts, by their address field.
_FETCHED = {"weight_addr": "weights, ", "param_addr": "parameters, "}

_PLACES = {unit: place for place, unit in enumerate(UNITS)}

#: A count of completions that exceeds that of any command buffer: all is complete.
_ALWAYS_COMPLETE = 1 << 31

#: All axes of an array but the first, by the array's number of axes.
_AXES = tuple(tuple(range(1, axes)) for axes in range(5))

#: Number of instructions of each unit, in the order of UNITS, that are certainly complete.
_Clock = tuple[int, ...]


class _LastAccesses:
    """For each piece of a memory, the last instruction of each unit that read or wrote it.

    An instruction is given by its number among those of its unit, from 1; 0 means none. The memory
    is cut into pieces at the ends of all accesses, so that each piece is accessed as a whole; if
    accesses skip addresses, each address is a piece.
    """

    def __init__(self, accesses: Sequence[MemoryAccess]) -> None:
        edges = sorted({edge for access in accesses for edge in (access.start, access.end)})
        count = len(edges)
        #: Index of the piece that begins at each end of an access; None if each address is a piece.
        self._piece: dict[int, int] | None = None
        if any(access.addresses is not None for access in accesses):
            count = edges[-1] + 1
        else:
            self._piece = {edge: number for number, edge in enumerate(edges)}
        #: Rows: the last write of each unit, then the last read of each unit. Columns: pieces.
        self._last = np.zeros((2 * len(UNITS), count), np.int32)

    def last(self, access: MemoryAccess) -> NDArray[np.int32]:
        """Return a writable view of the last instructions that accessed the pieces of an access.

        Its first axis has the writes of each unit, then the reads.
        """
        if access.addresses is not None:
            return strided_view(self._last, access.addresses)
        start, end = access.start, access.end
        if self._piece is not None:
            start, end = self._piece[start], self._piece[end]
        return self._last[:, start:end]


class Hazards:
    """Finds accesses that no wait orders, instruction by instruction.

    It tracks which instructions are certainly complete when each instruction starts, with a vector
    clock for each unit.
    """

    def __init__(self, accesses: Sequence[MemoryAccess]) -> None:
        by_space: dict[Space, list[MemoryAccess]] = {}
        for access in accesses:
            by_space.setdefault(access.space, []).append(access)
        self._past = {space: _LastAccesses(items) for space, items in by_space.items()}
        nothing = (0,) * len(UNITS)
        #: Indices in the command buffer of each unit's instructions, and the clocks at their
        #: completion.
        self._indices: list[list[int]] = [[] for _unit in UNITS]
        self._completions: list[list[_Clock]] = [[nothing] for _unit in UNITS]
        self._starts = [nothing for _unit in UNITS]
        self._fetches = [nothing for _unit in UNITS]

    def check(self, index: int, instruction: Instruction, accesses: Sequence[MemoryAccess]) -> None:
        """Check the accesses of one instruction against all earlier ones, and record them.

        `index` is that of the instruction in the command buffer. Raises VerifyError if a wait is
        missing.
        """
        unit = _PLACES[instruction.opcode]
        start = self._clock_at_start(unit, instruction)
        # Its own unit works in order, except for operands that are fetched early.
        ordered = (*start[:unit], _ALWAYS_COMPLETE, *start[unit + 1 :])
        marks = []
        for access in accesses:
            known = self._fetches[unit] if access.base in _FETCHED else ordered
            entries = self._past[access.space].last(access)
            self._require_ordered(index, instruction, access, entries, known)
            marks.append(entries[unit if access.write else len(UNITS) + unit])
        self._indices[unit].append(index)
        own = len(self._indices[unit])
        for mark in marks:
            mark[...] = own
        # A unit completes in order, so its earlier instructions are complete, too.
        completion = _latest(start, self._completions[unit][-1])
        self._completions[unit].append((*completion[:unit], own, *completion[unit + 1 :]))
        self._starts[unit] = start

    def _clock_at_start(self, unit: int, instruction: Instruction) -> _Clock:
        """Return the vector clock at an instruction's start; advance its unit's clock of fetches.

        It has the number of certainly completed instructions of each unit.
        """
        # A POST begins when the previous one is complete; instructions of other units overlap.
        post = instruction.opcode is Opcode.POST
        start = self._completions[unit][-1] if post else self._starts[unit]
        for other, field in enumerate(_WAITS):
            wait = instruction.values.get(field, 0)
            if wait:
                done = self._completions[other][-wait]
                start = _latest(start, done)
                if UNITS[other] is Opcode.LOAD or (
                    UNITS[other] is Opcode.POST and instruction.values.get("weights_wait_post")
                ):
                    self._fetches[unit] = _latest(self._fetches[unit], done)
        return start

    def _require_ordered(
        self,
        index: int,
        instruction: Instruction,
        access: MemoryAccess,
        entries: NDArray[np.int32],
        completed: _Clock,
    ) -> None:
        """Raise VerifyError unless conflicting accesses are complete when an instruction starts.

        `entries` are the numbers of the last accesses; `completed` is the vector clock at the
        start.
        """
        # Reads need not be ordered.
        met = entries if access.write else entries[: len(UNITS)]
        latest = np.maximum.reduce(met, axis=_AXES[met.ndim], initial=0).tolist()
        for other, last in enumerate(latest):
            if last > completed[other % len(UNITS)]:
                other, write = other % len(UNITS), other < len(UNITS)
                verb = "writes" if write else "reads"
                operand = _FETCHED.get(access.base, "")
                raise VerifyError(
                    f"instruction {index} ({instruction.opcode.name}) must wait for "
                    f"instruction {self._indices[other][last - 1]} ({UNITS[other].name}), "
                    f"which {verb} {operand}{access}"
                )


def _latest(first: _Clock, second: _Clock) -> _Clock:
    """Return the element-wise maximum of two vector clocks."""
    return tuple(map(max, first, second))
