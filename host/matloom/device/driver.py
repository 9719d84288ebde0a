"""The driver, which runs command buffers on an engine and reads its faults and counters."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from matloom.arch.config import Config
from matloom.arch.config_name import describe_config, digest_name
from matloom.arch.csr import COUNTERS, IDENTITY, TIMESTAMPS_OFFSET, Fault, register
from matloom.arch.isa import Region
from matloom.device.closing import Closable, exclusive
from matloom.device.errors import UNIT_NAMES, DeviceError, DeviceFaultError, DeviceTimeoutError
from matloom.device.transport import Batching, Interruptible, Transport

#: Alignment of regions: enough for the widest bus, and for bursts, which must not cross 4 KiB.
_ALIGNMENT = 4096

_START, _RESET = 1, 2
_BUSY, _DONE, _FAULT, _RESETTING = 1, 2, 4, 8


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Cost of a run: counters by name, and completion cycles by slot of the timestamp table.

    `timestamps` has only the slots that the run wrote.
    """

    values: dict[str, int]
    timestamps: dict[int, int]

    @property
    def cycles(self) -> int:
        """Cycles from start to done."""
        return self.values["cycles"]


class Owner(Protocol):
    """Object with data in the regions of external memory, to be saved before these are reused."""

    def save_regions(self) -> None:
        """Copy data from the regions to the host, because the regions will be overwritten."""


