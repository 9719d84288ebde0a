"""Decoder of requests from the bytes of the line: unstuffs, checks and stores them."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.link import BUFFER_BYTES, CRC_BYTES, DELIMITER, REQUEST_HEADER_BYTES
from matloom_rtl.link.checksum import Checksum

__all__ = ["Decoder", "FrameByte"]

_SHORTEST = REQUEST_HEADER_BYTES + CRC_BYTES

#: Code of a group that is not followed by a zero.
_FULL = 255


class FrameByte(data.Struct):
    """A byte of a frame, and whether it is its last."""

    data: unsigned(8)
    last: unsigned(1)


class Decoder(wiring.Component):
    """Decode requests: undo byte stuffing, check, and buffer; a damaged request becomes one byte.

    A request is written into the buffer as it arrives and delivered once its checksum, its last
    four bytes, proves right. Otherwise it is discarded and replaced by a single byte with `last`,
    which is no valid request. Delivered requests include their checksum.

    After a reset, bytes up to the first delimiter are dropped, as they may be the rest of a
    request. A request that overflows the buffer is treated as damaged; if even its replacement does
    not fit, it vanishes.

    Latency: three cycles from a request's delimiter to its first byte. Throughput: one byte in
    three cycles; the line needs at least 20. Stalls: never stalls the line; `o` is held until
    taken.

    Members
    -------
    data, valid: in
        Bytes from the line, at least `CYCLES_PER_BYTE` apart.
    o: stream of FrameByte, out
        Requests.

    Parameters
    ----------
    buffer_bytes:
        Size of the buffer, a power of two; it holds one byte less.
    """

    def __init__(self, buffer_bytes: int = BUFFER_BYTES):
        self._depth = buffer_bytes
        super().__init__({"data": In(8), "valid": In(1), "o": Out(stream.Signature(FrameByte))})

    def elaborate(self, platform):
        """Return the module: a buffer, its writer with the checksum, and its reader."""
        m = Module()
        m.submodules.checksum = checksum = Checksum()
        m.submodules.buffer = buffer = memory.Memory(shape=9, depth=self._depth, init=[])
        # Positions at which the next byte is written, the next request begins, the next byte is
        # read.
        write, begin, read = (Signal(range(self._depth), name=n) for n in ("w", "b", "r"))
        self._accept_bytes(m, buffer.write_port(), checksum, (write, begin, read))
        self._emit_bytes(m, buffer.read_port(), begin, read)
        return m

    def _accept_bytes(self, m: Module, port, checksum, places):
        """Undo the byte stuffing of requests, store them, and discard those that are damaged."""
        write, begin, read = places
        deaf = Signal(init=1)
        bad = Signal()
        started = Signal()
        left = Signal(8)
        full = Signal()
        held = Signal(8)
        holds = Signal()
        count = Signal(range(_SHORTEST + 1))
        delimiter = Signal()
        code = Signal()
        emits = Signal()
        byte = Signal(8)
        good = Signal()
        room = Signal()
        stored = Signal()
        after = Signal.like(write)
        rejected = Signal()
        # Computed before the byte that needs it: write positions change with bytes only, which are
        # far apart, and the read position only frees room.
        after_write, after_begin = (Signal.like(write, name=f"after_{n}", init=1) for n in "wb")
        room_write, room_begin = (Signal(name=f"room_{n}", init=1) for n in "wb")
        m.d.sync += [
            after_write.eq(write + 1),
            after_begin.eq(begin + 1),
            room_write.eq(after_write != read),
            room_begin.eq(after_begin != read),
        ]
        m.d.comb += [
            delimiter.eq(self.valid & (self.data == DELIMITER)),
            code.eq(self.valid & ~delimiter & (left == 0)),
            # A group other than the first is preceded by the zero that the group before implied.
            emits.eq(Mux(left == 0, code & started & ~full, self.valid & ~delimiter)),
            byte.eq(Mux(left == 0, 0, self.data)),
            checksum.data.eq(byte),
            checksum.valid.eq(emits),
            checksum.clear.eq(delimiter),
            good.eq(checksum.good & ~bad & (left == 0) & (count == _SHORTEST)),
            rejected.eq(delimiter & ~good),
            after.eq(Mux(rejected, after_begin, after_write)),
            room.eq(Mux(rejected, room_begin, room_write)),
            # A byte is stored when the next one arrives, which shows that it is not the last.
            stored.eq(emits & holds & ~bad),
            port.addr.eq(Mux(rejected, begin, write)),
            port.data.eq(Cat(held, delimiter)),
            port.en.eq(room & (stored | (delimiter & started & ~deaf))),
        ]
        with m.If(code):
            m.d.sync += [left.eq(self.data - 1), full.eq(self.data == _FULL), started.eq(1)]
        with m.Elif(emits):
            m.d.sync += left.eq(left - 1)
        with m.If(emits):
            m.d.sync += [held.eq(byte), holds.eq(1)]
            with m.If(count != _SHORTEST):
                m.d.sync += count.eq(count + 1)
        with m.If(stored):
            m.d.sync += [write.eq(Mux(room_write, after_write, write)), bad.eq(~room_write)]
        with m.If(delimiter):
            m.d.sync += [deaf.eq(0), bad.eq(0), started.eq(0), left.eq(0), full.eq(0)]
            m.d.sync += [holds.eq(0), count.eq(0), write.eq(begin)]
            with m.If(port.en):
                m.d.sync += [write.eq(after), begin.eq(after)]

    def _emit_bytes(self, m: Module, port, begin, read):
        """Deliver the bytes of complete requests from the buffer."""
        fetched = Signal()
        m.d.comb += [
            port.addr.eq(read),
            port.en.eq((read != begin) & ~fetched & ~self.o.valid),
        ]
        # A register after the memory, whose output is late in the cycle and stays until the next
        # fetch: it can be merged into the block RAM.
        m.d.sync += [fetched.eq(port.en), self.o.payload.eq(port.data)]
        with m.If(port.en):
            m.d.sync += read.eq(read + 1)
        with m.If(fetched):
            m.d.sync += self.o.valid.eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
