"""A stream with a register in both directions, for requests to an arbiter that is far away."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Slice"]


class Slice(wiring.Component):
    """Pass a stream on, with no path from one side to the other.

    Latency: one cycle. Throughput: one item a cycle. Stalls: holds two items, so that `i.ready`,
    a register, need not know of `o.ready`.

    Members
    -------
    i, o: streams of the payload, in and out
    """

    def __init__(self, payload):
        super().__init__({"i": In(stream.Signature(payload)), "o": Out(stream.Signature(payload))})

    def elaborate(self, platform):
        m = Module()
        held, holding = Signal.like(self.i.payload, reset_less=True), Signal()
        shown = Signal.like(self.o.payload, reset_less=True)
        m.d.comb += [self.i.ready.eq(~holding), self.o.payload.eq(shown)]
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [self.o.valid.eq(holding | self.i.valid), holding.eq(0)]
            with m.If(holding):
                m.d.sync += shown.eq(held)
            with m.Else():
                m.d.sync += shown.eq(self.i.payload)
        with m.Elif(self.i.valid):
            m.d.sync += holding.eq(1)
        with m.If(~holding):
            m.d.sync += held.eq(self.i.payload)
        return m
