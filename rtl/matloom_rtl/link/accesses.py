"""Single 32-bit accesses to registers or external memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.bus.axi_lite import ADDRESS_BITS, AxiLiteSignature

__all__ = ["Accesses"]

_WORD_BYTES = 4


class Accesses(wiring.Component):
    """Read or write single words of the registers or of external memory.

    Each memory word is a burst of one beat: the line takes about 400 cycles for a word that memory
    delivers in 50, and other users of the memory wait for one beat at most. On a bus wider than a
    word, the word is repeated in every lane and the strobes select the right one.

    Latency: the bus request follows `start` by one cycle, and `done` follows the response by one.
    Stalls: an access without a response keeps `idle` low, and its address on the bus, as AXI
    requires.

    Members
    -------
    start: in
        Begin an access; only with `idle`. The inputs listed next are taken in the same cycle.
    write, memory, address, data, strobe: in
        Write instead of read, memory instead of registers, byte address (the low two bits are
        ignored), and for a write the word and its byte enables.
    idle: out
        No access is in progress.
    done: out
        For one cycle: the access has ended.
    failed: out
        For one cycle: the access has ended with an error, also for a register address outside the
        window.
    value: out
        With `done`: the word read.
    axi_lite: AxiLiteSignature, out
    axi_read, axi_write: AxiReadSignature, AxiWriteSignature, out
    """

    def __init__(self, bus_bits: int):
        self._bus_bits = bus_bits
        super().__init__(
            {
                "start": In(1),
                "write": In(1),
                "memory": In(1),
                "address": In(32),
                "data": In(32),
                "strobe": In(_WORD_BYTES),
                "idle": Out(1),
                "done": Out(1),
                "failed": Out(1),
                "value": Out(32),
                "axi_lite": Out(AxiLiteSignature()),
                "axi_read": Out(AxiReadSignature(bus_bits)),
                "axi_write": Out(AxiWriteSignature(bus_bits)),
            }
        )

    def elaborate(self, platform):
        """Return the module: requests on either bus, and the response that ends each."""
        m = Module()
        lite, read, write = self.axi_lite, self.axi_read, self.axi_write
        busy = Signal()
        memory = Signal()
        address = Signal(30)
        word = Signal(32)
        strobe = Signal(_WORD_BYTES)
        # Channels with a pending request.
        asks = Signal()
        names = Signal()
        brings = Signal()
        outside = Signal()
        m.d.comb += [
            self.idle.eq(~busy),
            lite.ar.valid.eq(asks & ~memory),
            lite.aw.valid.eq(names & ~memory),
            lite.w.valid.eq(brings & ~memory),
            read.ar.valid.eq(asks & memory),
            write.aw.valid.eq(names & memory),
            write.w.valid.eq(brings & memory),
        ]
        m.d.comb += [channel.ready.eq(1) for channel in (lite.r, lite.b, read.r, write.b)]
        self._payloads(m, address, word, strobe)
        taken = self._accepts(memory)
        m.d.sync += [asks.eq(asks & ~taken[0]), names.eq(names & ~taken[1])]
        m.d.sync += [brings.eq(brings & ~taken[2]), self.done.eq(0)]
        m.d.comb += outside.eq(~self.memory & (self.address[ADDRESS_BITS:] != 0))
        with m.If(self.start & self.idle):
            m.d.sync += [address.eq(self.address[2:]), word.eq(self.data), strobe.eq(self.strobe)]
            m.d.sync += [memory.eq(self.memory), self.failed.eq(outside), self.done.eq(outside)]
            with m.If(~outside):
                m.d.sync += [busy.eq(1), asks.eq(~self.write)]
                m.d.sync += [names.eq(self.write), brings.eq(self.write)]
        with m.Elif(busy):
            self._end(m, busy, address)
        return m

    def _payloads(self, m: Module, address, word, strobe):
        """Drive addresses, data and strobes of all bus channels for an access to a 32-bit word."""
        lite, read, write = self.axi_lite, self.axi_read, self.axi_write
        words = self._bus_bits // 32
        place = address[: words.bit_length() - 1]
        beat = Cat(Const(0, 2), address)
        aligned = Cat(Const(0, 2 + len(place)), address[len(place) :])
        m.d.comb += [
            lite.ar.payload.eq(beat),
            lite.aw.payload.eq(beat),
            lite.w.payload.data.eq(word),
            lite.w.payload.strb.eq(strobe),
            read.ar.payload.addr.eq(aligned),
            write.aw.payload.addr.eq(aligned),
            write.w.payload.data.eq(word.replicate(words)),
            write.w.payload.last.eq(1),
            write.w.payload.strb.eq(Cat(Mux(place == k, strobe, 0) for k in range(words))),
        ]

    def _accepts(self, memory):
        """Return whether a read address, a write address and a write word would be accepted now."""
        lite, read, write = self.axi_lite, self.axi_read, self.axi_write
        return [
            Mux(memory, wide.ready, narrow.ready)
            for narrow, wide in ((lite.ar, read.ar), (lite.aw, write.aw), (lite.w, write.w))
        ]

    def _end(self, m: Module, busy, address):
        """End the access on any response; only one was requested, so only one can come."""
        lite, read, write = self.axi_lite, self.axi_read, self.axi_write
        words = self._bus_bits // 32
        place = address[: words.bit_length() - 1]
        beat = read.r.payload.data
        for channel, response in (
            (lite.r, lite.r.payload.resp),
            (lite.b, lite.b.payload),
            (read.r, read.r.payload.resp),
            (write.b, write.b.payload.resp),
        ):
            with m.If(channel.valid):
                m.d.sync += [busy.eq(0), self.done.eq(1), self.failed.eq(response[1])]
        m.d.sync += self.value.eq(
            Mux(
                read.r.valid,
                beat.word_select(place, 32) if words > 1 else beat,
                lite.r.payload.data,
            )
        )
