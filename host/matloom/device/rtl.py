"""The generated chip in Verilator, as a transport."""

import ctypes
import os
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from matloom.arch.bus_rules import CHANNELS, RULES
from matloom.arch.config import Config
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.device.errors import BusError, DeviceClosedError, DeviceError
from matloom.device.simulator import Breach, build, load
from matloom.device.transport import never
from matloom.device.waves import Waves

#: Environment variable that sets the default of `check_bus`: 1 for yes.
CHECK_VARIABLE = "MATLOOM_CHECK_BUS"

#: Cycles to simulate before the first check of `stopped`; approximate seconds between checks.
_SLICE, _LOOK = 1 << 12, 0.1

#: Bus address at which the external memory of the simulation begins.
MEMORY_BASE = 0x8000_0000


@dataclass(frozen=True, kw_only=True)
class MemoryTiming:
    """External memory of a simulation, and disturbances such as jitter and errors.

    Members
    -------
    memory:
        Speed and latencies.
    latency_jitter:
        Bound, itself excluded, on the random cycles that are added to each latency; 0 for none.
    stall_per_1024:
        Average number of cycles, of 1,024, in which a handshake is withheld at random.
    seed:
        Seed of the randomness.
    error_first, error_end:
        Bus addresses, the end exclusive, that answer with an error; a write burst fails if its last
        beat lies there.
    error_code:
        Error response: 2 for SLVERR, 3 for DECERR.
    frozen:
        Whether the memory never answers.
    """

    memory: Memory = REFERENCE_MEMORY
    latency_jitter: int = 0
    stall_per_1024: int = 0
    seed: int = 0
    error_first: int = 0
    error_end: int = 0
    error_code: int = 2
    frozen: bool = False


