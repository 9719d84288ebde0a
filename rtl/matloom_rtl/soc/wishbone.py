"""A processor's Wishbone bus: its signals, and the bridge to registers and external memory."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.bus.axi_lite import AxiLiteSignature
from matloom_rtl.link.accesses import Accesses

__all__ = ["WishboneBridge", "WishboneSignature"]


class WishboneSignature(wiring.Signature):
    """Wishbone B4, classic cycles, 32 bits of data; `adr` counts words of four bytes."""

    def __init__(self):
        super().__init__(
            {
                "cyc": Out(1),
                "stb": Out(1),
                "we": Out(1),
                "adr": Out(30),
                "sel": Out(4),
                "dat_w": Out(32),
                "dat_r": In(32),
                "ack": In(1),
                "err": In(1),
            }
        )


class WishboneBridge(wiring.Component):
    """Serve a processor's words: byte addresses with bit 31 set are registers, others memory.

    Registers lie there because a VexRiscv does not cache those addresses. Bursts (CTI) are
    answered word by word, as classic cycles are: each word is a burst of one beat on AXI.

    Latency: AXI is asked in the cycle after the request is seen; `ack` or `err` follows the answer
    by one cycle. One request is under way at a time. Stalls: a request waits until AXI answers. It
    must stay as it is until then, as Wishbone asks of an initiator that does not give up.

    Members
    -------
    wishbone: WishboneSignature, in
        The processor. `err` for one cycle in place of `ack`: AXI answered with an error, or the
        register is outside the window of 4 KiB.
    axi_lite: AxiLiteSignature, out
    axi_read, axi_write: AxiReadSignature, AxiWriteSignature, out
    """

    def __init__(self, bus_bits: int):
        self._bus_bits = bus_bits
        super().__init__(
            {
                "wishbone": In(WishboneSignature()),
                "axi_lite": Out(AxiLiteSignature()),
                "axi_read": Out(AxiReadSignature(bus_bits)),
                "axi_write": Out(AxiWriteSignature(bus_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.accesses = accesses = Accesses(self._bus_bits)
        for name in ("axi_lite", "axi_read", "axi_write"):
            connect(m, getattr(accesses, name), flipped(getattr(self, name)))
        bus, asked = self.wishbone, Signal()
        m.d.comb += [
            asked.eq(bus.cyc & bus.stb),
            # In the cycle of the answer the request still stands.
            accesses.start.eq(asked & accesses.idle & ~accesses.done),
            accesses.write.eq(bus.we),
            accesses.memory.eq(~bus.adr[29]),
            accesses.address.eq(Cat(Const(0, 2), bus.adr[:29])),
            accesses.data.eq(bus.dat_w),
            accesses.strobe.eq(bus.sel),
            bus.dat_r.eq(accesses.value),
            bus.ack.eq(asked & accesses.done & ~accesses.failed),
            bus.err.eq(asked & accesses.done & accesses.failed),
        ]
        return m
