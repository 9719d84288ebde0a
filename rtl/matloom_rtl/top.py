"""The chip: the core behind flat AXI names. The only file with foreign names; no logic."""

from amaranth.hdl import ClockDomain, ClockSignal, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.core import Core

__all__ = ["Top"]

#: INCR bursts of normal, non-cacheable, bufferable memory; unprivileged secure data.
_BURST_INCR = 1
_CACHE = 0b0011
_PROT = 0


def _axil_ports() -> dict:
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


def _address_ports(channel: str) -> dict:
    return {
        f"m_axi_{channel}id": Out(1),
        f"m_axi_{channel}addr": Out(32),
        f"m_axi_{channel}len": Out(8),
        f"m_axi_{channel}size": Out(3),
        f"m_axi_{channel}burst": Out(2),
        f"m_axi_{channel}lock": Out(1),
        f"m_axi_{channel}cache": Out(4),
        f"m_axi_{channel}prot": Out(3),
        f"m_axi_{channel}qos": Out(4),
        f"m_axi_{channel}valid": Out(1),
        f"m_axi_{channel}ready": In(1),
    }


def _data_ports(config: Config) -> dict:
    return {
        "m_axi_wdata": Out(config.bus_bits),
        "m_axi_wstrb": Out(config.bus_bytes),
        "m_axi_wlast": Out(1),
        "m_axi_wvalid": Out(1),
        "m_axi_wready": In(1),
        "m_axi_bid": In(1),
        "m_axi_bresp": In(2),
        "m_axi_bvalid": In(1),
        "m_axi_bready": Out(1),
        "m_axi_rid": In(1),
        "m_axi_rdata": In(config.bus_bits),
        "m_axi_rresp": In(2),
        "m_axi_rlast": In(1),
        "m_axi_rvalid": In(1),
        "m_axi_rready": Out(1),
    }


class Top(wiring.Component):
    """The generated chip: clock, synchronous reset, AXI4-Lite slave, AXI4 master, interrupt.

    Members
    -------
    clk, rst: in
        Clock of everything, and its synchronous, active-high reset. It must last two cycles at
        least, because the units follow a cycle later; VALID outputs are low from the first on.
    s_axil_*: AXI4-Lite slave, 32 bits, `csr.WINDOW_BYTES` of registers
    m_axi_*: AXI4 master, `bus_bits` of data, 32 bits of address
    irq: out
        Level interrupt, see registers IRQ_ENABLE and IRQ_STATUS.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "clk": In(1),
                "rst": In(1),
                **_axil_ports(),
                **_address_ports("ar"),
                **_address_ports("aw"),
                **_data_ports(config),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.core = core = Core(self._config)
        m.d.comb += [
            ClockSignal().eq(self.clk),
            core.reset.eq(self.rst),
            self.irq.eq(core.irq),
        ]
        self._connect_registers(m, core.axi_lite)
        self._connect_memory(m, core)
        return m

    def _connect_registers(self, m: Module, bus):
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

    def _connect_memory(self, m: Module, core):
        read, write = core.axi_read, core.axi_write
        self._connect_address(m, "ar", read.ar)
        self._connect_address(m, "aw", write.aw)
        m.d.comb += [
            read.r.payload.id.eq(self.m_axi_rid),
            read.r.payload.data.eq(self.m_axi_rdata),
            read.r.payload.resp.eq(self.m_axi_rresp),
            read.r.payload.last.eq(self.m_axi_rlast),
            read.r.valid.eq(self.m_axi_rvalid),
            self.m_axi_rready.eq(read.r.ready),
            self.m_axi_wdata.eq(write.w.payload.data),
            self.m_axi_wstrb.eq(write.w.payload.strb),
            self.m_axi_wlast.eq(write.w.payload.last),
            self.m_axi_wvalid.eq(write.w.valid),
            write.w.ready.eq(self.m_axi_wready),
            write.b.payload.id.eq(self.m_axi_bid),
            write.b.payload.resp.eq(self.m_axi_bresp),
            write.b.valid.eq(self.m_axi_bvalid),
            self.m_axi_bready.eq(write.b.ready),
        ]

    def _connect_address(self, m: Module, channel: str, bus):
        def port(name):
            return getattr(self, f"m_axi_{channel}{name}")

        m.d.comb += [
            port("id").eq(bus.payload.id),
            port("addr").eq(bus.payload.addr),
            port("len").eq(bus.payload.len),
            port("size").eq(Const(self._config.bus_bytes.bit_length() - 1, 3)),
            port("burst").eq(_BURST_INCR),
            port("cache").eq(_CACHE),
            port("prot").eq(_PROT),
            port("valid").eq(bus.valid),
            bus.ready.eq(port("ready")),
        ]
