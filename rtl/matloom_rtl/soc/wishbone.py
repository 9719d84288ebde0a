"""Wishbone bus of a processor: its signals, and the bridge to the engine's registers."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom_rtl.bus.axi_lite import AxiLiteSignature
from matloom_rtl.link.accesses import Accesses

__all__ = ["CTI_CLASSIC", "CTI_END", "CTI_INCREMENTING", "RegisterBridge", "WishboneSignature"]

#: Values of `cti`: one word; the next word comes from the next address; the last word of those.
CTI_CLASSIC, CTI_INCREMENTING, CTI_END = 0, 2, 7

#: The widest bus has no part in accesses of registers.
_BUS_BITS = 32

#: Words of the window of registers, as bits of their address.
_WINDOW_BITS = 10


class WishboneSignature(wiring.Signature):
    """Wishbone B4, 32 bits of data; `adr` counts words of four bytes.

    An initiator keeps what it asks until `ack` or `err`, and `stb` through a burst, of which all
    words but the last come with `cti` incrementing. A burst reads whole lines of the caches.
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
    """Serve a processor's words from the engine's registers.

    Bursts are answered word by word, as classic cycles are.

    Latency: AXI is asked in the cycle after the request is seen; `ack` or `err` follows the answer
    by one cycle. One request is under way at a time. Stalls: a request waits until AXI answers.

    Members
    -------
    wishbone: WishboneSignature, in
        The processor; its address within the window of 4 KiB. `err` for one cycle instead of
        `ack`: AXI answered with an error.
    axi_lite: AxiLiteSignature, out
    """

    def __init__(self):
        super().__init__({"wishbone": In(WishboneSignature()), "axi_lite": Out(AxiLiteSignature())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.accesses = accesses = Accesses(_BUS_BITS)
        connect(m, accesses.axi_lite, flipped(self.axi_lite))
        bus = self.wishbone
        asked = Signal()
        m.d.comb += [
            asked.eq(bus.cyc & bus.stb),
            # In the cycle of the answer the request still stands.
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
