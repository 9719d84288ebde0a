"""Proves a command buffer legal and free of hazards before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.isa import (
    FORMATS,
    UNITS,
    WRITABLE_REGIONS,
    Extent,
    Instruction,
    IsaError,
    Memory,
    Opcode,
    Region,
    extent_end,
    illegal_field,
    unpack,
)
from matloom.program import EngineStep, Program

__all__ = ["VerifyError", "overlaps_itself", "verify_commands", "verify_program"]

_NEVER = 0

#: Completions of each unit, in the order of UNITS, that are certain at some moment.
Clock = tuple[int, ...]


class VerifyError(ValueError):
    """A command buffer that must not run; the message names instructions, memory and rule."""


def verify_program(program: Program) -> None:
    """Verify every command buffer of a program; raise `VerifyError`."""
    for step in program.steps:
        if isinstance(step, EngineStep):
            end = step.command_offset + step.command_bytes
            commands = program.image[step.command_offset : end]
            verify_commands(commands, program.config, program.region_bytes)


def verify_commands(commands: bytes, config: Config, region_bytes: Mapping[Region, int]) -> None:
    """Verify one command buffer.

    Legality is the dispatcher's. For hazards, every two accesses of different units to
    overlapping addresses, one of them a write, must be ordered by waits: directly, or through
    units that complete in order and what those had waited for. Extents count as whole
    intervals, so a legal buffer may be refused, never a hazard be missed. Weights of an EXEC are
    fetched as soon as its wait on LOAD is met: other waits do not protect them.

    Raises
    ------
    VerifyError
        The first instruction that is illegal or not ordered.
    """
    checker = _Checker(config, region_bytes)
    offset, number = 0, 0
    while True:
        try:
            instruction, offset = unpack(commands, offset)
        except IsaError as error:
            raise VerifyError(f"instruction {number}: {error}") from None
        checker.check(number, instruction)
        number += 1
        if instruction.opcode is Opcode.END:
            return


def overlaps_itself(instruction: Instruction, config: Config) -> bool:
    """Return whether scratchpad bytes written are also read, other than in place.

    An instruction reads ahead of what it writes by as much as its pipeline is long, which is
    not promised. In place, each value is read before it is replaced.
    """
    reads: list[tuple[int, int]] = []
    writes: list[tuple[int, int]] = []
    for extent in FORMATS[instruction.opcode].extents:
        end = extent_end(extent, instruction, config)
        if end is not None and extent.memory is Memory.SPAD:
            start = getattr(instruction, extent.base)
            (writes if extent.write else reads).append((start, end))
    return any(
        write != read and write[0] < read[1] and read[0] < write[1]
        for write in writes
        for read in reads
    )


@dataclass
class _Past:
    """For each unit and address, the last instruction (of that unit) that touched it."""

    read: NDArray[np.int32]
    write: NDArray[np.int32]

    @classmethod
    def of(cls, size: int) -> "_Past":
        return cls(*(np.full((len(UNITS), size), _NEVER, np.int32) for _kind in range(2)))


class _Checker:
    def __init__(self, config: Config, region_bytes: Mapping[Region, int]) -> None:
        self._config = config
        self._sizes = {region: region_bytes.get(region, 0) for region in Region}
        self._past = {
            Memory.SPAD: _Past.of(config.spad_bytes),
            Memory.ACC: _Past.of(config.acc_entries),
        }
        self._dram = {region: _Past.of(self._sizes[region]) for region in WRITABLE_REGIONS}
        #: For each unit the clocks at which its instructions start, and complete.
        self._starts: list[list[Clock]] = [[] for _unit in UNITS]
        self._completions: list[list[Clock]] = [[] for _unit in UNITS]

    def check(self, number: int, instruction: Instruction) -> None:
        """Check one instruction against all before it, and remember it."""
        self._legal(number, instruction)
        if instruction.opcode is Opcode.END:
            return
        if overlaps_itself(instruction, self._config):
            raise VerifyError(
                f"instruction {number} ({instruction.opcode.name}) must read the bytes it writes "
                "in place or not at all"
            )
        unit = UNITS.index(instruction.opcode)
        start, weights = self._clocks(unit, instruction)
        own = len(self._starts[unit]) + 1
        for extent in FORMATS[instruction.opcode].extents:
            known = weights if extent.base == "weight_addr" else start
            self._ordered(number, instruction, extent, unit, known)
        for extent in FORMATS[instruction.opcode].extents:
            self._remember(instruction, extent, unit, own)
        completion = list(start)
        completion[unit] = own
        if self._completions[unit]:
            # A unit completes in order, so all that came before it is complete, too.
            completion = list(_join(tuple(completion), self._completions[unit][-1]))
        self._starts[unit].append(start)
        self._completions[unit].append(tuple(completion))

    def _legal(self, number: int, instruction: Instruction) -> None:
        name = f"instruction {number} ({instruction.opcode.name})"
        problem = illegal_field(instruction, self._config)
        if problem is not None:
            raise VerifyError(f"instruction {number}: {problem}")
        if instruction.opcode is Opcode.STORE and instruction.region not in WRITABLE_REGIONS:
            region = Region(instruction.region).name
            raise VerifyError(f"{name} must write to a writable region, not {region}")
        for unit, starts in zip(UNITS, self._starts, strict=True):
            wait = getattr(instruction, f"wait_{unit.name.lower()}")
            if wait > len(starts):
                raise VerifyError(
                    f"{name} must wait for one of the {len(starts)} {unit.name} before it, "
                    f"not {wait} back"
                )
        for extent in FORMATS[instruction.opcode].extents:
            end = extent_end(extent, instruction, self._config)
            capacity = self._capacity(extent, instruction)
            if end is not None and end > capacity:
                raise VerifyError(
                    f"{name}: {extent.memory.name} addresses must end by {capacity}, not {end}"
                )

    def _capacity(self, extent: Extent, instruction: Instruction) -> int:
        if extent.memory is Memory.DRAM:
            return self._sizes[Region(instruction.region)]
        spad = extent.memory is Memory.SPAD
        return self._config.spad_bytes if spad else self._config.acc_entries

    def _clocks(self, unit: int, instruction: Instruction) -> tuple[Clock, Clock]:
        """Return what is complete when the instruction starts, and when its weights are read."""
        start: Clock = (0,) * len(UNITS)
        if self._starts[unit]:
            # POST begins when the one before is complete; the others overlap.
            earlier = self._completions if instruction.opcode is Opcode.POST else self._starts
            start = earlier[unit][-1]
        weights = start
        for other, waited in enumerate(UNITS):
            wait = getattr(instruction, f"wait_{waited.name.lower()}")
            if wait:
                done = self._completions[other][-wait]
                start = _join(start, done)
                if waited is Opcode.LOAD:
                    weights = _join(weights, done)
        return start, weights

    def _accesses(self, extent: Extent, instruction: Instruction) -> tuple[_Past, int, int] | None:
        end = extent_end(extent, instruction, self._config)
        if end is None:
            return None
        if extent.memory is Memory.DRAM:
            past = self._dram.get(Region(instruction.region))
        else:
            past = self._past[extent.memory]
        start = getattr(instruction, extent.base)
        return None if past is None or end <= start else (past, start, end)

    def _ordered(
        self, number: int, instruction: Instruction, extent: Extent, unit: int, known: Clock
    ) -> None:
        found = self._accesses(extent, instruction)
        if found is None:
            return
        past, start, end = found
        tables = [("writes", past.write)] + [("reads", past.read)] * extent.write
        for verb, table in tables:
            latest = table[:, start:end].max(axis=1)
            for other, last in enumerate(latest):
                if other != unit and last > known[other]:
                    kind = "weights" if extent.base == "weight_addr" else extent.memory.name
                    raise VerifyError(
                        f"instruction {number} ({instruction.opcode.name}) must wait for "
                        f"{UNITS[other].name} number {last}, which {verb} {kind} addresses "
                        f"{start} to {end - 1}"
                    )

    def _remember(self, instruction: Instruction, extent: Extent, unit: int, own: int) -> None:
        found = self._accesses(extent, instruction)
        if found is not None:
            past, start, end = found
            (past.write if extent.write else past.read)[unit, start:end] = own


def _join(one: Clock, other: Clock) -> Clock:
    return tuple(max(pair) for pair in zip(one, other, strict=True))