class RtlTransport:
    """Registers and external memory of a simulated chip.

    Before the first reset, registers and memories hold random bits drawn from `state_seed`; results
    must not depend on these bits. With `Config.parity` and a seed of 0, they hold zeros instead, as
    after loading a bitstream, because random bits have wrong parity until they are overwritten.

    Members
    -------
    check_bus:
        Whether every cycle is checked against the bus rules (`matloom.arch.bus_rules`).
    external_memory:
        External memory whose timing is simulated, as last set by `set_timing`.
    stopped:
        See `matloom.device.transport.Stoppable`.

    Raises
    ------
    OSError
        A register access was answered with an error.
    BusError
        A bus rule was broken since the last reset of the transport.
    """

    def __init__(
        self,
        config: Config,
        memory_bytes: int = 1 << 24,
        timing: MemoryTiming | None = None,
        waves: Waves | Path | str | None = None,
        on_line: Callable[[str], None] | None = None,
        check_bus: bool | None = None,
        state_seed: int = 0,
    ) -> None:
        self.memory_base, self.memory_bytes = MEMORY_BASE, memory_bytes
        self.stopped: Callable[[], bool] = never
        #: Cycles simulated since the last register write: the progress of a run.
        self.waited = 0
        self._slice = _SLICE
        self._bus_bytes = config.bus_bytes
        self.memory: NDArray[np.uint8] = np.zeros(memory_bytes, np.uint8)
        self._waves: Waves | None = None
        traced = Waves.of(waves) if waves is not None else None
        if traced is not None:
            traced.require()
        self._library = self._load(config, traced.format if traced else "", on_line)
        self._simulation = self._library.matloom_create(
            self.memory.ctypes.data, MEMORY_BASE, memory_bytes, state_seed & 0xFFFFFFFF
        )
        # A session that is never closed still finishes its waveforms and its simulation.
        ended = self._library, self._simulation, self.memory, os.getpid()
        self._end = weakref.finalize(self, _end, *ended)
        # The driver handles the interpreter's exit, because a thread may be simulating.
        self._end.atexit = False
        self.set_timing(timing or MemoryTiming())
        default = os.environ.get(CHECK_VARIABLE) == "1"
        self.check_bus = default if check_bus is None else check_bus
        if self.check_bus:
            self._library.matloom_check(self._handle, config.burst_beats, config.outstanding)
        if traced is not None:
            self._start_waves(traced)

    def _load(
        self, config: Config, trace: str, on_line: Callable[[str], None] | None
    ) -> ctypes.CDLL:
        """Load the simulator library; subclasses load others."""
        return load(build(config, trace=trace, on_line=on_line))

    def _start_waves(self, waves: Waves) -> None:
        """Start to write waveforms; raise `DeviceError` if the file cannot be written."""
        path = os.fsencode(waves.path)
        if self._library.matloom_trace(self._handle, path, waves.first, waves.end):
            self.close()
            raise DeviceError(
                f"waves cannot be written to {str(waves.path)!r}",
                hint="choose a file in a folder that exists and can be written",
            )
        self._waves = waves

    @property
    def _handle(self) -> int:
        """Handle of the simulation, valid until `close`."""
        if not self._simulation:
            raise DeviceClosedError("the device was closed")
        return int(self._simulation)

    def _raise_pending_errors(self) -> None:
        """Raise BusError if a bus rule was broken, or DeviceError if waveforms were lost."""
        self._require_waves(self._handle)
        breach = Breach()
        if self.check_bus and self._library.matloom_breach(self._handle, ctypes.byref(breach)):
            raise BusError(
                rule=RULES[breach.rule].name,
                channel=list(CHANNELS)[breach.channel],
                cycle=breach.cycle,
                value=breach.value,
                limit=breach.limit,
            )

    def _require_waves(self, handle: int) -> None:
        """Raise DeviceError, once, if waveforms could not be written, as when the disk is full."""
        waves = self._waves
        number = 0 if waves is None else self._library.matloom_trace_error(handle)
        if waves is not None and number:
            self._waves = None
            raise DeviceError(
                f"waves cannot be written to {str(waves.path)!r}: {os.strerror(number).lower()}",
                hint="free some space, or record fewer cycles (--waves-from, --waves-cycles)",
            )

    def set_timing(self, timing: MemoryTiming) -> None:
        """Change the timing of the external memory from the next cycle on."""
        memory, beat = timing.memory, timing.memory.beat_cycles(self._bus_bytes)
        self._library.matloom_timing(
            self._handle,
            memory.read_latency,
            memory.write_latency,
            timing.latency_jitter,
            memory.outstanding,
            timing.stall_per_1024,
            beat.numerator,
            beat.denominator,
            memory.row_bytes,
            memory.row_miss_cycles,
            timing.seed,
            timing.error_first,
            timing.error_end,
            timing.error_code,
            int(timing.frozen),
        )
        self.external_memory = memory

    def read32(self, address: int) -> int:
        """Return the value of the register at a byte offset."""
        response = ctypes.c_uint32()
        value = self._library.matloom_read32(self._handle, address, ctypes.byref(response))
        self._raise_pending_errors()
        if response.value:
            raise OSError(f"reading register {address:#x} failed with response {response.value}")
        return int(value)

    def write32(self, address: int, value: int) -> None:
        """Write the register at a byte offset."""
        self.waited = 0
        response = ctypes.c_uint32()
        self._library.matloom_write32(self._handle, address, value, ctypes.byref(response))
        self._raise_pending_errors()
        if response.value:
            raise OSError(f"writing register {address:#x} failed with response {response.value}")

    def _memory_offset(self, address: int, size: int) -> int:
        """Return the offset of an address in external memory; raise `OSError` if outside."""
        offset = address - MEMORY_BASE
        if not 0 <= offset <= offset + size <= self.memory.size:
            raise OSError(
                f"{size} bytes at {address:#x} are outside external memory, which has "
                f"{self.memory.size} bytes at {MEMORY_BASE:#x}"
            )
        return offset

    def read_block(self, address: int, size: int) -> bytes:
        """Return `size` bytes of external memory from a bus address on."""
        offset = self._memory_offset(address, size)
        return self.memory[offset : offset + size].tobytes()

    def write_block(self, address: int, data: bytes) -> None:
        """Write bytes to external memory from a bus address on."""
        offset = self._memory_offset(address, len(data))
        self.memory[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    def wait_interrupt(self, cycles: int) -> int:
        """Run the chip until its interrupt rises, at most `cycles` cycles; return how many.

        Signals are handled and `stopped` is checked several times a second.
        """
        count = 0
        while count < cycles and not self.stopped():
            wanted, began = min(cycles - count, self._slice), time.monotonic()
            passed = int(self._library.matloom_run(self._handle, wanted))
            count += passed
            self.waited += passed
            self._raise_pending_errors()
            if passed < wanted:
                break
            if wanted == self._slice:
                fast = time.monotonic() - began < _LOOK
                self._slice = self._slice * 2 if fast else max(self._slice // 2, 1)
        return count

    @property
    def elapsed(self) -> int:
        """Cycles simulated so far, including resets and register accesses."""
        return int(self._library.matloom_cycles(self._handle))

    @property
    def stray_accesses(self) -> int:
        """Number of beats that the chip wrote outside the external memory."""
        return int(self._library.matloom_stray_accesses(self._handle))

    def start_digest(self) -> None:
        """Start a digest of the chip's ports, from the next cycle."""
        self._library.matloom_digest(self._handle)

    @property
    def digest(self) -> int:
        """64-bit digest of the values at both ports since `start_digest`.

        It covers handshakes and the interrupt in every cycle, payloads when they are valid, and
        data bytes when their strobes are set.
        """
        return int(self._library.matloom_digested(self._handle))

    def reset(self) -> None:
        """Assert the chip's reset for some cycles; external memory keeps its contents."""
        self._library.matloom_reset(self._handle)
        self._raise_pending_errors()

    def close(self) -> None:
        """End the simulation and its waveforms; raise DeviceError if waveforms are lost."""
        handle, self._simulation = self._simulation, None
        try:
            if handle and self._waves is not None:
                # What is left is written now, and may be lost.
                self._library.matloom_trace_end(handle)
                self._require_waves(handle)
        finally:
            self._end()


def _end(library: ctypes.CDLL, simulation: int, memory: NDArray[np.uint8], process: int) -> None:
    """End a simulation in the process that began it; a forked one lacks Verilator's threads."""
    if process == os.getpid():
        library.matloom_trace_end(simulation)
        library.matloom_destroy(simulation)
    # It must live until here, as the chip uses it.
    del memory
