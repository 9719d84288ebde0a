"""The chip with its host link instead of an AXI4-Lite slave. Foreign names; no logic."""

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from matloom.arch.config import Config
from matloom_rtl.core import Core
from matloom_rtl.flat import connect_memory, memory_ports
from matloom_rtl.link.link import Link
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.link.share import Share

__all__ = ["LinkedTop"]


class LinkedTop(wiring.Component):
    """The engine behind a serial line: clock, reset, two pins, AXI4 master.

    Members
    -------
    clk, rst: in
        As those of `Top`.
    uart_rx, uart_tx: in, out
        The line, see docs/link.md.
    m_axi_*: AXI4 master, as that of `Top`
    """

    def __init__(self, config: Config, settings: LinkSettings):
        self._config, self._settings = config, settings
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
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.core = core = Core(self._config)
        link, share = Link(self._config, self._settings), Share(self._config)
        m.submodules.link = ResetInserter(self.rst)(link)
        m.submodules.share = ResetInserter(self.rst)(share)
        m.d.comb += [
            ClockSignal().eq(self.clk),
            core.reset.eq(self.rst),
            link.rx.eq(self.uart_rx),
            link.irq.eq(core.irq),
            self.uart_tx.eq(link.tx),
        ]
        connect(m, link.axi_lite, core.axi_lite)
        connect(m, core.axi_read, share.engine_read)
        connect(m, core.axi_write, share.engine_write)
        connect(m, link.axi_read, share.link_read)
        connect(m, link.axi_write, share.link_write)
        connect_memory(m, self, self._config, share.axi_read, share.axi_write)
        return m
