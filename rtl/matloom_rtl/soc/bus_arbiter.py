"""Arbiter between the two buses of a processor."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.soc.wishbone import CTI_INCREMENTING, WishboneSignature

__all__ = ["BusArbiter"]


class BusArbiter(wiring.Component):
    """Round-robin arbiter for two initiators; a grant lasts for one word or one burst.

    Latency: none for the current owner of the bus, one cycle to switch. Throughput: words or bursts
    alternate if both initiators are active. Stalls: those of the target. Reset grants the bus to
    the first initiator.

    Members
    -------
    first, second: WishboneSignature, in
        Initiators.
    bus: WishboneSignature, out
        Target.
    """

    def __init__(self):
        super().__init__(
            {
                "first": In(WishboneSignature()),
                "second": In(WishboneSignature()),
                "bus": Out(WishboneSignature()),
            }
        )

    def elaborate(self, platform):
        """Return the module: a register of the bus' owner, and multiplexers."""
        m = Module()
        first, second, bus = self.first, self.second, self.bus
        owner = Signal()
        for name in ("cyc", "stb", "we", "adr", "sel", "cti", "dat_w"):
            value = Mux(owner, getattr(second, name), getattr(first, name))
            m.d.comb += getattr(bus, name).eq(value)
        for initiator, owned in ((first, ~owner), (second, owner)):
            m.d.comb += [
                initiator.dat_r.eq(bus.dat_r),
                initiator.ack.eq(bus.ack & owned),
                initiator.err.eq(bus.err & owned),
            ]
        ends = (bus.ack | bus.err) & (bus.cti != CTI_INCREMENTING)
        with m.If(ends | ~bus.cyc):
            m.d.sync += owner.eq(Mux(owner, ~first.cyc, second.cyc))
        return m
