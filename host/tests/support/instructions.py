"""Instructions of a program by opcode, and the bytes that its transfers move."""

from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.program import EngineStep, Program
from matloom.program.instruction_table import unpack_all


def instructions(program: Program, opcode: Opcode) -> list[Instruction]:
    """Return the instructions of a kind in all command buffers, in order."""
    steps = [step for step in program.steps if isinstance(step, EngineStep)]
    commands = (each for step in steps for each in unpack_all(program.commands(step)))
    return [each for each in commands if each.opcode is opcode]


def loaded(program: Program, *regions: Region) -> int:
    """Return the bytes that LOADs read from some regions, by default from the arena."""
    return _bytes(program, Opcode.LOAD, regions)


def stored(program: Program, *regions: Region) -> int:
    """Return the bytes that STOREs write to some regions, by default to the arena."""
    return _bytes(program, Opcode.STORE, regions)


def _bytes(program: Program, opcode: Opcode, regions: tuple[Region, ...]) -> int:
    return sum(
        each.row_bytes * each.rows * each.planes
        for each in instructions(program, opcode)
        if each.region in (regions or (Region.ARENA,))
    )
