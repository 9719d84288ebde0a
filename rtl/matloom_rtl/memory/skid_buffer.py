"""Stream buffer that registers both directions, for requests to a distant arbiter."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["SkidBuffer"]

#: Capacity in items.
_PLACES = 2


class SkidBuffer(wiring.Component):
    """Two-entry stream buffer without combinational paths between its sides.

    Latency: one cycle. Throughput: one item per cycle. Stalls: holds two items, so that `i.ready`
    is a register that does not depend on `o.ready`. Wide payloads are stored in a two-entry
    memory and do not depend on `o.ready` either.

    Parameters
    ----------
    payload:
        Layout of an item.
    registered:
        Names of the fields that `o` shows from registers, for use by an arbiter; the others come
        from a small memory.

    Members
    -------
    i, o: streams of the payload, in and out
    """

    def __init__(self, payload: data.StructLayout, *, registered=()):
        self._payload, self._registered = payload, registered
        super().__init__({"i": In(stream.Signature(payload)), "o": Out(stream.Signature(payload))})

    def elaborate(self, platform):
        """Return the module: two registers, or two places in memory, for each field."""
        m = Module()
        full = Signal()
        moves = Signal()
        m.d.comb += [self.i.ready.eq(~full), moves.eq(~self.o.valid | self.o.ready)]
        with m.If(moves):
            m.d.sync += [self.o.valid.eq(full | self.i.valid), full.eq(0)]
        with m.Elif(self.i.valid):
            m.d.sync += full.eq(1)
        self._store(m)
        for name in self._registered:
            hand = Signal.like(self.i.payload[name], name=name, reset_less=True)
            skid = Signal.like(hand, name=f"{name}_skid", reset_less=True)
            m.d.comb += self.o.payload[name].eq(hand)
            with m.If(moves):
                m.d.sync += hand.eq(Mux(full, skid, self.i.payload[name]))
            with m.If(~full):
                m.d.sync += skid.eq(self.i.payload[name])
        return m

    def _store(self, m: Module):
        """Store the fields that are not `registered`, alternating between two places."""
        fields = {
            name: field.shape for name, field in self._payload if name not in self._registered
        }
        if not fields:
            return
        stored = data.StructLayout(fields)
        m.submodules.storage = storage = Memory(shape=stored, depth=_PLACES, init=[])
        write, read = storage.write_port(), storage.read_port(domain="comb")
        free = Signal()
        shown = Signal()
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += free.eq(~free)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += shown.eq(~shown)
        m.d.comb += [write.en.eq(self.i.ready), write.addr.eq(free), read.addr.eq(shown)]
        for name in fields:
            m.d.comb += [
                write.data[name].eq(self.i.payload[name]),
                self.o.payload[name].eq(read.data[name]),
            ]
