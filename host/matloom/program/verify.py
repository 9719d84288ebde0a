"""Proof that a command buffer is legal and free of hazards, made before it runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from weakref import WeakValueDictionary

from matloom.arch.config import Config
from matloom.arch.garbage import gc_paused
from matloom.arch.instruction import Instruction, IsaError, illegal_field, unpack
from matloom.arch.isa import (
    FILLS,
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
from matloom.program.accesses import MemoryAccess, accesses
from matloom.program.errors import VerifyError
from matloom.program.hazards import Hazards
from matloom.program.instruction_table import InstructionTable, unpack_all
from matloom.program.prefilter import doubtful_instructions
from matloom.program.residency import repeat_problem

__all__ = ["VerifyError", "overlaps_itself", "verify_commands", "verify_program"]

#: Programs that passed, by id. Programs are immutable, so one that is verified again, as for each
#: device opened, need not be checked.
_VERIFIED: WeakValueDictionary[int, Program] = WeakValueDictionary()

_WAITS = tuple(f"wait_{unit.name.lower()}" for unit in UNITS)


def verify_program(program: Program) -> None:
    """Verify all command buffers of a program, unless it has passed before; raise `VerifyError`."""
    if _VERIFIED.get(id(program)) is not program:
        with gc_paused():
            _verify_steps(program)
        _VERIFIED[id(program)] = program


def _verify_steps(program: Program) -> None:
    """Verify the commands of all engine steps, and of their repetitions for later calls."""
    steps = [step for step in program.steps if isinstance(step, EngineStep)]
    for step in steps:
        commands = _commands_of(program, step)
        verify_commands(commands, program.config, program.region_bytes)
        if step.repeat is None:
            continue
        if len(steps) > 1:
            raise VerifyError(f"a step with a repeat must be the only engine step of {len(steps)}")
        repeated = _commands_of(program, step.repeat)
        verify_commands(repeated, program.config, program.region_bytes)
        problem = repeat_problem(
            unpack_all(commands), unpack_all(repeated), step.repeat, program.config
        )
        if problem is not None:
            raise VerifyError(problem)


def _commands_of(program: Program, buffer: EngineStep | Repeat) -> bytes:
    """Return the commands of a step; raise VerifyError unless they are whole instruction words."""
    for name in ("command_offset", "command_bytes"):
        value = getattr(buffer, name)
        if value % INSTRUCTION_WORD_BYTES:
            raise VerifyError(f"{name} must be a multiple of {INSTRUCTION_WORD_BYTES}, not {value}")
    return program.commands(buffer)


def verify_commands(commands: bytes, config: Config, region_bytes: Mapping[Region, int]) -> None:
    """Verify the instructions of one command buffer; raise `VerifyError` if it must not run.

    Instructions must be legal, as the dispatcher checks. Two accesses of different units to
    overlapping addresses, one of them a write, must be ordered by waits, directly or transitively
    through units that complete in order. An access covers whole intervals, or the same channels of
    all positions, so a safe buffer may be refused, but a hazard is never missed. Weights of an EXEC
    and parameters of a POST may be fetched as soon as its waits on LOAD are met: neither other
    waits nor the order of the unit protect them, except the wait for POST of an EXEC with
    `weights_wait_post`.

    Raises
    ------
    VerifyError
        An instruction is illegal or not ordered; the message names the first one.
    """
    legal = _legal_instructions(commands, config, region_bytes)
    _check_tables([instruction for instruction, _found in legal], config)
    hazards = Hazards([access for _instruction, found in legal for access in found])
    for index, (instruction, found) in enumerate(legal):
        hazards.check(index, instruction, found)


def overlaps_itself(instruction: Instruction, config: Config) -> bool:
    """Return whether an instruction reads scratchpad bytes that it writes, other than in place.

    An instruction reads ahead of its writes by the length of its pipeline, which is not specified.
    In place, each value is read before it is replaced, and not read again.
    """
    return _accesses_overlap(instruction, accesses(instruction, config), config)


def _accesses_overlap(
    instruction: Instruction, accesses: Iterable[MemoryAccess], config: Config
) -> bool:
    """Return whether a scratchpad read overlaps a write, other than exactly in place."""
    found = [
        item for item in accesses if item.space[0] is AddressSpace.SPAD and item.start < item.end
    ]
    reads = [item for item in found if not item.write]
    for write in (item for item in found if item.write) if reads else ():
        for read in reads:
            disjoint = read.end <= write.start or write.end <= read.start
            in_place = (
                read.base == "source_addr"
                and (read.start, read.end) == (write.start, write.end)
                and _positions_are_separate(instruction, config)
            )
            if not disjoint and not in_place:
                return True
    return False


def _positions_are_separate(post: Instruction, config: Config) -> bool:
    """Return whether a POST's positions share no bytes, and source and destination rows match."""
    position = (post.oc_blocks - 1) * config.columns + post.tail
    row = (post.width - 1) * post.x_step + position
    return (post.width == 1 or post.x_step >= position) and (
        post.height == 1 or post.source_pitch == post.dest_pitch >= row
    )


