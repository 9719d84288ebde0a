"""Proves a command buffer legal and free of hazards before it runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.footprint import StridedRange
from matloom.arch.instruction import Instruction, IsaError, illegal_field, unpack
from matloom.arch.isa import (
    INSTRUCTION_WORD_BYTES,
    UNITS,
    WRITABLE_REGIONS,
    AddressSpace,
    Destination,
    Opcode,
    Region,
    Table,
)
from matloom.program import EngineStep, Program, Repeat
from matloom.program.accesses import Access, Space, accesses, strided_view
from matloom.program.instruction_table import unpack_all
from matloom.program.residency import repeat_problem

__all__ = ["VerifyError", "overlaps_itself", "verify_commands", "verify_program"]

_WAITS = tuple(f"wait_{unit.name.lower()}" for unit in UNITS)

#: What is fetched before the instruction starts.
_FETCHED = {"weight_addr": "weights, ", "param_addr": "parameters, "}

#: Completions of each unit, in the order of UNITS, that are certain at some moment.
_Clock = tuple[int, ...]


class VerifyError(ValueError):
    """A command buffer that must not run; the message names instructions, memory and rule."""


def verify_program(program: Program) -> None:
    """Verify every command buffer of a program; raise `VerifyError`."""
    steps = [step for step in program.steps if isinstance(step, EngineStep)]
    for step in steps:
        commands = _commands(program, step)
        verify_commands(commands, program.config, program.region_bytes)
        if step.repeat is None:
            continue
        if len(steps) > 1:
            raise VerifyError(f"a step with a repeat must be the only engine step of {len(steps)}")
        again = _commands(program, step.repeat)
        verify_commands(again, program.config, program.region_bytes)
        problem = repeat_problem(
            unpack_all(commands), unpack_all(again), step.repeat, program.config
        )
        if problem is not None:
            raise VerifyError(problem)


def _commands(program: Program, buffer: EngineStep | Repeat) -> bytes:
    for name in ("command_offset", "command_bytes"):
        value = getattr(buffer, name)
        if value % INSTRUCTION_WORD_BYTES:
            raise VerifyError(f"{name} must be a multiple of {INSTRUCTION_WORD_BYTES}, not {value}")
    return program.commands(buffer)


def verify_commands(commands: bytes, config: Config, region_bytes: Mapping[Region, int]) -> None:
    """Verify one command buffer.

    Legality is the dispatcher's. For hazards, every two accesses of different units to
    overlapping addresses, one of them a write, must be ordered by waits: directly, or through
    units that complete in order and what those had waited for. Extents count as whole
    intervals, of positions in the scratchpad the same channels, so a legal buffer may be refused,
    never a hazard be missed. Weights of an EXEC and parameters of a POST may be fetched as soon
    as its waits on LOAD are met: neither other waits nor the order of the unit protect them.

    Raises
    ------
    VerifyError
        The first instruction that is illegal, or else the first that is not ordered.
    """
    legal = list(_legal_instructions(commands, config, region_bytes))
    _check_tables([instruction for instruction, _found in legal], config)
    hazards = _Hazards([access for _instruction, found in legal for access in found])
    for number, (instruction, found) in enumerate(legal):
        hazards.check(number, instruction, found)


def overlaps_itself(instruction: Instruction, config: Config) -> bool:
    """Return whether scratchpad bytes written are also read, other than in place.

    An instruction reads ahead of what it writes by as much as its pipeline is long, which is
    not promised. In place, each value is read before it is replaced, and not read again.
    """
    return _overlaps(instruction, accesses(instruction, config), config)


def _overlaps(instruction: Instruction, given: Iterable[Access], config: Config) -> bool:
    found = [item for item in given if item.space[0] is AddressSpace.SPAD and item.start < item.end]
    for write in (item for item in found if item.write):
        for read in (item for item in found if not item.write):
            apart = read.end <= write.start or write.end <= read.start
            in_place = (
                read.base == "source_addr"
                and (read.start, read.end) == (write.start, write.end)
                and _positions_apart(instruction, config)
            )
            if not apart and not in_place:
                return True
    return False


def _positions_apart(post: Instruction, config: Config) -> bool:
    """Return whether the positions of a POST share no bytes and lie alike on both sides."""
    position = (post.oc_blocks - 1) * config.columns + post.tail
    row = (post.width - 1) * post.x_step + position
    return (post.width == 1 or post.x_step >= position) and (
        post.height == 1 or post.source_pitch == post.dest_pitch >= row
    )


def _legal_instructions(
    commands: bytes, config: Config, region_bytes: Mapping[Region, int]
) -> Iterator[tuple[Instruction, list[Access]]]:
    """Yield instructions with their accesses up to END; raise where the dispatcher would stop.

    Its bounds count for empty accesses, too.
    """
    issued = dict.fromkeys(UNITS, 0)
    offset, number = 0, 0
    while True:
        try:
            instruction, offset = unpack(commands, offset)
        except IsaError as error:
            raise VerifyError(f"instruction {number}: {error}") from None
        found = list(accesses(instruction, config))
        _check_legal(number, instruction, issued, config)
        _check_bounds(number, instruction, found, config, region_bytes)
        if instruction.opcode is Opcode.END:
            return
        yield instruction, [item for item in found if item.start < item.end]
        issued[instruction.opcode] += 1
        number += 1


def _name(number: int, instruction: Instruction) -> str:
    return f"instruction {number} ({instruction.opcode.name})"


def _check_legal(
    number: int, instruction: Instruction, issued: Mapping[Opcode, int], config: Config
) -> None:
    problem = illegal_field(instruction, config)
    if problem is not None:
        raise VerifyError(f"instruction {number}: {problem}")
    if instruction.opcode is Opcode.STORE and instruction.region not in WRITABLE_REGIONS:
        region = Region(instruction.region).name
        name = _name(number, instruction)
        raise VerifyError(f"{name} must write to a writable region, not {region}")
    for unit, field in zip(UNITS, _WAITS, strict=True):
        wait = instruction.values.get(field, 0)
        if wait > issued[unit]:
            raise VerifyError(
                f"{_name(number, instruction)} must wait for one of the {issued[unit]} "
                f"{unit.name} before it, not {wait} back"
            )


def _check_bounds(
    number: int,
    instruction: Instruction,
    found: Sequence[Access],
    config: Config,
    region_bytes: Mapping[Region, int],
) -> None:
    for access in found:
        memory, region = access.space
        if region is not None:
            capacity = region_bytes.get(region, 0)
        else:
            capacity = config.spad_bytes if memory is AddressSpace.SPAD else config.acc_entries
        if access.end > capacity:
            raise VerifyError(
                f"{_name(number, instruction)}: {memory.name} addresses must end by {capacity}, "
                f"not {access.end}"
            )
    if _overlaps(instruction, found, config):
        name = _name(number, instruction)
        raise VerifyError(f"{name} must read the bytes it writes in place or not at all")


def _check_tables(instructions: Sequence[Instruction], config: Config) -> None:
    """Refuse a look-up in a table that was never filled; fillings fill all of it."""
    filled = False
    for number, instruction in enumerate(instructions):
        bytes_made = instruction.opcode is Opcode.POST
        bytes_made = bytes_made and instruction.destination == Destination.SPAD
        if not bytes_made or instruction.table == Table.NONE:
            continue
        if instruction.table == Table.FILL:
            vectors = instruction.oc_blocks * instruction.height * instruction.width
            rows = 256 // config.table_row_bytes
            if vectors != rows or instruction.tail < config.table_row_bytes:
                raise VerifyError(
                    f"instruction {number} (POST) must fill the table with {rows} vectors of "
                    f"{config.table_row_bytes} bytes, not {vectors} of {instruction.tail}"
                )
            filled = True
        elif not filled:
            raise VerifyError(f"instruction {number} (POST) must look up in a table that is filled")


class _Past:
    """For each unit and piece of a memory, the unit's last instruction there: 1 is its first.

    Pieces lie between neighbouring ends of accesses, so nothing smaller needs telling apart; where
    accesses leave addresses out, each address is a piece.
    """

    def __init__(self, found: Sequence[Access]) -> None:
        edges = sorted({edge for access in found for edge in (access.start, access.end)})
        count = len(edges)
        #: The piece of each edge; None where each address is one.
        self._piece: dict[int, int] | None = None
        if any(access.lines is not None for access in found):
            count = edges[-1] + 1
        else:
            self._piece = {edge: number for number, edge in enumerate(edges)}
        self._last = {write: np.zeros((len(UNITS), count), np.int32) for write in (False, True)}

    def last(self, access: Access, *, write: bool) -> NDArray[np.int32]:
        """Return the entries of an access, units first, of reads or of writes; they may be set."""
        lines = access.lines
        if lines is None:
            start, end = access.start, access.end
            if self._piece is not None:
                start, end = self._piece[start], self._piece[end]
            lines = StridedRange(start, end - start)
        return strided_view(self._last[write], lines)


class _Hazards:
    """Follows what is certainly complete when each instruction starts: a vector clock a unit."""

    def __init__(self, found: Sequence[Access]) -> None:
        by_space: dict[Space, list[Access]] = {}
        for access in found:
            by_space.setdefault(access.space, []).append(access)
        self._past = {space: _Past(items) for space, items in by_space.items()}
        nothing = (0,) * len(UNITS)
        #: For each unit its instructions' numbers, and the clocks at their completion.
        self._numbers: list[list[int]] = [[] for _unit in UNITS]
        self._completions: list[list[_Clock]] = [[nothing] for _unit in UNITS]
        self._starts = [nothing for _unit in UNITS]
        self._fetches = [nothing for _unit in UNITS]

    def check(self, number: int, instruction: Instruction, found: Sequence[Access]) -> None:
        """Check one instruction against all before it, and remember it."""
        unit = UNITS.index(instruction.opcode)
        start = self._start(unit, instruction)
        for access in found:
            early = access.base in _FETCHED
            self._ordered(number, instruction, access, self._fetches[unit] if early else start)
        self._numbers[unit].append(number)
        own = len(self._numbers[unit])
        for access in found:
            past = self._past[access.space]
            past.last(access, write=access.write)[unit] = own
        # A unit completes in order, so all that came before is complete, too.
        completion = _join(start, self._completions[unit][-1])
        self._completions[unit].append((*completion[:unit], own, *completion[unit + 1 :]))
        self._starts[unit] = start

    def _start(self, unit: int, instruction: Instruction) -> _Clock:
        """Return what is complete at the start; move the clock of what is fetched before on."""
        # POST begins when the one before is complete; in the other units they overlap.
        post = instruction.opcode is Opcode.POST
        start = self._completions[unit][-1] if post else self._starts[unit]
        for other, field in enumerate(_WAITS):
            wait = instruction.values.get(field, 0)
            if wait:
                done = self._completions[other][-wait]
                start = _join(start, done)
                if UNITS[other] is Opcode.LOAD:
                    self._fetches[unit] = _join(self._fetches[unit], done)
        return start

    def _ordered(
        self, number: int, instruction: Instruction, access: Access, known: _Clock
    ) -> None:
        unit = UNITS.index(instruction.opcode)
        past = self._past[access.space]
        for write in (True, False) if access.write else (True,):
            numbers = past.last(access, write=write)
            latest = np.maximum.reduce(
                numbers, axis=tuple(range(1, numbers.ndim)), initial=0
            ).tolist()
            for other, last in enumerate(latest):
                if (other != unit or access.base in _FETCHED) and last > known[other]:
                    verb = "writes" if write else "reads"
                    what = _FETCHED.get(access.base, "")
                    raise VerifyError(
                        f"instruction {number} ({instruction.opcode.name}) must wait for "
                        f"instruction {self._numbers[other][last - 1]} ({UNITS[other].name}), "
                        f"which {verb} {what}{access}"
                    )


def _join(one: _Clock, other: _Clock) -> _Clock:
    return tuple(map(max, one, other))
