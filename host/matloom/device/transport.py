"""The four calls that every device offers."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

__all__ = ["Batching", "Interruptible", "Stoppable", "Transport", "never"]


def never() -> bool:
    """Return False: what is `stopped` where nobody stops anything."""
    return False


class Transport(Protocol):
    """Registers and external memory of a device.

    `memory_base` is the bus address of the first byte of external memory that programs may use,
    `memory_bytes` how many there are.
    """

    memory_base: int
    memory_bytes: int

    def read32(self, address: int) -> int:
        """Return the register at a byte offset."""

    def write32(self, address: int, value: int) -> None:
        """Write the register at a byte offset."""

    def read_block(self, address: int, size: int) -> bytes:
        """Return bytes of external memory from a bus address on."""

    def write_block(self, address: int, data: bytes) -> None:
        """Write bytes of external memory from a bus address on."""


@runtime_checkable
class Interruptible(Protocol):
    """A transport that can sleep until the interrupt, instead of being asked again and again."""

    def wait_interrupt(self, cycles: int) -> int:
        """Return after the interrupt rose or `cycles` cycles passed, with the cycles that did."""


@runtime_checkable
class Stoppable(Protocol):
    """A transport whose long calls can be ended from another thread.

    They ask `stopped` several times a second, and end soon after it says True: by returning early,
    or with `DeviceClosedError`.
    """

    stopped: Callable[[], bool]


@runtime_checkable
class Batching(Protocol):
    """A transport to which several accesses to registers cost little more than one: a link."""

    def read_registers(self, address: int, count: int) -> list[int]:
        """Return registers from a byte offset on, 256 at most."""

    def write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        """Write registers, byte offset and value of each, in this order."""
