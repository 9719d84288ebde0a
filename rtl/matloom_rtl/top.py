"""Top level of the chip: the core with flat AXI names, without logic."""

from amaranth.hdl import ClockDomain, ClockSignal, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.core import Core
from matloom_rtl.flat import connect_memory, memory_ports

__all__ = ["Top"]


def _axil_ports() -> dict:
    """Return the ports of the AXI4-Lite register interface, by name."""
    return {
        "s_axil_awaddr": In(12),
        "s_axil_awprot": In(3),
        "s_axil_awvalid": In(1),
        "s_axil_awready": Out(1),
        "s_axil_wdata": In(32),
        "s_axil_wstrb": In(4),
        "s_axil_wvalid": In(1),
        "s_axil_wready": Out(1),
        "s_axil_bresp": Out(2),
        "s_axil_bvalid": Out(1),
        "s_axil_bready": In(1),
        "s_axil_araddr": In(12),
        "s_axil_arprot": In(3),
        "s_axil_arvalid": In(1),
        "s_axil_arready": Out(1),
        "s_axil_rdata": Out(32),
        "s_axil_rresp": Out(2),
        "s_axil_rvalid": Out(1),
        "s_axil_rready": In(1),
    }


class Top(wiring.Component):
    """Top level of the chip: clock, synchronous reset, AXI4-Lite, AXI4 manager, interrupt.

    Members
    -------
    clk, rst: in
        Clock, and its synchronous, active-high reset. The reset must last at least two cycles,
        because the units follow one cycle later; VALID outputs are low from the first.
    s_axil_*: AXI4-Lite subordinate, 32 bits, `csr.WINDOW_BYTES` of registers
    m_axi_*: AXI4 manager, `bus_bits` of data, 32 bits of address
    irq: out
        Level-sensitive interrupt, see registers IRQ_ENABLE and IRQ_STATUS.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "clk": In(1),
                "rst": In(1),
                **_axil_ports(),
                **memory_ports(config),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: clock domain, core, and the connections of the flat ports."""
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.core = core = Core(self._config)
        m.d.comb += [
            ClockSignal().eq(self.clk),
            core.reset.eq(self.rst),
            self.irq.eq(core.irq),
        ]
        self._connect_registers(m, core.axi_lite)
        connect_memory(m, self, self._config, core.axi_read, core.axi_write)
        return m

    def _connect_registers(self, m: Module, bus):
        """Connect the top module's AXI4-Lite ports to the core's register bus."""
        m.d.comb += [
            bus.aw.payload.eq(self.s_axil_awaddr),
            bus.aw.valid.eq(self.s_axil_awvalid),
            self.s_axil_awready.eq(bus.aw.ready),
            bus.w.payload.data.eq(self.s_axil_wdata),
            bus.w.payload.strb.eq(self.s_axil_wstrb),
            bus.w.valid.eq(self.s_axil_wvalid),
            self.s_axil_wready.eq(bus.w.ready),
            self.s_axil_bresp.eq(bus.b.payload),
            self.s_axil_bvalid.eq(bus.b.valid),
            bus.b.ready.eq(self.s_axil_bready),
            bus.ar.payload.eq(self.s_axil_araddr),
            bus.ar.valid.eq(self.s_axil_arvalid),
            self.s_axil_arready.eq(bus.ar.ready),
            self.s_axil_rdata.eq(bus.r.payload.data),
            self.s_axil_rresp.eq(bus.r.payload.resp),
            self.s_axil_rvalid.eq(bus.r.valid),
            bus.r.ready.eq(self.s_axil_rready),
        ]
