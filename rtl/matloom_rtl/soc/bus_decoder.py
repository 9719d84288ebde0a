"""Address decoder of a processor's bus."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.soc import SocRegion
from matloom_rtl.soc.wishbone import WishboneSignature

__all__ = ["BusDecoder"]


class BusDecoder(wiring.Component):
    """Route accesses to targets by address; unmapped addresses respond with an error.

    Latency: none, but one cycle for the error response. Stalls: those of the targets.

    Parameters
    ----------
    targets:
        Regions of each target, each aligned to its size rounded up to a power of two.

    Members
    -------
    bus: WishboneSignature, in
    target_0, target_1, ...: WishboneSignature, out
    """

    def __init__(self, targets: tuple[tuple[SocRegion, ...], ...]):
        self._targets = targets
        super().__init__(
            {
                "bus": In(WishboneSignature()),
                **{f"target_{index}": Out(WishboneSignature()) for index in range(len(targets))},
            }
        )

    def elaborate(self, platform):
        """Return the module: a comparison for each region, and the answers joined."""
        m = Module()
        bus = self.bus
        asked = Signal()
        lost = Signal()
        targets = [getattr(self, f"target_{index}") for index in range(len(self._targets))]
        chosen = Signal(len(targets))
        m.d.comb += asked.eq(bus.cyc & bus.stb)
        for index, (target, regions) in enumerate(zip(targets, self._targets, strict=True)):
            m.d.comb += [
                chosen[index].eq(reduce(or_, (_within(bus.adr, item) for item in regions))),
                target.cyc.eq(bus.cyc & chosen[index]),
                target.stb.eq(bus.stb & chosen[index]),
            ]
            for name in ("we", "adr", "sel", "cti", "dat_w"):
                m.d.comb += getattr(target, name).eq(getattr(bus, name))
        m.d.sync += lost.eq(asked & ~chosen.any() & ~lost)
        answers = [Mux(bit, target.dat_r, 0) for bit, target in zip(chosen, targets, strict=True)]
        m.d.comb += [
            bus.dat_r.eq(reduce(or_, answers)),
            bus.ack.eq(reduce(or_, (target.ack for target in targets))),
            bus.err.eq(reduce(or_, (target.err for target in targets)) | lost),
        ]
        return m


def _within(adr, region: SocRegion):
    """Return whether a word address is in a region."""
    bits = (region.bytes - 1).bit_length()
    unit = (region.bytes & -region.bytes).bit_length() - 1
    # Always true if the region is a power of two.
    inside = adr[unit - 2 : bits - 2] < region.bytes >> unit
    return (adr[bits - 2 :] == region.base >> bits) & inside
