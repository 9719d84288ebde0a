"""The driver's calls over a host link (docs/link.md)."""

from collections.abc import Callable, Sequence

from matloom.arch.link import LINK_IDENTITY, MAX_DATA_BYTES, Request
from matloom.arch.memory import BOARD_MEMORIES, MEMORIES
from matloom.device.errors import DeviceError
from matloom.device.line_cost import LineCost
from matloom.device.link import Link
from matloom.device.window import LinkRequest


class LinkTransport:
    """Transport over a host link; the device itself waits for the interrupt.

    Members
    -------
    hello:
        Identity of the device.
    external_memory:
        External memory of the device, by the name of its board; None for unknown boards.

    Raises
    ------
    DeviceError
        The device has another version of the link, reports an impossible clock, or does not answer.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self.hello = link.hello()
        if self.hello.identity != LINK_IDENTITY:
            raise DeviceError(
                f"the device at {link.stream.name} speaks another version of the link: "
                f"{self.hello.identity:#010x}, not {LINK_IDENTITY:#010x}",
                hint="build its bitstream with this version of Matloom",
            )
        if not self.hello.clock_hz:
            raise DeviceError(
                f"the device at {link.stream.name} reports a clock of 0 Hz",
                hint="build its bitstream with this version of Matloom",
            )
        self.memory_base = self.hello.memory_base
        self.memory_bytes = self.hello.memory_bytes
        self.external_memory = MEMORIES.get(BOARD_MEMORIES.get(self.hello.board, ""))

    @property
    def stopped(self) -> Callable[[], bool]:
        """Function that returns whether long calls must end (`transport.Stoppable`)."""
        return self._link.stopped

    @stopped.setter
    def stopped(self, stopped: Callable[[], bool]) -> None:
        """Set the function that returns whether long calls must end."""
        self._link.stopped = stopped

    @property
    def line_cost(self) -> LineCost:
        """Cost of all calls on the line so far, including the first hello."""
        return self._link.cost

    def read32(self, address: int) -> int:
        """Return the value of the register at a byte offset."""
        return self.read_registers(address, 1)[0]

    def write32(self, address: int, value: int) -> None:
        """Write the register at a byte offset."""
        self.write_registers([(address, value)])

    def read_registers(self, address: int, count: int) -> list[int]:
        """Return the values of up to 256 consecutive registers from a byte offset on.

        A single request reads them all.
        """
        requests = [LinkRequest(length=4 * count, address=address)]
        data = self._link.exchange(Request.READ_REGISTERS, requests)[0]
        return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]

    def write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        """Write registers, given as pairs of byte offset and value, in order."""
        requests = [
            LinkRequest(length=4, address=address, data=value.to_bytes(4, "little"))
            for address, value in writes
        ]
        self._link.exchange(Request.WRITE_REGISTERS, requests)

    def read_block(self, address: int, size: int) -> bytes:
        """Return `size` bytes of external memory from a bus address on."""
        self._require_inside(address, size)
        requests = [
            LinkRequest(length=min(MAX_DATA_BYTES, size - start), address=address + start)
            for start in range(0, size, MAX_DATA_BYTES)
        ]
        return b"".join(self._link.exchange(Request.READ_MEMORY, requests))

    def write_block(self, address: int, data: bytes) -> None:
        """Write bytes to external memory from a bus address on."""
        self._require_inside(address, len(data))
        requests = []
        for start in range(0, len(data), MAX_DATA_BYTES):
            part = bytes(data[start : start + MAX_DATA_BYTES])
            requests.append(LinkRequest(length=len(part), address=address + start, data=part))
        self._link.exchange(Request.WRITE_MEMORY, requests)

    def _require_inside(self, address: int, size: int) -> None:
        """Raise `DeviceError` for addresses outside external memory."""
        if not 0 <= address - self.memory_base <= self.memory_bytes - size:
            raise DeviceError(
                f"{size} bytes at {address:#x} are outside external memory, which has "
                f"{self.memory_bytes} bytes at {self.memory_base:#x}",
                hint="take a board with more memory, or a smaller network",
            )

    def wait_interrupt(self, cycles: int) -> int:
        """Wait for the interrupt, at most `cycles` cycles; return the cycles that passed."""
        requests = [LinkRequest(length=4, address=cycles)]
        seconds = cycles / self.hello.clock_hz
        return int.from_bytes(self._link.exchange(Request.WAIT, requests, seconds)[0], "little")

    def close(self) -> None:
        """Release the line."""
        self._link.close()
