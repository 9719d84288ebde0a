"""The functional model of the engine: its state, its checks, and execution in program order."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom.arch.instruction import (
    Instruction,
    IsaError,
    extent_end,
    illegal_field,
    length_words,
    unpack,
)
from matloom.arch.isa import (
    FORMATS,
    INSTRUCTION_WORD_BYTES,
    UNITS,
    WRITABLE_REGIONS,
    AddressSpace,
    Opcode,
    Region,
)
from matloom.device.errors import DeviceClosedError
from matloom.device.model.execute import execute
from matloom.device.model.post import TableContents, post
from matloom.device.transport import never
from matloom.program.extent_table import beyond_memory
from matloom.program.instruction_table import InstructionTable
from matloom.program.prefilter import doubtful_instructions

#: Maximum number of cached command buffers, which are not checked again when they run again.
_MAX_CACHED_BUFFERS = 16

#: Size in bytes from which decoding a command buffer as arrays is faster.
_MIN_ARRAY_DECODE_BYTES = 1280

_WAITS = tuple((unit, f"wait_{unit.name.lower()}") for unit in UNITS)

_Sizes = tuple[tuple[Region, int], ...]

_RANGE_FAULTS = {
    AddressSpace.SPAD: Fault.SPAD_RANGE,
    AddressSpace.ACC: Fault.ACC_RANGE,
    AddressSpace.DRAM: Fault.DRAM_RANGE,
}


class EngineFaultError(Exception):
    """Fault of the model, with the values of the chip's fault registers."""

    def __init__(self, cause: Fault, index: int, opcode: int, address: int = 0):
        super().__init__(f"{cause.name} at instruction {index}")
        self.cause, self.index, self.opcode, self.address = cause, index, opcode, address


