"""A line to a device of the host link, and its traffic, for tests of either end."""

import random
from collections import deque
from typing import Protocol

from matloom.arch.link import Request
from matloom.device.link_transport import LinkTransport
from support.noisy_line import Noise

__all__ = ["NOISES", "Device", "Line", "PacedLine", "Target", "campaign"]

#: Bits per second.
_BAUD = 1_000_000

#: Lines, by name: the probabilities of `Noise`.
NOISES: dict[str, dict[str, float]] = {
    "quiet": {},
    "changed": {"changed": 1e-3},
    "dropped": {"dropped": 1e-3},
    "repeated": {"repeated": 1e-3},
    "all": {"changed": 4e-4, "dropped": 3e-4, "repeated": 3e-4},
}


class Device(Protocol):
    """Device at the end of a line."""

    def feed(self, data: bytes) -> bytes:
        """Process bytes from the line; return the answer."""


class Target:
    """Two kilobytes of registers and sixteen of memory."""

    memory_base, memory_bytes = 0x1000, 0x4000

    def __init__(self) -> None:
        self.registers: dict[int, int] = {}
        self.memory = bytearray(self.memory_bytes)

    def read32(self, address: int) -> int:
        """Return a register; raise `OSError` if it does not exist."""
        if address >= 0x800:
            raise OSError("no register")
        return self.registers.get(address, 0)

    def write32(self, address: int, value: int) -> None:
        """Set a register; raise `OSError` if it does not exist."""
        self.read32(address)
        self.registers[address] = value

    def read_block(self, address: int, size: int) -> bytes:
        """Return bytes; raise `OSError` unless all exist."""
        start = self._start(address, size)
        return bytes(self.memory[start : start + size])

    def write_block(self, address: int, data: bytes) -> None:
        """Set bytes; raise `OSError` unless all exist."""
        start = self._start(address, len(data))
        self.memory[start : start + len(data)] = data

    def _start(self, address: int, size: int) -> int:
        start = address - self.memory_base
        if not 0 <= start <= self.memory_bytes - size:
            raise OSError("no memory")
        return start

    def wait_interrupt(self, cycles: int) -> int:
        """Return the cycles waited: none, once the registers have had an interrupt."""
        return 0 if self.read32(0x10) & self.read32(0x14) else cycles


class Line:
    """A device at the end of a line, with a clock that the reader moves."""

    name, baud = "line", _BAUD

    def __init__(
        self, device: Device, there: Noise | None = None, back: Noise | None = None
    ) -> None:
        self.device, self.there, self.back = device, there or Noise(), back or Noise()
        self.time, self.waiting, self.sent = 0.0, bytearray(), 0
        self.closed = False

    def write(self, data: bytes) -> None:
        """Send bytes to the device, and keep its answer."""
        self.sent += len(data)
        self.waiting += self.back.pass_on(self.device.feed(self.there.pass_on(data)))

    def read(self, timeout: float) -> bytes:
        """Return received bytes, in pieces."""
        if not self.waiting:
            self.time += timeout
            return b""
        size = 1 + len(self.waiting) // 2
        data = bytes(self.waiting[:size])
        del self.waiting[:size]
        self.time += size * 10 / self.baud
        return data

    def now(self) -> float:
        """Return the time in seconds."""
        return self.time

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


class PacedLine(Line):
    """A line that takes its time for each byte of an answer, also while nobody reads."""

    def __init__(
        self, device: Device, there: Noise | None = None, back: Noise | None = None
    ) -> None:
        super().__init__(device, there, back)
        self._arrivals: deque[float] = deque()
        self._free = 0.0

    def write(self, data: bytes) -> None:
        """Send bytes to the device; its answer follows the earlier ones."""
        super().write(data)
        self._free = max(self._free, self.time)
        while len(self._arrivals) < len(self.waiting):
            self._free += 10 / self.baud
            self._arrivals.append(self._free)

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived, after waiting for the first of them."""
        end = self.time + timeout
        self.time = min(max(self.time, self._arrivals[0]), end) if self._arrivals else end
        data = bytearray()
        while self._arrivals and self._arrivals[0] <= self.time:
            self._arrivals.popleft()
            data.append(self.waiting.pop(0))
        return bytes(data)


def campaign(
    transport: LinkTransport, target: Target, rounds: int, seed: int
) -> list[tuple[Request, int, bytes]]:
    """Write, read back, set registers; return the expected writes, in order."""
    chooser = random.Random(seed)
    expected: list[tuple[Request, int, bytes]] = []
    shadow = bytearray(target.memory)
    for count in range(rounds):
        start = chooser.randrange(0x3800)
        data = chooser.randbytes(chooser.randrange(1, 0x700))
        transport.write_block(0x1000 + start, data)
        shadow[start : start + len(data)] = data
        for place in range(0, len(data), 1024):
            part = data[place : place + 1024]
            expected.append((Request.WRITE_MEMORY, 0x1000 + start + place, part))
        transport.write32(8, count)
        expected.append((Request.WRITE_REGISTERS, 8, count.to_bytes(4, "little")))
        first = chooser.randrange(0x3800)
        assert transport.read_block(0x1000 + first, 0x600) == shadow[first : first + 0x600]
        assert transport.read32(8) == count
    return expected
