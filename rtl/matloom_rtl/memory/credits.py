"""A queue after a pipeline that never stalls: what begins takes a credit for a place here."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["CREDITS", "CreditQueue"]

#: What a table of a logic cell's memory holds.
CREDITS = 16


class CreditQueue(wiring.Component):
    """Hold the items of a pipeline in order, each in a place that it was given when it began.

    So a refused item stalls no register of the pipeline; only who begins items looks at `room`, a
    register. Items are as many as there are places, from `start` until they are taken.

    Latency: an item shows at `o` a cycle after it was written, its place is free two cycles after
    it was taken. Throughput: one item a cycle, while pipeline and queue hold `CREDITS` less three
    items. A reset forgets all items, those on their way too.

    Parameters
    ----------
    payload:
        Layout of an item.
    registered:
        Fields of it that `o` shows from registers: what an arbiter looks at. Where there is no
        item they are those of a `w_data` that was none, which may tell that it is none.

    Members
    -------
    room: out
        There is a place for an item that begins in this cycle.
    start: in
        One begins; never without `room`.
    w_en, w_data: in
        One arrives.
    o: stream of the payload, out
    """

    def __init__(self, payload: data.StructLayout, *, registered=()):
        self._payload = payload
        self._registered = registered
        super().__init__(
            {
                "room": Out(1, init=1),
                "start": In(1),
                "w_en": In(1),
                "w_data": In(payload),
                "o": Out(stream.Signature(payload)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._count(m)
        empty = Signal()
        load = Signal()
        shows = Signal()
        shown = Signal(range(CREDITS))
        following = Signal.like(shown, init=1)
        write = Signal.like(shown, init=1)
        m.d.comb += [
            # Of those that wait one less than places, for the one shown has its own.
            empty.eq(write == following),
            load.eq(~self.o.valid | self.o.ready),
            shows.eq(~empty | self.w_en),
        ]
        with m.If(load):
            m.d.sync += self.o.valid.eq(shows)
        with m.If(load & shows):
            m.d.sync += [shown.eq(following), following.eq(following + 1)]
        with m.If(self.w_en):
            m.d.sync += write.eq(write + 1)
        rest = [name for name, _ in self._payload if name not in self._registered]
        for names, address in ((self._registered, following), (rest, shown)):
            stored = data.StructLayout({name: self._payload[name].shape for name in names})
            memory = Memory(shape=stored, depth=CREDITS, init=[])
            m.submodules["hand" if address is following else "storage"] = memory
            store, fetch = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [store.en.eq(self.w_en), store.addr.eq(write), fetch.addr.eq(address)]
            for name in names:
                m.d.comb += store.data[name].eq(self.w_data[name])
                found, place = fetch.data[name], self.o.payload[name]
                if address is following:
                    hand = Signal.like(place, name=name)
                    with m.If(load):
                        m.d.sync += hand.eq(Mux(empty, self.w_data[name], found))
                    found = hand
                m.d.comb += place.eq(found)
        return m

    def _count(self, m: Module):
        """Count the items; what was taken counts from the next cycle on: takers are far away."""
        taken = Signal()
        used = Signal(range(CREDITS + 1))
        after = Signal.like(used)
        m.d.comb += after.eq(used + self.start - taken)
        m.d.sync += [
            taken.eq(self.o.valid & self.o.ready),
            used.eq(after),
            self.room.eq(after != CREDITS),
        ]