class Driver(Closable):
    """One engine, reached through a transport.

    Opening checks identity, interface version and configuration digest. If a run did not finish
    because of a fault, a limit or an interruption, the next use resets the engine.

    Members
    -------
    lock:
        Held during each call, so that threads may share a device; hold it to make several calls
        without interference.

    Parameters
    ----------
    transport:
        The connection to the engine; if it is `Interruptible`, waits sleep until the interrupt.
    config:
        The configuration that the device must have been built with.
    timeout:
        Seconds that a run may take.
    timeout_cycles:
        Cycles that a run may take, if the transport counts cycles.
    limit:
        Cycles that one instruction may take, below 2**32, if the configuration has `time_limit`;
        exceeding it ends the run with fault LIMIT. 0 for no limit.

    Raises
    ------
    DeviceError
        The device or its configuration is a different one, memory is too small, or the engine does
        not support a limit.
    DeviceClosedError
        The device was closed, before or during a call.
    DeviceFaultError
        The engine stopped with a fault.
    DeviceTimeoutError
        The run did not finish within the limits.
    """

    def __init__(
        self,
        transport: Transport,
        config: Config,
        timeout: float = 60.0,
        timeout_cycles: int = 100_000_000,
        limit: int = 0,
    ) -> None:
        super().__init__(transport)
        self.transport, self.config = transport, config
        self.timeout, self.timeout_cycles = timeout, timeout_cycles
        self._bases: dict[Region, int] = {}
        #: Owner of the regions in external memory; None if nobody has claimed them.
        self.owner: Owner | None = None
        #: Incremented by all that may change the scratchpad: runs, resets, and new regions.
        self.epoch = 0
        #: Whether a run was started and did not end without fault; the engine may still be running.
        self._unfinished = False
        identity = self.read("ID")
        if identity != IDENTITY:
            raise DeviceError(
                f"the device is not a Matloom engine of this version: its ID is {identity:#010x}, "
                f"not {IDENTITY:#010x}",
                hint="check its address, or program the device again",
            )
        digest = self.read("DIGEST")
        if digest != config.digest:
            name = describe_config(config)
            raise DeviceError(
                f"the device is of configuration {digest_name(digest)}, not {name}",
                hint="name that configuration (--config, config=), or program the device again",
            )
        self.set_limit(limit)

    @exclusive
    def set_limit(self, cycles: int) -> None:
        """Set the maximum number of cycles of one instruction, like the parameter `limit`.

        The register keeps its value through resets and for later users of the engine.
        """
        if not 0 <= cycles < 1 << 32:
            raise DeviceError(
                f"limit must be 0 to 2**32 - 1 cycles, not {cycles}",
                hint="give a number of cycles in this range",
            )
        if self.config.time_limit:
            self.write("LIMIT", cycles)
        elif cycles:
            raise DeviceError(
                f"limit must be 0 if the engine has no `time_limit`, not {cycles}",
                hint="leave limit out, or generate the engine with time_limit=1",
            )

    @exclusive
    def read(self, name: str) -> int:
        """Return the value of the register with an upper-case name."""
        return self.transport.read32(register(name).offset)

    @exclusive
    def write(self, name: str, value: int) -> None:
        """Write the register with an upper-case name."""
        self.transport.write32(register(name).offset, value)

    @exclusive
    def write_all(self, **values: int) -> None:
        """Write several registers, given by their upper-case names, in order."""
        writes = [(register(name).offset, value) for name, value in values.items()]
        if isinstance(self.transport, Batching):
            self.transport.write_registers(writes)
        else:
            for address, value in writes:
                self.transport.write32(address, value)

    @exclusive
    def reset(self) -> None:
        """Wait for bus transfers to end and reset every unit; this also clears the fault state."""
        self.epoch += 1
        self.write("CONTROL", _RESET)
        deadline = time.monotonic() + self.timeout
        while self.read("STATUS") & (_RESETTING | _BUSY | _FAULT):
            if time.monotonic() > deadline:
                raise DeviceTimeoutError(
                    f"a reset timed out after {self.timeout:g} s",
                    hint="the engine does not answer: power the board off and on",
                )
        self.write("IRQ_STATUS", 3)
        self._unfinished = False

    def _recover(self) -> None:
        """Reset the engine if the last run did not finish, since it might still write to memory."""
        if self._unfinished:
            self.reset()

    @exclusive
    def place_regions(self, region_bytes: Mapping[Region, int]) -> dict[Region, int]:
        """Place regions of these sizes in external memory; return the bus address of each.

        The owner of the previous regions saves its data first, and `owner` becomes None. Raises
        DeviceError if the regions do not fit.
        """
        self._recover()
        if self.owner is not None:
            self.owner.save_regions()
        self.owner = None
        self.epoch += 1
        address = self.transport.memory_base
        writes: dict[str, int] = {}
        for region in Region:
            size = region_bytes.get(region, 0)
            self._bases[region] = address
            writes |= {f"{region.name}_BASE": address, f"{region.name}_BYTES": size}
            address += -(-size // _ALIGNMENT) * _ALIGNMENT
        used = address - self.transport.memory_base
        if used > self.transport.memory_bytes:
            raise DeviceError(
                f"the program does not fit: it needs {used} bytes of external memory, and the "
                f"device has {self.transport.memory_bytes}",
                hint="take a smaller network or batch, or a board with more memory",
            )
        self.write_all(**writes)
        return dict(self._bases)

    @exclusive
    def write_region(self, region: Region, offset: int, data: bytes) -> None:
        """Write bytes to a region, from a byte offset on."""
        self._recover()
        self.transport.write_block(self._bases[region] + offset, data)

    @exclusive
    def read_region(self, region: Region, offset: int, size: int) -> bytes:
        """Return `size` bytes of a region, from a byte offset on."""
        return self.transport.read_block(self._bases[region] + offset, size)

    @exclusive
    def run(self, command_offset: int, command_bytes: int) -> Counters:
        """Run a command buffer in region PROGRAM until END; return its cost.

        Raises DeviceFaultError if the engine stops with a fault.
        """
        self._recover()
        self.epoch += 1
        self._unfinished = True
        self.write_all(
            COMMAND_OFFSET=command_offset,
            COMMAND_BYTES=command_bytes,
            IRQ_STATUS=3,
            IRQ_ENABLE=3,
            CONTROL=_START,
        )
        status = self._wait()
        if status & _FAULT:
            raise self.fault()
        self._unfinished = False
        return self.counters()

    def _wait(self) -> int:
        """Wait until the run is done or at fault; return the value of register STATUS."""
        deadline = time.monotonic() + self.timeout
        cycles = 0
        while True:
            if isinstance(self.transport, Interruptible):
                cycles += self.transport.wait_interrupt(1 << 20)
            self._require_open()
            status = self.read("STATUS")
            if status & (_DONE | _FAULT) and not status & _BUSY:
                return status
            if time.monotonic() > deadline or cycles > self.timeout_cycles:
                raise DeviceTimeoutError(
                    f"a run timed out after {self.timeout:g} s or {self.timeout_cycles} cycles; "
                    f"status {status:#x} after {cycles} cycles",
                    hint="allow it more time (timeout, timeout_cycles of open_device)",
                )

    @exclusive
    def fault(self) -> DeviceFaultError:
        """Return the engine's fault record as an exception, without raising it."""
        record = {item.name: item for item in register("FAULT").fields}
        value = self.read("FAULT")

        def field(name: str) -> int:
            """Return a field of register FAULT."""
            return (value & record[name].mask) >> record[name].shift

        return DeviceFaultError(
            cause=Fault(field("cause")),
            unit=UNIT_NAMES[field("unit")],
            opcode=field("opcode"),
            index=self.read("FAULT_INDEX"),
            address=self.read("FAULT_ADDRESS"),
        )

    @exclusive
    def counters(self) -> Counters:
        """Return the counters and timestamps of the last run."""
        cycles = self._read_from(TIMESTAMPS_OFFSET, self.config.timestamps)
        timestamps = {slot: cycle for slot, cycle in enumerate(cycles) if slot and cycle}
        names = [name for name, _doc in COUNTERS]
        values = self._read_from(register(names[0].upper()).offset, len(names))
        return Counters(values=dict(zip(names, values, strict=True)), timestamps=timestamps)

    def _read_from(self, address: int, count: int) -> list[int]:
        """Return the values of `count` consecutive registers, starting at a byte offset."""
        if isinstance(self.transport, Batching):
            return self.transport.read_registers(address, count) if count else []
        return [self.transport.read32(address + 4 * number) for number in range(count)]
