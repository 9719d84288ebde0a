"""Top level of a chip with a serial line instead of an AXI4-Lite subordinate."""

from amaranth.hdl import ClockDomain, ClockSignal, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.flat import connect_memory, memory_ports

__all__ = ["LinkedTop"]


class LinkedTop(wiring.Component):
    """Top level of an engine with a serial line: clock, reset, two pins, AXI4 manager.

    Parameters
    ----------
    config:
        The engine.
    linked:
        Contents: `LinkedCore`, or `matloom_rtl.soc.core.SocCore`.

    Members
    -------
    clk, rst: in
        As in `Top`.
    uart_rx, uart_tx: in, out
        Serial line; for a host link see docs/link.md.
    m_axi_*: AXI4 manager, as in `Top`
    """

    def __init__(self, config: Config, linked: wiring.Component):
        self._config, self._linked = config, linked
        super().__init__(
            {
                "clk": In(1),
                "rst": In(1),
                "uart_rx": In(1, init=1),
                "uart_tx": Out(1, init=1),
                **memory_ports(config),
            }
        )

    def elaborate(self, platform):
        """Return the module: a `LinkedCore`, connected to flat ports."""
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.linked = linked = self._linked
        m.d.comb += [
            ClockSignal().eq(self.clk),
            linked.reset.eq(self.rst),
            linked.rx.eq(self.uart_rx),
            self.uart_tx.eq(linked.tx),
        ]
        connect_memory(m, self, self._config, linked.axi_read, linked.axi_write)
        return m
