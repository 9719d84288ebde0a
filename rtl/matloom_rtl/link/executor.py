"""Executor of requests: executes each request once, and replies to it."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.link import CRC_BYTES, WINDOW_REQUESTS, Request, Status
from matloom_rtl.link.decoder import FrameByte

__all__ = ["TIMEOUT_CYCLES", "Executor", "RequestHeader"]

#: Cycles after which an access without a response is abandoned.
TIMEOUT_CYCLES = 1 << 16
_HEADER_BYTES = 8
_STATUS_BITS = 3

#: Index of the word in a hello reply that says whether the hello has begun the session.
_FRESH_WORD = 5


class RequestHeader(data.Struct):
    """Header of a request, in the order of `matloom.arch.link.REQUEST_HEADER`."""

    kind: unsigned(4)
    attempt: unsigned(4)
    sequence: unsigned(8)
    length: unsigned(16)
    address: unsigned(32)


class Executor(wiring.Component):
    """Execute requests in sequence: access registers and memory, and generate replies.

    See docs/link.md for sequence numbers and status codes. The status of a write is stored under
    the low bits of its sequence number, and is sent again if the write is repeated.

    Latency: the header of a reply is shown two cycles after the last byte of its request.
    Throughput: one byte per cycle, plus 3 cycles and the access time for each word written, 5 for
    each word read. Stalls: `i` waits while a request is executed; `o` is held until taken. An
    access that ends with an error, or that gets no response within `TIMEOUT_CYCLES`, is the last of
    its request: further words read are undefined, and further words are not written.

    Members
    -------
    i: stream of FrameByte, in
        Complete requests with their checksums; a single byte with `last` is a damaged request.
    o: stream of FrameByte, out
        Replies, without synchronising byte and checksum.
    irq: in
        Interrupt for which the request WAIT waits.
    start, write, memory, address, data, strobe: out; idle, done, failed, value: in
        As in `Accesses`.

    Parameters
    ----------
    hello:
        Words of the reply to a hello; the sixth is replaced (`_FRESH_WORD`).
    """

    def __init__(self, hello: list[int]):
        self._hello = hello
        super().__init__(
            {
                "i": In(stream.Signature(FrameByte)),
                "o": Out(stream.Signature(FrameByte)),
                "irq": In(1),
                **dict.fromkeys(("start", "write", "memory"), Out(1)),
                "address": Out(32),
                "data": Out(32),
                "strobe": Out(4),
                **dict.fromkeys(("idle", "done", "failed"), In(1)),
                "value": In(32),
            }
        )
        self._header = Signal(RequestHeader)
        #: The current word, its byte enables, and the position of its next byte.
        self._word = Signal(32)
        self._strobe = Signal(4)
        self._lane = Signal(2)
        self._status = Signal(_STATUS_BITS)
        self._count = Signal(range(_HEADER_BYTES))
        self._timer = Signal(range(TIMEOUT_CYCLES))
        self._index = Signal(range(16))
        #: Whether the request is executed for the first time, not repeated.
        self._first = Signal()
        self._fresh = Signal()

    def elaborate(self, platform):
        m = Module()
        kind = self._header.kind
        m.d.comb += [
            self.write.eq(kind[0]),
            self.memory.eq(kind[1]),
            self.address.eq(self._header.address),
            self.data.eq(self._word),
            self.strobe.eq(self._strobe),
        ]
        m.d.sync += self._timer.eq(0)
        kept = self._store_status(m)
        with m.FSM():
            self._take_header(m)
            self._decide(m, kept)
            self._take_data(m)
            self._access(m)
            self._drain(m)
            self._reply(m)
            self._fetch(m)
        return m

    def _store_status(self, m: Module):
        """Store the status of each first execution; return the one stored for the request."""
        m.submodules.kept = kept = memory.Memory(shape=_STATUS_BITS, depth=WINDOW_REQUESTS, init=[])
        read, write = kept.read_port(domain="comb"), kept.write_port()
        m.d.comb += [
            read.addr.eq(self._header.sequence),
            write.addr.eq(self._header.sequence),
            write.data.eq(self._status),
            write.en.eq(self._first & self.o.valid & self.o.ready & self.o.payload.last),
        ]
        return read.data

    def _take_header(self, m: Module):
        """Add the state that collects the header of a request."""
        header, byte = self._header.as_value(), self.i.payload
        with m.State("Header"):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += [self._first.eq(0), self._index.eq(0), self._strobe.eq(0)]
            with m.If(self.i.valid):
                m.d.sync += [header.eq(Cat(header[8:], byte.data)), self._count.eq(self._count + 1)]
                with m.If(byte.last):
                    m.d.sync += self._count.eq(0)
                    self._refuse(m, Status.BAD_FRAME)
                    m.next = "Reply"
                with m.Elif(self._count == _HEADER_BYTES - 1):
                    m.next = "Decide"

    def _refuse(self, m: Module, status):
        """Reply with an error status, and no data."""
        m.d.sync += [self._status.eq(status), self._header.length.eq(0)]

    def _decide(self, m: Module, kept):
        """Decide if the request is due, repeated (its status is `kept`) or too early."""
        header, kind = self._header, self._header.kind
        session = Signal()
        due = Signal(8)
        age = Signal(8)
        bad = Signal()
        boundary = Cat(header.address[:2], header.length[:2])
        m.d.comb += [
            age.eq(due - header.sequence),
            bad.eq(kind[3] | (kind[2] & (kind[0] | ~kind[1])) | ((kind[1:] == 0) & boundary.any())),
        ]
        with m.State("Decide"):
            m.d.sync += [self._status.eq(Status.OKAY), self._lane.eq(header.address)]
            m.next = "Drain"
            with m.If(kind == Request.HELLO):
                m.d.sync += [session.eq(1), due.eq(header.sequence + 1), self._lane.eq(0)]
                with m.If(~session | (age != 1)):
                    m.d.sync += self._fresh.eq(~session)
            with m.Elif(~session):
                self._refuse(m, Status.NO_SESSION)
            with m.Elif(age > WINDOW_REQUESTS):
                self._refuse(m, Status.SEQUENCE)
            with m.Elif(kind[0] & (age != 0)):
                self._refuse(m, kept)
            with m.Else():
                m.d.sync += self._first.eq(age == 0)
                with m.If(age == 0):
                    m.d.sync += due.eq(due + 1)
                with m.If(bad):
                    self._refuse(m, Status.BAD_REQUEST)
                with m.Elif(kind[0]):
                    m.next = "Data"
                with m.Elif(kind[2]):
                    m.d.sync += self._lane.eq(0)

    def _take_data(self, m: Module):
        """Collect words; a partial last word is shifted until its bytes are in position."""
        word, strobe, lane = self._word, self._strobe, self._lane
        with m.State("Data"):
            with m.If(self._header.length == 0):
                m.next = "Drain"
            with m.Else():
                m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [word.eq(Cat(word[8:], self.i.payload.data)), lane.eq(lane + 1)]
                m.d.sync += strobe.eq(Cat(strobe[1:], Const(1, 1)))
                m.d.sync += self._header.length.eq(self._header.length - 1)
                with m.If(self.i.payload.last):
                    self._refuse(m, Status.BAD_REQUEST)
                    m.next = "Reply"
                with m.Elif(lane == 3):
                    m.next = "Ask"
                with m.Elif(self._header.length == 1):
                    m.next = "Align"
        with m.State("Align"):
            m.d.sync += [word.eq(word >> 8), strobe.eq(strobe >> 1), lane.eq(lane + 1)]
            with m.If(lane == 3):
                m.next = "Ask"

    def _access(self, m: Module):
        """Access a word, unless an earlier one of the request failed."""
        okay, late = self._status == Status.OKAY, self._timer == TIMEOUT_CYCLES - 1
        with m.State("Ask"):
            m.d.sync += self._timer.eq(self._timer + 1)
            m.d.comb += self.start.eq(okay)
            with m.If(~okay):
                self._finish_word(m)
            with m.Elif(self.idle):
                m.next = "Answer"
            with m.Elif(late):
                m.d.sync += self._status.eq(Status.TIMEOUT)
                self._finish_word(m)
        with m.State("Answer"):
            m.d.sync += [self._timer.eq(self._timer + 1), self._word.eq(self.value)]
            with m.If(self.done):
                m.d.sync += self._status.eq(Mux(self.failed, Status.BUS_ERROR, Status.OKAY))
                self._finish_word(m)
            with m.Elif(late):
                m.d.sync += self._status.eq(Status.TIMEOUT)
                self._finish_word(m)

    def _finish_word(self, m: Module):
        """Continue with the next word of a write, or with the bytes of the word read."""
        words = self._header.address[2:]
        m.d.sync += [self._strobe.eq(0), words.eq(words + 1)]
        with m.If(self._header.kind[0]):
            m.next = "Data"
        with m.Else():
            m.next = "Seek"

    def _drain(self, m: Module):
        """Skip the checksum at the end of a request; then wait for an interrupt, if requested."""
        header = self._header
        with m.State("Drain"):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += self._word.eq(0)
            with m.If(self.i.valid):
                with m.If(self._count != _HEADER_BYTES - 1):
                    m.d.sync += self._count.eq(self._count + 1)
                with m.If(self.i.payload.last):
                    m.d.sync += self._count.eq(0)
                    m.next = "Wait"
                    with m.If(
                        self._first & (self._status == Status.OKAY) & (self._count != CRC_BYTES - 1)
                    ):
                        self._refuse(m, Status.BAD_REQUEST)
        with m.State("Wait"):
            waits = (header.kind == Request.WAIT) & (self._status == Status.OKAY)
            with m.If(waits & ~self.irq & (self._word != header.address)):
                m.d.sync += self._word.eq(self._word + 1)
            with m.Else():
                m.next = "Reply"

    def _reply(self, m: Module):
        """Send the start and the end of a reply: four bytes of the header, and the status."""
        header, taken = self._header.as_value()[:32], self.o.ready
        with m.State("Reply"):
            m.d.comb += [self.o.valid.eq(1), self.o.payload.data.eq(header[:8])]
            with m.If(taken):
                m.d.sync += [header.eq(header.rotate_right(8)), self._count.eq(self._count + 1)]
                with m.If(self._count == 3):
                    m.d.sync += self._count.eq(0)
                    m.next = "Fetch"
        with m.State("Status"):
            m.d.comb += [self.o.valid.eq(1), self.o.payload.data.eq(self._status)]
            m.d.comb += self.o.payload.last.eq(1)
            with m.If(taken):
                m.next = "Header"

    def _fetch(self, m: Module):
        """Add the states that get the words of a reply one by one and send their bytes."""
        kind, word = self._header.kind, self._word
        with m.State("Fetch"):
            m.next = "Ask"
            with m.If(self._header.length == 0):
                m.next = "Status"
            with m.Elif(kind[2]):
                m.next = "Seek"
            with m.If(~kind[1] & kind[2]):
                m.d.sync += [word.eq(self._hello_word()), self._index.eq(self._index + 1)]
        with m.State("Seek"):
            with m.If(self._count == self._lane):
                m.d.sync += self._count.eq(0)
                m.next = "Send"
            with m.Else():
                m.d.sync += [word.eq(word >> 8), self._count.eq(self._count + 1)]
        with m.State("Send"):
            m.d.comb += [self.o.valid.eq(1), self.o.payload.data.eq(word[:8])]
            with m.If(self.o.ready):
                m.d.sync += [word.eq(word >> 8), self._lane.eq(self._lane + 1)]
                m.d.sync += self._header.length.eq(self._header.length - 1)
                with m.If((self._lane == 3) | (self._header.length == 1)):
                    m.next = "Fetch"

    def _hello_word(self):
        """Return the word of the HELLO reply at the current index; 0 after the last."""
        words = [Const(word, 32) for word in self._hello]
        words[_FRESH_WORD] = self._fresh
        return Array(words + [Const(0, 32)] * (16 - len(words)))[self._index]