def _legal_instructions(
    commands: bytes, config: Config, region_bytes: Mapping[Region, int]
) -> list[tuple[Instruction, list[MemoryAccess]]]:
    """Return the instructions before END, each with its non-empty accesses.

    Raises VerifyError if the dispatcher would stop; it also checks the bounds of empty accesses.
    """
    issued = dict.fromkeys(UNITS, 0)
    checked: list[tuple[Instruction, list[MemoryAccess]]] = []
    for number, (instruction, doubtful) in enumerate(_instructions(commands, config)):
        if doubtful:
            _check_legal(number, instruction, issued, config)
        if instruction.opcode is Opcode.END:
            break
        issued[instruction.opcode] += 1
        found = list(accesses(instruction, config))
        _check_bounds(number, instruction, found, config, region_bytes)
        checked.append((instruction, [item for item in found if item.start < item.end]))
    return checked


def _instructions(commands: bytes, config: Config) -> Iterable[tuple[Instruction, bool]]:
    """Return the instructions, at least up to END, and whether each may be illegal.

    Only fields, region and waits are considered.
    """
    try:
        table = InstructionTable.unpack(commands)
    except IsaError:
        # Earlier instructions may be wrong, too.
        return _decode_one_by_one(commands)
    doubtful = doubtful_instructions(table, config)
    return ((each, number in doubtful) for number, each in enumerate(table))


def _decode_one_by_one(commands: bytes) -> Iterator[tuple[Instruction, bool]]:
    """Yield instructions, all of which may be illegal, until the first invalid bytes.

    Raises VerifyError there. END does not stop it.
    """
    offset = number = 0
    while True:
        try:
            instruction, offset = unpack(commands, offset)
        except IsaError as error:
            raise VerifyError(f"instruction {number}: {error}") from None
        yield instruction, True
        number += 1


def _label(number: int, instruction: Instruction) -> str:
    """Return index `number` and the opcode of an instruction, as messages name it."""
    return f"instruction {number} ({instruction.opcode.name})"


def _check_legal(
    number: int, instruction: Instruction, issued: Mapping[Opcode, int], config: Config
) -> None:
    """Raise VerifyError for an illegal field or region, or for a wait that reaches too far back."""
    problem = illegal_field(instruction, config)
    if problem is not None:
        raise VerifyError(f"instruction {number}: {problem}")
    if instruction.opcode is Opcode.STORE and instruction.region not in WRITABLE_REGIONS:
        region = Region(instruction.region).name
        name = _label(number, instruction)
        raise VerifyError(f"{name} must write to a writable region, not {region}")
    for unit, field in zip(UNITS, _WAITS, strict=True):
        wait = instruction.values.get(field, 0)
        if wait > issued[unit]:
            raise VerifyError(
                f"{_label(number, instruction)} must wait for one of the {issued[unit]} "
                f"{unit.name} before it, not {wait} back"
            )


def _check_bounds(
    number: int,
    instruction: Instruction,
    accesses: Sequence[MemoryAccess],
    config: Config,
    region_bytes: Mapping[Region, int],
) -> None:
    """Raise VerifyError for an access beyond its memory, or one that overlaps another."""
    for access in accesses:
        memory, region = access.space
        if region is not None:
            capacity = region_bytes.get(region, 0)
        else:
            capacity = config.spad_bytes if memory is AddressSpace.SPAD else config.acc_entries
        if access.end > capacity:
            raise VerifyError(
                f"{_label(number, instruction)}: {memory.name} addresses must end by {capacity}, "
                f"not {access.end}"
            )
    if _accesses_overlap(instruction, accesses, config):
        name = _label(number, instruction)
        raise VerifyError(f"{name} must read the bytes it writes in place or not at all")


def _check_tables(instructions: Sequence[Instruction], config: Config) -> None:
    """Raise VerifyError for a lookup before any fill, or a fill of less than whole tables."""
    filled = False
    for number, instruction in enumerate(instructions):
        bytes_made = instruction.opcode is Opcode.POST
        bytes_made = bytes_made and instruction.destination == Destination.SPAD
        if not bytes_made or instruction.table == Table.NONE:
            continue
        if instruction.table in FILLS:
            vectors = instruction.oc_blocks * instruction.height * instruction.width
            each = instruction.table == Table.FILL_EACH
            rows = config.table_rows * (config.lanes if each else 1)
            if vectors != rows or instruction.tail < config.table_row_bytes:
                tables = f"{config.lanes} tables" if each else "table"
                raise VerifyError(
                    f"instruction {number} (POST) must fill the {tables} with {rows} vectors of "
                    f"{config.table_row_bytes} bytes, not {vectors} of {instruction.tail}"
                )
            filled = True
        elif not filled:
            raise VerifyError(f"instruction {number} (POST) must look up in a table that is filled")
