"""Arbiter between the engine and a processor on external memory, burst by burst."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature

__all__ = ["MemoryArbiter"]


class MemoryArbiter(wiring.Component):
    """Round-robin arbiter of AXI bursts from the engine and a processor.

    Unlike in `matloom_rtl.link.share`, bursts of both may be in flight together. Their owners are
    queued here instead of being encoded in ids, so the memory must respond in address order
    whatever the ids; `SdramController` and the board's `BlockMemory` do.

    Latency: none, except that a write's first beat follows its address by at least one cycle.
    Throughput: that of the memory. Stalls: those of the memory, and those of an initiator that does
    not accept its beat; no burst begins while `bursts` of its direction are in flight. Reset
    forgets all bursts.

    Parameters
    ----------
    bus_bits:
        Width of the bus.
    bursts:
        Maximum number of bursts in flight in each direction.

    Members
    -------
    engine_read, engine_write, cpu_read, cpu_write: in
        Initiators.
    axi_read, axi_write: out
        External memory.
    """

    def __init__(self, bus_bits: int, bursts: int = 16):
        self._bursts = bursts
        read, write = AxiReadSignature(bus_bits), AxiWriteSignature(bus_bits)
        super().__init__(
            {
                "engine_read": In(read),
                "engine_write": In(write),
                "cpu_read": In(read),
                "cpu_write": In(write),
                "axi_read": Out(read),
                "axi_write": Out(write),
            }
        )

    def elaborate(self, platform):
        """Return the module: merged requests, and queues that route the responses."""
        m = Module()
        engine, cpu, out = self.engine_read, self.cpu_read, self.axi_read
        beats = self._owners(m, "beats")
        self._addresses(m, (engine.ar, cpu.ar, out.ar), (beats,))
        self._answers(m, (engine.r, cpu.r, out.r), beats, out.r.payload.last)

        engine, cpu, out = self.engine_write, self.cpu_write, self.axi_write
        data, responses = self._owners(m, "data"), self._owners(m, "responses")
        self._addresses(m, (engine.aw, cpu.aw, out.aw), (data, responses))
        self._data(m, (engine.w, cpu.w, out.w), data)
        self._answers(m, (engine.b, cpu.b, out.b), responses, 1)
        return m

    def _owners(self, m: Module, name: str) -> SyncFIFO:
        """Add and return a queue of the owners of bursts in flight: 1 for the processor, else 0."""
        m.submodules[name] = owners = SyncFIFO(width=1, depth=self._bursts)
        return owners

    def _addresses(self, m: Module, channels, queues):
        """Pass on an address channel, and record the owners of its addresses in `queues`.

        An address once shown stays until it is taken.
        """
        engine, cpu, out = channels
        owner = Signal()
        shown = Signal()
        turn = Signal()
        room = Signal()
        kept = Signal()
        m.d.comb += [
            owner.eq(Mux(shown, kept, Mux(turn, cpu.valid, ~engine.valid))),
            room.eq(queues[-1].w_rdy),
            out.valid.eq(Mux(owner, cpu.valid, engine.valid) & room),
            out.payload.eq(Mux(owner, cpu.payload, engine.payload)),
            engine.ready.eq(out.ready & room & ~owner),
            cpu.ready.eq(out.ready & room & owner),
        ]
        for owners in queues:
            m.d.comb += [owners.w_data.eq(owner), owners.w_en.eq(out.valid & out.ready)]
        m.d.sync += [shown.eq(out.valid & ~out.ready), kept.eq(owner)]
        with m.If(out.valid & out.ready):
            m.d.sync += turn.eq(~owner)

    def _data(self, m: Module, channels, owners: SyncFIFO):
        """Pass on write beats in the order of their addresses."""
        engine, cpu, out = channels
        owner = owners.r_data[0]
        m.d.comb += [
            out.valid.eq(Mux(owner, cpu.valid, engine.valid) & owners.r_rdy),
            out.payload.eq(Mux(owner, cpu.payload, engine.payload)),
            engine.ready.eq(out.ready & owners.r_rdy & ~owner),
            cpu.ready.eq(out.ready & owners.r_rdy & owner),
            owners.r_en.eq(out.valid & out.ready & out.payload.last),
        ]

    def _answers(self, m: Module, channels, owners: SyncFIFO, last):
        """Route each response of a channel to the owner of the oldest burst."""
        engine, cpu, out = channels
        owner = owners.r_data[0]
        m.d.comb += [
            engine.payload.eq(out.payload),
            cpu.payload.eq(out.payload),
            engine.valid.eq(out.valid & owners.r_rdy & ~owner),
            cpu.valid.eq(out.valid & owners.r_rdy & owner),
            out.ready.eq(Mux(owner, cpu.ready, engine.ready) & owners.r_rdy),
            owners.r_en.eq(out.valid & out.ready & last),
        ]
