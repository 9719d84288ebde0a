"""Checks that a step may be repeated while its weights are still in the scratchpad."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.footprint import StridedRange
from matloom.arch.instruction import Instruction
from matloom.arch.isa import FILLS, AddressSpace, Opcode, Region
from matloom.program import Repeat
from matloom.program.accesses import MemoryAccess, accesses, strided_view

#: Address fields of data that is the same in every call.
_CONSTANTS = ("weight_addr", "param_addr")


def repeat_problem(
    first: Iterable[Instruction], repeated: Iterable[Instruction], repeat: Repeat, config: Config
) -> str | None:
    """Return why a repetition for later calls is not safe, as a sentence; None if it is safe.

    It is safe if the step leaves on chip all that the repetition needs. `repeat.kept` lists the
    bytes that stay. The last instruction of the step, `first`, that writes such a byte must be a
    LOAD from the constant region PROGRAM; the repetition, `repeated`, must not write one. Weights,
    parameters and tables that the repetition reads must be kept, or written earlier by itself.
    Computed weights, which each call writes again, are not checked here. Both must be legal.
    """
    kept = np.zeros(config.spad_bytes, bool)
    for start, end in repeat.kept:
        if not 0 <= start <= end <= config.spad_bytes:
            return f"kept bytes must lie in 0 .. {config.spad_bytes}, not {start} .. {end}"
        kept[start:end] = True
    return _loading_problem(first, kept, config) or _repeating_problem(repeated, kept, config)


def _loading_problem(
    commands: Iterable[Instruction], kept_bytes: NDArray[np.bool_], config: Config
) -> str | None:
    """Return a sentence unless the first call loads all kept bytes, and does not overwrite them."""
    loaded = np.zeros_like(kept_bytes)
    for instruction in commands:
        constant = instruction.opcode is Opcode.LOAD and instruction.region == Region.PROGRAM
        for access in _on_chip(instruction, config):
            if access.write:
                _entries_of(loaded, access)[...] = constant
    missing = kept_bytes & ~loaded
    if not missing.any():
        return None
    return (
        f"kept byte {np.argmax(missing)} must be loaded from region PROGRAM, and not be written "
        "after that"
    )


def _repeating_problem(
    commands: Iterable[Instruction], kept_bytes: NDArray[np.bool_], config: Config
) -> str | None:
    """Return a sentence if a repetition reads constants it lacks, or writes kept bytes; or None."""
    known = kept_bytes.copy()
    for number, instruction in enumerate(commands):
        name = f"instruction {number} ({instruction.opcode.name}) of a repetition"
        found = list(_on_chip(instruction, config))
        for access in found:
            if _is_constant(access, instruction) and not _entries_of(known, access).all():
                return f"{name} must find constants kept or loaded, not read {access}"
        for access in found:
            if access.write:
                if _entries_of(kept_bytes, access).any():
                    return f"{name} must not write kept bytes, but writes {access}"
                _entries_of(known, access)[...] = True
    return None


def _is_constant(access: MemoryAccess, instruction: Instruction) -> bool:
    """Return whether an access only reads data that are the same in every call.

    Weights that wait for POST are computed in each call. They may include rows of a tile that
    nothing writes, which are multiplied by padding.
    """
    get = instruction.values.get
    if access.base == "weight_addr" and get("weights_wait_post") and not get("weights_fixed"):
        return False
    if access.base in _CONSTANTS:
        return True
    fills = instruction.opcode is Opcode.POST and instruction.table in FILLS
    return fills and access.base == "source_addr"


def _on_chip(instruction: Instruction, config: Config) -> Iterator[MemoryAccess]:
    """Yield the accesses of an instruction to the scratchpad that are not empty."""
    for access in accesses(instruction, config):
        if access.space[0] is AddressSpace.SPAD and access.start < access.end:
            yield access


def _entries_of(table: NDArray[np.bool_], access: MemoryAccess) -> NDArray[np.bool_]:
    """Return a writable view of the table entries of the bytes that an access covers."""
    addresses = access.addresses or StridedRange(access.start, access.end - access.start)
    return strided_view(table[np.newaxis], addresses)
