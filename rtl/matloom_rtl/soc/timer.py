"""Timer of the processor, with interrupt."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.soc.peripheral import PeripheralSignature, place_of

__all__ = ["Timer"]


class Timer(wiring.Component):
    """64-bit cycle counter that raises an interrupt from a compare value on.

    Latency: `irq` follows COUNT >= COMPARE, and writes, by two cycles. Reset restarts the count
    without an interrupt.

    Parameters
    ----------
    first:
        Value of the count after a reset.

    Members
    -------
    port: PeripheralSignature, in
        Registers of TIMER (docs/soc.md).
    irq: out
    """

    def __init__(self, first: int = 0):
        self._first = first
        super().__init__({"port": In(PeripheralSignature()), "irq": Out(1)})

    def elaborate(self, platform):
        """Return the module: the counter, the compare value, and their registers."""
        m = Module()
        port = self.port
        count = Signal(64, init=self._first)
        high = Signal(32)
        compare = Signal(64, init=-1)
        enabled = Signal()
        reached = Signal()
        m.d.sync += [
            count.eq(count + 1),
            reached.eq(count >= compare),
            self.irq.eq(reached & enabled),
        ]
        with m.Switch(port.place):
            with m.Case(place_of("TIMER", "COUNT_LOW")):
                m.d.comb += port.value.eq(count[:32])
                with m.If(port.read):
                    m.d.sync += high.eq(count[32:])
            with m.Case(place_of("TIMER", "COUNT_HIGH")):
                m.d.comb += port.value.eq(high)
            with m.Case(place_of("TIMER", "COMPARE_LOW")):
                m.d.comb += port.value.eq(compare[:32])
                with m.If(port.write):
                    m.d.sync += compare[:32].eq(port.data)
            with m.Case(place_of("TIMER", "COMPARE_HIGH")):
                m.d.comb += port.value.eq(compare[32:])
                with m.If(port.write):
                    m.d.sync += compare[32:].eq(port.data)
            with m.Case(place_of("TIMER", "CONTROL")):
                m.d.comb += port.value.eq(enabled)
                with m.If(port.write):
                    m.d.sync += enabled.eq(port.data[0])
        return m
