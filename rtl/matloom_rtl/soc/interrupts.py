"""Interrupt controller of the processor."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.soc import INTERRUPTS
from matloom_rtl.soc.peripheral import PeripheralSignature, place_of

__all__ = ["Interrupts"]


class Interrupts(wiring.Component):
    """Interrupt controller: raises `irq` while an enabled, level-sensitive source is active.

    Latency: `irq` follows its sources, and ENABLE, by one cycle. Reset disables all sources.

    Members
    -------
    port: PeripheralSignature, in
        Registers of INTERRUPTS (docs/soc.md).
    sources: in
        One bit for each of `matloom.arch.soc.INTERRUPTS`.
    irq: out
    """

    def __init__(self):
        super().__init__(
            {"port": In(PeripheralSignature()), "sources": In(len(INTERRUPTS)), "irq": Out(1)}
        )

    def elaborate(self, platform):
        """Return the module: the enable register, and the OR of enabled sources."""
        m = Module()
        port = self.port
        enable = Signal(len(INTERRUPTS))
        m.d.sync += self.irq.eq((self.sources & enable).any())
        with m.Switch(port.place):
            with m.Case(place_of("INTERRUPTS", "PENDING")):
                m.d.comb += port.value.eq(self.sources)
            with m.Case(place_of("INTERRUPTS", "ENABLE")):
                m.d.comb += port.value.eq(enable)
                with m.If(port.write):
                    m.d.sync += enable.eq(port.data)
        return m
