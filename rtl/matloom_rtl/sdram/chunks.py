"""Cuts AXI bursts into chunks, each in one row and short enough to be promised whole."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.bus.axi import Address
from matloom_rtl.sdram.pins import Plan

__all__ = ["Chunks"]


class Chunks(wiring.Component):
    """Cut bursts at multiples of `chunk_beats` beats.

    Latency: a cycle. Throughput: a chunk a cycle within a burst, and a cycle between bursts.
    Stalls: holds one burst; no path from `o.ready` to `i.ready`.

    Members
    -------
    i: stream of Address, in
        Bursts; bits of the address above the SDRAM's size do not count.
    o: stream of `plan.chunk_layout`, out
        Chunks, in the order of addresses, burst after burst.
    """

    def __init__(self, plan: Plan, *, write: bool):
        self._plan, self._write = plan, write
        super().__init__(
            {"i": In(stream.Signature(Address)), "o": Out(stream.Signature(plan.chunk_layout))}
        )

    def elaborate(self, platform):
        m = Module()
        plan, chunk = self._plan, self.o.payload
        low = plan.count_bits
        address = Signal(plan.row_layout, reset_less=True)
        bits = address.as_value()
        left = Signal(8, reset_less=True)
        ident = Signal(reset_less=True)
        under_way, room = Signal(), Signal(low)
        m.d.comb += [
            self.i.ready.eq(~under_way),
            self.o.valid.eq(under_way),
            room.eq(~bits[:low]),
            chunk.place.eq(address),
            chunk.last.eq(left <= room),
            chunk.count.eq(Mux(chunk.last, left, room)),
            chunk.write.eq(int(self._write)),
            chunk.id.eq(ident),
        ]
        with m.If(~under_way):
            m.d.sync += [
                under_way.eq(self.i.valid),
                bits.eq(self.i.payload.addr[plan.index_bits :]),
                left.eq(self.i.payload.len),
                ident.eq(self.i.payload.id),
            ]
        with m.Elif(self.o.ready):
            # The next begins at a cut, of which a burst within 4 KiB meets few: a short sum.
            window = Signal(len(bits) - low)
            m.d.comb += window.eq(bits[low:] + 1)
            m.d.sync += [
                under_way.eq(~chunk.last),
                bits.eq(Cat(Const(0, low), window)),
                left.eq(left - room - 1),
            ]
        return m
