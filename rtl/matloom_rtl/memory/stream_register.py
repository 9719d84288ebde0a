"""Stream register, for a consumer that is close by."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["StreamRegister"]


class StreamRegister(wiring.Component):
    """One-entry stream register.

    Latency: one cycle. Throughput: one item per cycle. Stalls: holds one item. `i.ready` depends
    combinationally on `o.ready`, so the consumer must be close by (otherwise use `SkidBuffer`).
    Reset discards the item.

    Parameters
    ----------
    payload:
        Shape of an item.

    Members
    -------
    i, o: streams of the payload, in and out
    """

    def __init__(self, payload):
        super().__init__({"i": In(stream.Signature(payload)), "o": Out(stream.Signature(payload))})

    def elaborate(self, platform):
        """Return the module: a register of the payload and one of `valid`."""
        m = Module()
        item = Signal.like(self.i.payload, name="item", reset_less=True)
        m.d.comb += [self.i.ready.eq(~self.o.valid | self.o.ready), self.o.payload.eq(item)]
        with m.If(self.i.ready):
            m.d.sync += [item.eq(self.i.payload), self.o.valid.eq(self.i.valid)]
        return m
