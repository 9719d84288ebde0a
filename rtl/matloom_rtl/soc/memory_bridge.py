"""Bridge from a processor's bus to external memory: cache lines as bursts, single-word writes."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.soc import LINE_BYTES, MEMORY_BASE
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.soc.wishbone import CTI_INCREMENTING, WishboneSignature

__all__ = ["MemoryBridge"]

#: Width of an address within external memory.
_OFFSET_BITS = 30


class MemoryBridge(wiring.Component):
    """Wishbone to AXI bridge; address bits 30 and 31 are ignored.

    A read with incrementing `cti` becomes an AXI burst for the whole cache line, and must start at
    its first word. A write becomes a burst of one beat, with `sel` as its strobes.

    Latency: the AXI request follows one cycle after the Wishbone request; each word of a read is
    acknowledged one cycle after its beat, and a write one cycle after its AXI response. Throughput:
    one word of a line per cycle, if AXI has one beat per cycle. Stalls: waits for AXI. Only one
    access is in progress at a time, so a read sees all earlier writes.

    Members
    -------
    wishbone: WishboneSignature, in
        `err` instead of `ack` for one cycle: AXI responded with an error.
    axi_read, axi_write: AxiReadSignature, AxiWriteSignature, out
        External memory.
    """

    def __init__(self, bus_bits: int):
        self._words = bus_bits // 32
        super().__init__(
            {
                "wishbone": In(WishboneSignature()),
                "axi_read": Out(AxiReadSignature(bus_bits)),
                "axi_write": Out(AxiWriteSignature(bus_bits)),
            }
        )

    def elaborate(self, platform):
        """Return the module: read and write accesses, and their acknowledgement."""
        m = Module()
        bus = self.wishbone
        busy = Signal()
        starts = Signal()
        m.d.comb += starts.eq(bus.cyc & bus.stb & ~busy)
        word, failed = self._read(m, starts & ~bus.we)
        written, refused = self._write(m, starts & bus.we)
        answers = word | written
        bad = (word & failed) | (written & refused)
        m.d.comb += [bus.ack.eq(answers & ~bad), bus.err.eq(answers & bad)]
        with m.If(starts):
            m.d.sync += busy.eq(1)
        with m.Elif(answers & (bus.cti != CTI_INCREMENTING)):
            m.d.sync += busy.eq(0)
        return m

    def _address(self, line):
        """Return the address of the beat that holds the requested word, or if `line` its line."""
        beat = (4 * self._words - 1).bit_length()
        within = (LINE_BYTES - 1).bit_length()
        adr = Cat(Const(0, 2), self.wishbone.adr)
        low = Mux(line, 0, adr[beat:within]) if beat < within else Const(0, 0)
        base = Const(MEMORY_BASE >> _OFFSET_BITS, 32 - _OFFSET_BITS)
        return Cat(Const(0, beat), low, adr[within:_OFFSET_BITS], base)

    def _read(self, m: Module, starts):
        """Return whether a read is acknowledged, and whether with an error."""
        bus, ar, r = self.wishbone, self.axi_read.ar, self.axi_read.r
        line, beats = bus.cti == CTI_INCREMENTING, LINE_BYTES // 4 // self._words
        held = Signal()
        failed = Signal()
        beat = Signal(32 * self._words)
        place = bus.adr[: (self._words - 1).bit_length()]
        # Last word of the current beat; a single-word read has only one.
        last = (place == self._words - 1) | ~line
        m.d.comb += [
            r.ready.eq(~held | last),
            bus.dat_r.eq(beat.word_select(place, 32) if self._words > 1 else beat),
        ]
        m.d.comb += ar.payload.id.eq(0)
        with m.If(ar.ready):
            m.d.sync += ar.valid.eq(0)
        with m.If(starts):
            m.d.sync += [
                ar.valid.eq(1),
                ar.payload.addr.eq(self._address(line)),
                ar.payload.len.eq(Mux(line, beats - 1, 0)),
            ]
        with m.If(r.ready):
            m.d.sync += held.eq(r.valid)
            with m.If(r.valid):
                m.d.sync += [beat.eq(r.payload.data), failed.eq(r.payload.resp[1])]
        return held, failed

    def _write(self, m: Module, starts):
        """Return whether a write is acknowledged, and whether with an error."""
        bus, aw, w, b = self.wishbone, self.axi_write.aw, self.axi_write.w, self.axi_write.b
        done = Signal()
        refused = Signal()
        place = bus.adr[: (self._words - 1).bit_length()]
        strobes = Cat(Mux(place == k, bus.sel, 0) for k in range(self._words))
        m.d.comb += [b.ready.eq(1), w.payload.last.eq(1)]
        m.d.comb += [aw.payload.id.eq(0), aw.payload.len.eq(0)]
        for channel in (aw, w):
            with m.If(channel.ready):
                m.d.sync += channel.valid.eq(0)
        with m.If(starts):
            m.d.sync += [
                aw.valid.eq(1),
                w.valid.eq(1),
                aw.payload.addr.eq(self._address(Const(0))),
                w.payload.data.eq(bus.dat_w.replicate(self._words)),
                w.payload.strb.eq(strobes),
            ]
        m.d.sync += [done.eq(b.valid), refused.eq(b.payload.resp[1])]
        return done, refused