@dataclass
class Engine:
    """State of the engine; `run` executes a command buffer on it.

    The state is scratchpad, accumulators, tables and regions of external memory. Instructions run
    one after another in program order; in a hazard-free program, every order that obeys the waits
    gives the same result. Each instruction is checked before it is executed, in the order of the
    dispatcher: opcode, fields, read-only region, waits, extents. Extents on chip are checked even
    if the configuration does not check them. `executed` is the number of instructions of the last
    run.
    """

    config: Config
    regions: dict[Region, NDArray[np.uint8]] = field(default_factory=dict)
    executed: int = 0
    #: See `matloom.device.transport.Stoppable`; checked before each instruction.
    stopped: Callable[[], bool] = never

    def __post_init__(self) -> None:
        self.spad: NDArray[np.uint8] = np.zeros(self.config.spad_bytes, np.uint8)
        self.accumulators: NDArray[np.int32] = np.zeros(
            (self.config.acc_entries, self.config.columns), np.int32
        )
        self.tables = TableContents.of(self.config)
        #: Instructions before END of command buffers that ran without fault, by the buffer's bytes
        #: and the regions' sizes.
        self._passed: dict[tuple[bytes, _Sizes], list[Instruction]] = {}

    def run(self, commands: bytes) -> None:
        """Execute instructions until END; raise `EngineFaultError` if the chip would stop.

        Bytes after the last whole instruction word are ignored.
        """
        commands = commands[: len(commands) // INSTRUCTION_WORD_BYTES * INSTRUCTION_WORD_BYTES]
        sizes = tuple((region, bytes_.size) for region, bytes_ in self.regions.items())
        known = self._passed.get((commands, sizes))
        if known is not None:
            for instruction in known:
                self._execute(instruction)
            self.executed = len(known) + 1
            return
        passed = self._run_checked(commands)
        if len(self._passed) == _MAX_CACHED_BUFFERS:
            self._passed.clear()
        self._passed[commands, sizes] = passed

    def _run_checked(self, commands: bytes) -> list[Instruction]:
        """Check and execute instructions one by one until END; return those before END."""
        passed: list[Instruction] = []
        issued = dict.fromkeys(UNITS, 0)
        self.executed = 0
        for instruction, legal in self._decode_all(commands):
            if not legal:
                self._check(instruction, self.executed, issued)
            self.executed += 1
            if instruction.opcode is Opcode.END:
                break
            self._execute(instruction)
            passed.append(instruction)
            issued[instruction.opcode] += 1
        return passed

    def _decode_all(self, commands: bytes) -> Iterator[tuple[Instruction, bool]]:
        """Yield the instructions, at least until END, each with True if it is known to be legal.

        Raises `EngineFaultError` at the first bytes that are not an instruction.
        """
        if len(commands) >= _MIN_ARRAY_DECODE_BYTES:
            with suppress(IsaError):
                table = InstructionTable.unpack(commands)
                sizes = {region: held.size for region, held in self.regions.items()}
                doubtful = doubtful_instructions(table, self.config)
                doubtful.update(beyond_memory(table, self.config, sizes).tolist())
                return (
                    (instruction, number not in doubtful)
                    for number, instruction in enumerate(table)
                )
        return self._decode_one_by_one(commands)

    def _decode_one_by_one(self, commands: bytes) -> Iterator[tuple[Instruction, bool]]:
        """Yield instructions, each with False, as they may be illegal; raise at invalid bytes."""
        offset = index = 0
        while True:
            instruction, offset = self._decode(commands, offset, index)
            yield instruction, False
            index += 1

    def _decode(self, commands: bytes, offset: int, index: int) -> tuple[Instruction, int]:
        """Return the instruction at an offset, and the next offset; raise if there is none."""
        if offset >= len(commands):
            raise EngineFaultError(Fault.COMMAND_RANGE, index, 0)
        number = commands[offset] & 15
        try:
            instruction_words = length_words(commands[offset])
        except IsaError:
            raise EngineFaultError(Fault.ILLEGAL_OPCODE, index, number) from None
        if offset + instruction_words * INSTRUCTION_WORD_BYTES > len(commands):
            raise EngineFaultError(Fault.COMMAND_RANGE, index, number)
        try:
            return unpack(commands, offset)
        except IsaError:
            raise EngineFaultError(Fault.ILLEGAL_FIELD, index, number) from None

    def _check(self, instruction: Instruction, index: int, issued: dict[Opcode, int]) -> None:
        """Raise `EngineFaultError` if the chip would not execute an instruction."""
        opcode = instruction.opcode
        if illegal_field(instruction, self.config):
            raise EngineFaultError(Fault.ILLEGAL_FIELD, index, opcode)
        if opcode is Opcode.STORE and instruction.region not in WRITABLE_REGIONS:
            raise EngineFaultError(Fault.READ_ONLY_REGION, index, opcode)
        for unit, wait in _WAITS:
            if instruction.values[wait] > issued[unit]:
                raise EngineFaultError(Fault.DEPENDENCY, index, opcode)
        for extent in FORMATS[opcode].extents:
            end = extent_end(extent, instruction, self.config)
            if end is not None and end > self._capacity(extent.memory, instruction):
                raise EngineFaultError(
                    _RANGE_FAULTS[extent.memory], index, opcode, end & 0xFFFFFFFF
                )

    def _capacity(self, memory: AddressSpace, instruction: Instruction) -> int:
        """Return the size of the memory that an instruction accesses, in bytes or entries."""
        if memory is AddressSpace.SPAD:
            return self.config.spad_bytes
        if memory is AddressSpace.ACC:
            return self.config.acc_entries
        region = self.regions.get(Region(instruction.region))
        return 0 if region is None else region.size

    def run_one(self, instruction: Instruction) -> None:
        """Execute a legal instruction without checking it; its waits are ignored."""
        self._execute(instruction)

    def _execute(self, instruction: Instruction) -> None:
        """Execute one legal instruction; raise `DeviceClosedError` if the run is to stop."""
        if self.stopped():
            raise DeviceClosedError("the device was closed while it ran")
        if instruction.opcode is Opcode.EXEC:
            execute(instruction, self.spad, self.accumulators, self.config)
        elif instruction.opcode is Opcode.POST:
            post(instruction, self.spad, self.accumulators, self.tables, self.config)
        else:
            self._transfer(instruction)

    def _transfer(self, instruction: Instruction) -> None:
        """Execute a LOAD or STORE: copy, or fill, planes of rows of bytes."""
        fields = instruction.values
        region = self.regions.get(Region(fields["region"]))
        size, apart = fields["row_bytes"], 1 << fields["spread"]
        for plane in range(fields["planes"]):
            for row in range(fields["rows"]):
                spad_at = (
                    fields["spad_addr"]
                    + plane * fields["spad_plane_step"]
                    + row * fields["spad_row_step"]
                )
                dram_at = (
                    fields["dram_offset"]
                    + plane * fields["dram_plane_step"]
                    + row * fields["dram_row_step"]
                )
                on_chip = self.spad[spad_at : spad_at + (size - 1) * apart + 1 : apart]
                if fields["fill"]:
                    on_chip[...] = fields["fill_value"]
                elif region is not None and instruction.opcode is Opcode.LOAD:
                    on_chip[...] = region[dram_at : dram_at + size]
                elif region is not None:
                    region[dram_at : dram_at + size] = on_chip
