"""Cuts AXI bursts into chunks within one row, short enough to run without interruption."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.bus.axi import Address
from matloom_rtl.sdram.pins import ControllerPlan

__all__ = ["Chunks"]


class Chunks(wiring.Component):
    """Cut bursts into chunks at multiples of `chunk_beats` beats.

    Latency: 2 cycles. Throughput: one chunk in 2 cycles within a burst, in 3 between bursts.
    Stalls: holds one burst; no path from `o.ready` to `i.ready`.

    Members
    -------
    i: stream of Address, in
        Bursts; address bits above the SDRAM's size are ignored.
    o: stream of `plan.chunk_layout`, out
        Chunks in address order, burst by burst.
    """

    def __init__(self, plan: ControllerPlan, *, write: bool):
        self._plan, self._write = plan, write
        super().__init__(
            {"i": In(stream.Signature(Address)), "o": Out(stream.Signature(plan.chunk_layout))}
        )

    def elaborate(self, platform):
        """Return the module: the burst's remaining beats, and the chunk cut from them."""
        m = Module()
        plan, chunk = self._plan, self.o.payload
        low = plan.count_bits
        address = Signal(plan.row_layout, reset_less=True)
        bits = address.as_value()
        left = Signal(8, reset_less=True)
        room = Signal(low)
        ident = Signal(reset_less=True)
        last = Signal(reset_less=True)
        count = Signal(low, reset_less=True)
        under_way = Signal()
        shown = Signal()
        m.d.comb += [
            self.i.ready.eq(~under_way),
            self.o.valid.eq(shown),
            room.eq(~bits[:low]),
            chunk.place.eq(address),
            chunk.last.eq(last),
            chunk.count.eq(count),
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
        with m.Elif(~shown):
            m.d.sync += [shown.eq(1), last.eq(left <= room), count.eq(_minimum(left, room))]
        with m.Elif(self.o.ready):
            # The next chunk starts at a cut.
            m.d.sync += [
                shown.eq(0),
                under_way.eq(~last),
                bits.eq(Cat(Const(0, low), (bits[low:] + 1)[: len(bits) - low])),
                left.eq(left - room - 1),
            ]
        return m


def _minimum(left, room):
    """Return the smaller of the beats left and of the beats with room."""
    return Mux(left <= room, left, room)
