"""Wishbone bus of a processor: its signals, and the bridge to the engine's registers."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom_rtl.bus.axi_lite import AxiLiteSignature
from matloom_rtl.link.accesses import Accesses

__all__ = ["CTI_CLASSIC", "CTI_END", "CTI_INCREMENTING", "RegisterBridge", "WishboneSignature"]

#: Values of `cti`: single word; the next word is at the next address; last word of a burst.
CTI_CLASSIC, CTI_INCREMENTING, CTI_END = 0, 2, 7

#: Width of an AXI bus that is not used: accesses to registers use AXI4-Lite.
_BUS_BITS = 32

#: Width of a word address in the register window.
_WINDOW_BITS = 10


class WishboneSignature(wiring.Signature):
    """Wishbone B4, 32 bits of data; `adr` counts words of four bytes.

    An initiator holds its request until `ack` or `err`, and `stb` throughout a burst, of which all
    words but the last have an incrementing `cti`. A burst reads a whole cache line.
    """

    def __init__(self):
        super().__init__(
            {
                "cyc": Out(1),
                "stb": Out(1),
                "we": Out(1),
                "adr": Out(30),
                "sel": Out(4),
                "cti": Out(3),
                "dat_w": Out(32),
                "dat_r": In(32),
                "ack": In(1),
                "err": In(1),
            }
        )


class RegisterBridge(wiring.Component):
    """Bridge from Wishbone to the engine's AXI4-Lite registers.

    Bursts are acknowledged word by word, like classic cycles.

    Latency: the AXI request follows one cycle after the Wishbone request, and `ack` or `err` one
    cycle after the AXI response. One access at a time. Stalls: waits for AXI.

    Members
    -------
    wishbone: WishboneSignature, in
        The processor, with an address within the 4 KiB window. `err` instead of `ack` for one
        cycle: AXI responded with an error.
    axi_lite: AxiLiteSignature, out
    """

    def __init__(self):
        super().__init__({"wishbone": In(WishboneSignature()), "axi_lite": Out(AxiLiteSignature())})

    def elaborate(self, platform):
        """Return the module: an access to the engine's registers for each bus cycle."""
        m = Module()
        m.submodules.accesses = accesses = Accesses(_BUS_BITS)
        connect(m, accesses.axi_lite, flipped(self.axi_lite))
        bus = self.wishbone
        asked = Signal()
        m.d.comb += [
            asked.eq(bus.cyc & bus.stb),
            # In the cycle of the response the request is still asserted.
            accesses.start.eq(asked & accesses.idle & ~accesses.done),
            accesses.write.eq(bus.we),
            accesses.address.eq(Cat(Const(0, 2), bus.adr[:_WINDOW_BITS])),
            accesses.data.eq(bus.dat_w),
            accesses.strobe.eq(bus.sel),
            bus.dat_r.eq(accesses.value),
            bus.ack.eq(asked & accesses.done & ~accesses.failed),
            bus.err.eq(asked & accesses.done & accesses.failed),
        ]
        return m
