"""Arbiter that shares one port of external memory between the engine and the host link."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature

__all__ = ["Share"]


class Share(wiring.Component):
    """Pass the engine's bursts on, and pause them for each access of the host link.

    The link's accesses are rare, one beat long, and mostly come when the engine is idle. The link
    waits until no burst of the engine is in flight, owns the bus alone, and releases it with the
    response, so ids need no extra bits. Reads and writes are shared independently.

    Latency: none for the engine, one cycle for the link if the engine is idle. Throughput: one
    transfer per cycle on each channel, except during accesses of the link. Stalls: the engine
    begins no burst while the link waits, but completes those it has begun: what is shown stays
    until taken, and if either the address or the data of a write has been passed on, so is the
    other.

    Members
    -------
    engine_read, engine_write, link_read, link_write: in
        Initiators; the link requests one single-beat burst at a time.
    axi_read, axi_write: out
        External memory.
    """

    def __init__(self, config: Config):
        self._most = config.outstanding + 1
        read, write = AxiReadSignature(config.bus_bits), AxiWriteSignature(config.bus_bits)
        super().__init__(
            {
                "engine_read": In(read),
                "engine_write": In(write),
                "link_read": In(read),
                "link_write": In(write),
                "axi_read": Out(read),
                "axi_write": Out(write),
            }
        )

    def elaborate(self, platform):
        """Return the module: the shared read channels and the shared write channels."""
        m = Module()
        self._read(m)
        self._write(m)
        return m

    def _offer(self, m: Module, name: str, engine, link, out, may_begin, owned):
        """Pass on a request channel; return whether a request of the engine is shown on the bus.

        `may_begin`: the engine may show a new request. `owned`: the link owns the bus.
        """
        waits = Signal(name=f"{name}_waits")
        shows = Signal(name=f"{name}_shows")
        m.d.comb += [
            shows.eq(engine.valid & ~owned & (may_begin | waits)),
            out.valid.eq(Mux(owned, link.valid, shows)),
            out.payload.eq(Mux(owned, link.payload, engine.payload)),
            engine.ready.eq(out.ready & shows),
            link.ready.eq(out.ready & owned),
        ]
        m.d.sync += waits.eq(shows & ~out.ready)
        return shows

    def _answer(self, m: Module, engine, link, out, owned):
        """Pass a response channel on to its owner; return whether a response is transferred."""
        m.d.comb += [
            engine.payload.eq(out.payload),
            link.payload.eq(out.payload),
            engine.valid.eq(out.valid & ~owned),
            link.valid.eq(out.valid & owned),
            out.ready.eq(Mux(owned, link.ready, engine.ready)),
        ]
        return out.valid & out.ready

    def _read(self, m: Module):
        """Merge the read channels of engine and link."""
        engine, link, out = self.engine_read, self.link_read, self.axi_read
        owned = Signal(name="reads_owned")
        wants = link.ar.valid
        under_way = Signal(range(self._most + 1), name="reads_under_way")
        shows = self._offer(m, "ar", engine.ar, link.ar, out.ar, ~wants, owned)
        beat = self._answer(m, engine.r, link.r, out.r, owned)
        ends = beat & out.r.payload.last
        m.d.sync += under_way.eq(under_way + (shows & out.ar.ready) - (ends & ~owned))
        with m.If(owned):
            m.d.sync += owned.eq(~ends)
        with m.Else():
            m.d.sync += owned.eq(wants & ~shows & (under_way == 0))

    def _write(self, m: Module):
        """Merge the write channels of engine and link."""
        engine, link, out = self.engine_write, self.link_write, self.axi_write
        owned = Signal(name="writes_owned")
        wants = link.aw.valid | link.w.valid
        # Bursts without a response, addresses ahead of their data, and bursts with data left.
        under_way = Signal(range(self._most + 1), name="writes_under_way")
        ahead = Signal(signed(8))
        inside = Signal()
        addresses = self._offer(m, "aw", engine.aw, link.aw, out.aw, ~wants | (ahead < 0), owned)
        data = self._offer(m, "w", engine.w, link.w, out.w, ~wants | inside | (ahead > 0), owned)
        ends = self._answer(m, engine.b, link.b, out.b, owned)
        address, beat = addresses & out.aw.ready, data & out.w.ready
        m.d.sync += [
            under_way.eq(under_way + address - (ends & ~owned)),
            ahead.eq(ahead + address - (beat & ~inside)),
        ]
        with m.If(beat):
            m.d.sync += inside.eq(~out.w.payload.last)
        quiet = (under_way == 0) & (ahead == 0) & ~inside & ~addresses & ~data
        with m.If(owned):
            m.d.sync += owned.eq(~ends)
        with m.Else():
            m.d.sync += owned.eq(wants & quiet)
