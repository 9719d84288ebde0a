"""Registers of the functional model, so that the common driver can use it."""

import mmap
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from matloom.arch.config import Config
from matloom.arch.csr import (
    COUNTERS,
    IDENTITY,
    TIMESTAMPS_OFFSET,
    Access,
    Fault,
    register,
    registers_of,
)
from matloom.arch.isa import INSTRUCTION_WORD_BYTES, Region
from matloom.device.model.engine import Engine, EngineFaultError

_START, _RESET = 1, 2
_DONE, _FAULT = 1, 2


class ModelTransport:
    """Registers and external memory of the functional model.

    Writing START to CONTROL runs the whole command buffer before it returns. The model has no
    clock: cycle counters read as zero, and neither TIMEOUT nor LIMIT ever ends a run.
    """

    def __init__(self, config: Config, memory_bytes: int = 1 << 24) -> None:
        self.config = config
        self.memory_base, self.memory_bytes = 0, memory_bytes
        # Pages of zeros from the system cost nothing until they are used, unlike an array.
        self.memory: NDArray[np.uint8] = np.frombuffer(mmap.mmap(-1, memory_bytes), np.uint8)
        self.engine = Engine(config)
        self._table = {item.offset: item for item in registers_of(config)}
        self._registers = {offset: item.reset for offset, item in self._table.items()}
        self._registers[register("ID").offset] = IDENTITY
        self._registers[register("DIGEST").offset] = config.digest

    @property
    def stopped(self) -> Callable[[], bool]:
        """Function that returns whether long calls must end (`transport.Stoppable`)."""
        return self.engine.stopped

    @stopped.setter
    def stopped(self, stopped: Callable[[], bool]) -> None:
        """Set the function that returns whether long calls must end."""
        self.engine.stopped = stopped

    def _get(self, name: str) -> int:
        """Return the value of a register by name."""
        return self._registers[register(name).offset]

    def _set(self, name: str, value: int) -> None:
        """Set a register by name to the low 32 bits of a value."""
        self._registers[register(name).offset] = value & 0xFFFFFFFF

    def _is_timestamp(self, address: int) -> bool:
        """Return whether an address is that of an entry of the completion-time table."""
        slot, rest = divmod(address - TIMESTAMPS_OFFSET, 4)
        return 0 <= slot < self.config.timestamps and not rest

    def read32(self, address: int) -> int:
        """Return the value of the register at a byte offset; raise OSError if there is none."""
        if self._is_timestamp(address):
            return 0
        if address not in self._registers:
            raise OSError(f"there is no register at {address:#x}")
        return self._registers[address]

    def write32(self, address: int, value: int) -> None:
        """Write the register at a byte offset; raise OSError if it is read-only or missing."""
        found = self._table.get(address)
        if found is None and not self._is_timestamp(address):
            raise OSError(f"there is no register at {address:#x}")
        if found is None or found.access is Access.R:
            raise OSError(f"the register at {address:#x} is read-only")
        if found.name == "CONTROL":
            self._write_control(value)
        elif found.access is Access.W1C:
            self._registers[address] &= ~value
        else:
            self._registers[address] = value & ((1 << found.width) - 1)

    def _write_control(self, value: int) -> None:
        """Reset the engine or run a command buffer, as a write to register CONTROL asks."""
        if value & _RESET:
            for name in ("STATUS", "FAULT", "FAULT_INDEX", "FAULT_ADDRESS"):
                self._set(name, 0)
        elif value & _START and not self._get("STATUS") & 4:
            self._run()

    def _run(self) -> None:
        """Run the command buffer, and set status, interrupt and counters."""
        for name, _doc in COUNTERS:
            self._set(name.upper(), 0)
        for region in Region:
            base = self._get(f"{region.name}_BASE")
            size = self._get(f"{region.name}_BYTES")
            self.engine.regions[region] = self.memory[base : base + size]
        try:
            self._execute()
        except EngineFaultError as fault:
            self._record_fault(fault)
        else:
            self._set("STATUS", 2)
            self._set("IRQ_STATUS", self._get("IRQ_STATUS") | _DONE)
        self._set("INSTRUCTIONS", self.engine.executed)

    def _execute(self) -> None:
        """Execute the command buffer; raise EngineFaultError if the chip would stop."""
        self.engine.run(self._commands())

    def _commands(self) -> bytes:
        """Return the command buffer; b"" if its offset or size is no multiple of a word."""
        start, size = self._get("COMMAND_OFFSET"), self._get("COMMAND_BYTES")
        if (start | size) % INSTRUCTION_WORD_BYTES:
            return b""
        return self.engine.regions[Region.PROGRAM][start : start + size].tobytes()

    def _record_fault(self, fault: EngineFaultError) -> None:
        """Set the registers that describe a fault."""
        self._set("STATUS", 4)
        self._set("IRQ_STATUS", self._get("IRQ_STATUS") | _FAULT)
        self._set("FAULT", int(Fault(fault.cause)) | fault.opcode << 8)
        self._set("FAULT_INDEX", fault.index)
        self._set("FAULT_ADDRESS", fault.address)

    def read_block(self, address: int, size: int) -> bytes:
        """Return `size` bytes of external memory from an address on."""
        self._require_inside(address, size)
        return self.memory[address : address + size].tobytes()

    def write_block(self, address: int, data: bytes) -> None:
        """Write bytes to external memory from an address on."""
        self._require_inside(address, len(data))
        self.memory[address : address + len(data)] = np.frombuffer(data, np.uint8)

    def _require_inside(self, address: int, size: int) -> None:
        """Raise `OSError` for addresses outside external memory."""
        if not 0 <= address <= address + size <= self.memory_bytes:
            raise OSError(
                f"{size} bytes at {address:#x} are outside external memory, which has "
                f"{self.memory_bytes}"
            )
