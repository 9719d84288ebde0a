"""External memory at the chip's AXI port, with optional stalls, reordering and errors."""

from collections import deque

from cocotb.triggers import ClockCycles, Event
from cocotbext.axi import AxiBus, AxiResp
from cocotbext.axi.axi_slave import AxiSlaveRead, AxiSlaveWrite


class _Reads(AxiSlaveRead):
    """Answers beat by beat; bursts with different ids interleave, as AXI4 allows."""

    async def _process_read(self):
        """Answer reads beat by beat, each for a random one of the IDs with bursts."""
        pending = {}
        memory = self.target
        while True:
            if not pending:
                self._accept(pending, await self.ar_channel.recv())
            while not self.ar_channel.empty():
                self._accept(pending, self.ar_channel.recv_nowait())
            number = memory.random.choice(sorted(pending))
            address, last = pending[number].popleft()
            if not pending[number]:
                del pending[number]
            data, response = await memory.read_beat(address)
            beat = self.r_channel._transaction_obj(
                rid=number, rdata=int.from_bytes(data, "little"), rresp=response, rlast=last
            )
            await self.r_channel.send(beat)

    def _accept(self, pending, request):
        """Append the beats of a burst, (address, is last), to those of its ID in `pending`."""
        width = self.byte_lanes
        first = int(request.araddr) // width * width
        beats = int(request.arlen) + 1
        pending.setdefault(int(request.arid), deque()).extend(
            (first + index * width, index == beats - 1) for index in range(beats)
        )


class ExternalMemory:
    """Memory from bus address `base` on.

    Members
    -------
    content:
        The bytes.
    readable, writable:
        (first, end) bus addresses that the chip may access; beats elsewhere go to `stray`. A read
        beat counts as inside if any of its bytes is.
    errors, silent:
        Ranges that answer with an error, or not at all until `speak`.
    parts, channels:
        The models of cocotbext-axi: the two directions, and the five channels by name.
    stray:
        Forbidden accesses of the chip, described.
    """

    def __init__(self, dut, config, random, base, size):
        self.base, self.random = base, random
        self.content = bytearray(random.randbytes(size))
        self.readable, self.writable, self.errors, self.silent = [], [], [], []
        self.stray = []
        self._voice = Event()
        self._clock, self._width = dut.clk, config.bus_bytes
        self._laziness = random.choice((0, 0.02, 0.1, 0.3))
        self._latency = random.choice((3, 30, 100))
        bus = AxiBus.from_prefix(dut, "m_axi")
        self._reads = _Reads(bus.read, dut.clk, dut.rst, target=self)
        self._writes = AxiSlaveWrite(bus.write, dut.clk, dut.rst, target=self)
        self.parts = (self._reads, self._writes)
        # As many as a real controller would take; the chip itself limits them.
        self._reads.ar_channel.queue_occupancy_limit = random.choice((1, 2, 16))
        self._writes.aw_channel.queue_occupancy_limit = random.choice((1, 2, 16))
        self.channels = {
            "ar": self._reads.ar_channel,
            "r": self._reads.r_channel,
            "aw": self._writes.aw_channel,
            "w": self._writes.w_channel,
            "b": self._writes.b_channel,
        }

    def speak(self):
        """Let address ranges answer again that were silent."""
        self.silent = []
        self._voice.set()
        self._voice.clear()

    async def _pace(self, address):
        """Wait while the address is silent, then now and then for a random latency."""
        while _within(self.silent, address, address + self._width):
            await self._voice.wait()
        if self.random.random() < self._laziness:
            await ClockCycles(self._clock, self.random.randint(1, self._latency))

    async def read_beat(self, address):
        """Return bytes and response of one beat."""
        await self._pace(address)
        end = address + self._width
        if not _within(self.readable, address, end):
            self.stray.append(f"a read of {address:#x}")
        if _within(self.errors, address, end):
            noise = self.random.randbytes(self._width)
            return noise, self.random.choice((AxiResp.SLVERR, AxiResp.DECERR))
        offset = address - self.base
        data = self.content[offset : offset + self._width] if offset >= 0 else b""
        return bytes(data).ljust(self._width, b"\0"), AxiResp.OKAY

    async def write(self, address, data):
        """Write the strobed bytes of a beat; an exception becomes an error response."""
        await self._pace(address)
        end = address + len(data)
        if not any(first <= address and end <= limit for first, limit in self.writable):
            self.stray.append(f"a write of {len(data)} bytes to {address:#x}")
            raise OSError
        if _within(self.errors, address, end):
            raise OSError
        offset = address - self.base
        self.content[offset : offset + len(data)] = data


def _within(ranges, first, end):
    """Return whether any of the ranges overlaps the bytes from `first` to before `end`."""
    return any(start < end and first < limit for start, limit in ranges)
