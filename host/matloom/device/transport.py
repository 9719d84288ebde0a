"""Interfaces of transports: four calls that every device offers, and optional ones."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable


def never() -> bool:
    """Return False; this is the default of `stopped`."""
    return False


class Transport(Protocol):
    """Registers and external memory of a device.

    `memory_base` is the bus address of the external memory that programs may use, `memory_bytes`
    its size.
    """

    memory_base: int
    memory_bytes: int

    def read32(self, address: int) -> int:
        """Return the value of the register at a byte offset."""

    def write32(self, address: int, value: int) -> None:
        """Write the register at a byte offset."""

    def read_block(self, address: int, size: int) -> bytes:
        """Return `size` bytes of external memory from a bus address on."""

    def write_block(self, address: int, data: bytes) -> None:
        """Write bytes to external memory from a bus address on."""


@runtime_checkable
class Interruptible(Protocol):
    """A transport that can sleep until the interrupt, instead of polling."""

    def wait_interrupt(self, cycles: int) -> int:
        """Wait for the interrupt, at most about `cycles` cycles; return the cycles that passed.

        A transport that cannot count cycles returns 0 and may wait for less.
        """


@runtime_checkable
class Stoppable(Protocol):
    """A transport whose long calls can be stopped from another thread.

    Such calls check `stopped` several times a second, and end soon after it returns True, by
    returning early or with `DeviceClosedError`.
    """

    stopped: Callable[[], bool]


@runtime_checkable
class Batching(Protocol):
    """A transport, such as a link, on which several register accesses cost little more than one."""

    def read_registers(self, address: int, count: int) -> list[int]:
        """Return the values of up to 256 consecutive registers from a byte offset on."""

    def write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        """Write registers, given as pairs of byte offset and value, in order."""
