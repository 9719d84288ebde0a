"""Arbiter that shares one AXI read port between Fetch and Load."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.bus.axi import AxiReadSignature

__all__ = ["SharedReadPort"]

_FETCH, _LOAD = 0, 1


class SharedReadPort(wiring.Component):
    """Merge the addresses of Fetch (id 0) and Load (id 1); distribute the beats by id.

    Fetch has priority: it asks rarely, for commands that everything else waits for. Both together
    have at most `outstanding` bursts in flight.

    Latency: none in either direction. Throughput: one burst and one beat per cycle.
    Stalls: an address once shown stays until taken. While Load awaits beats, it alone controls
    `r.ready`, also for beats of Fetch, which accepts all: RREADY does not depend on RID. Load
    refuses beats only while its scratchpad writes are refused.

    Members
    -------
    fetch, load: AxiReadSignature, in
        The readers; they may leave their ids zero.
    axi: AxiReadSignature, out
        External memory.
    burst, beat: out
        An address, or a beat, is transferred in this cycle; for the counters.
    """

    def __init__(self, config: Config):
        self._outstanding = config.outstanding
        super().__init__(
            {
                "fetch": In(AxiReadSignature(config.bus_bits)),
                "load": In(AxiReadSignature(config.bus_bits)),
                "axi": Out(AxiReadSignature(config.bus_bits)),
                "burst": Out(1),
                "beat": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: the merged read addresses, and the beats by id."""
        m = Module()
        self._address(m)
        self._data(m)
        return m

    def _address(self, m: Module):
        """Merge the read addresses of the fetch unit and of LOAD."""
        ar, fetch, load = self.axi.ar, self.fetch.ar, self.load.ar
        on_way = Signal(range(self._outstanding + 1))
        held = Signal()
        held_choice = Signal()
        choice = Signal()
        room = Signal()
        m.d.comb += [
            room.eq(on_way != self._outstanding),
            choice.eq(Mux(held, held_choice, Mux(fetch.valid, _FETCH, _LOAD))),
            ar.valid.eq(room & (fetch.valid | load.valid)),
            ar.payload.eq(Mux(choice == _LOAD, load.payload, fetch.payload)),
            ar.payload.id.eq(choice),
            fetch.ready.eq(room & ar.ready & (choice == _FETCH)),
            load.ready.eq(room & ar.ready & (choice == _LOAD)),
            self.burst.eq(ar.valid & ar.ready),
        ]
        m.d.sync += [
            held.eq(ar.valid & ~ar.ready),
            held_choice.eq(choice),
            on_way.eq(on_way + self.burst - (self.beat & self.axi.r.payload.last)),
        ]

    def _data(self, m: Module):
        """Pass each beat of data to the unit that requested it."""
        r, fetch, load = self.axi.r, self.fetch.r, self.load.r
        loads = Signal(range(self._outstanding + 1))
        of_load = Signal()
        m.d.comb += [
            of_load.eq(r.payload.id == _LOAD),
            fetch.payload.eq(r.payload),
            load.payload.eq(r.payload),
            fetch.valid.eq(self.beat & ~of_load),
            load.valid.eq(r.valid & of_load),
            r.ready.eq(load.ready | (loads == 0)),
            self.beat.eq(r.valid & r.ready),
        ]
        asked = self.load.ar.valid & self.load.ar.ready
        m.d.sync += loads.eq(loads + asked - (self.beat & of_load & r.payload.last))
