"""A stream with a register in both directions, for requests to an arbiter that is far away."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SkidBuffer"]


class SkidBuffer(wiring.Component):
    """Pass a stream on, with no path from one side to the other.

    Latency: one cycle. Throughput: one item a cycle. Stalls: holds two items, so that `i.ready`,
    a register, need not know of `o.ready`; nor need the many bits of an item, which is written to
    whichever place is empty and shown from there.

    Parameters
    ----------
    payload:
        Shape of an item.
    at_hand:
        Fields of it that `o` shows without having to choose: what an arbiter looks at.

    Members
    -------
    i, o: streams of the payload, in and out
    """

    def __init__(self, payload, *, at_hand=()):
        self._at_hand = at_hand
        super().__init__({"i": In(stream.Signature(payload)), "o": Out(stream.Signature(payload))})

    def elaborate(self, platform):
        m = Module()
        places = [
            Signal.like(self.i.payload, name=f"place_{index}", reset_less=True)
            for index in range(2)
        ]
        full, shown = Signal(), Signal()
        m.d.comb += [self.i.ready.eq(~full), self.o.payload.eq(Mux(shown, *reversed(places)))]
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [self.o.valid.eq(full | self.i.valid), full.eq(0)]
        with m.Elif(self.i.valid):
            m.d.sync += full.eq(1)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += shown.eq(~shown)
        for name in self._at_hand:
            next_items = [place[name] for place in places]
            item = Signal.like(self.i.payload[name], name=name, reset_less=True)
            m.d.comb += self.o.payload[name].eq(item)
            with m.If(~self.o.valid | self.o.ready):
                m.d.sync += item.eq(Mux(full, Mux(shown, *next_items), self.i.payload[name]))
        for index, place in enumerate(places):
            with m.If(~full & ~(self.o.valid & (shown == index))):
                m.d.sync += place.eq(self.i.payload)
        return m
