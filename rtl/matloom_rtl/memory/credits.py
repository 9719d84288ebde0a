"""Queue behind a pipeline that never stalls: each item reserves a place when it starts."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["CREDITS", "CreditQueue"]

#: Number of places: the depth of a memory built from logic cells.
CREDITS = 16


class CreditQueue(wiring.Component):
    """Queue the items of a pipeline in order, each in a place reserved when the item starts.

    An item that is not taken therefore stalls no pipeline register: only the logic that starts
    items looks at `room`, which is a register. An item occupies its place from `start` until it is
    taken.

    Latency: an item appears at `o` one cycle after it was written; its place is free two cycles
    after it was taken. Throughput: one item per cycle, while pipeline and queue hold at most
    `CREDITS` - 3 items. Reset discards all items, including those in the pipeline.

    Parameters
    ----------
    payload:
        Layout of an item.
    registered:
        Names of the fields that `o` shows from registers, for use by an arbiter. While `o` is not
        valid, they show the fields of `w_data` one cycle late, so that `w_data` can encode there
        that there is no item.

    Members
    -------
    room: out
        An item may start in this cycle.
    start: in
        An item starts; only with `room`.
    w_en, w_data: in
        An item arrives from the pipeline.
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
        """Return the module: memories of both kinds of fields, their indices, and the count."""
        m = Module()
        self._count(m)
        empty = Signal()
        load = Signal()
        shows = Signal()
        shown = Signal(range(CREDITS))
        following = Signal.like(shown, init=1)
        write = Signal.like(shown, init=1)
        m.d.comb += [
            # The waiting items are one fewer than the places: the item shown has its own register.
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
        """Count the items and drive `room`.

        An item that is taken leaves the count one cycle later, because receivers are far away.
        """
        taken = Signal()
        used = Signal(range(CREDITS + 1))
        after = Signal.like(used)
        m.d.comb += after.eq(used + self.start - taken)
        m.d.sync += [
            taken.eq(self.o.valid & self.o.ready),
            used.eq(after),
            self.room.eq(after != CREDITS),
        ]
