"""External memory port of a top level, with flat AXI4 names and without logic."""

from amaranth.hdl import Const, Module
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config

__all__ = ["connect_memory", "memory_ports"]

#: Constant attributes: INCR bursts of normal, non-cacheable, bufferable memory; unprivileged secure
#: data.
_BURST_INCR = 1
_CACHE = 0b0011
_PROT = 0


def memory_ports(config: Config) -> dict:
    """Return the ports of an AXI4 manager by name, for `wiring.Component`."""
    return {**_address_ports("ar"), **_address_ports("aw"), **_data_ports(config)}


def _address_ports(channel: str) -> dict:
    """Return the ports of an AXI address channel, `aw` or `ar`, by name."""
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
    """Return the ports of AXI's write data, write response and read data channels, by name."""
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


def connect_memory(m: Module, top, config: Config, read, write):
    """Connect the ports of a top level to the two halves of an initiator's bus.

    `read` and `write` are of `AxiReadSignature` and `AxiWriteSignature`.
    """
    _connect_address(m, top, config, "ar", read.ar)
    _connect_address(m, top, config, "aw", write.aw)
    m.d.comb += [
        read.r.payload.id.eq(top.m_axi_rid),
        read.r.payload.data.eq(top.m_axi_rdata),
        read.r.payload.resp.eq(top.m_axi_rresp),
        read.r.payload.last.eq(top.m_axi_rlast),
        read.r.valid.eq(top.m_axi_rvalid),
        top.m_axi_rready.eq(read.r.ready),
        top.m_axi_wdata.eq(write.w.payload.data),
        top.m_axi_wstrb.eq(write.w.payload.strb),
        top.m_axi_wlast.eq(write.w.payload.last),
        top.m_axi_wvalid.eq(write.w.valid),
        write.w.ready.eq(top.m_axi_wready),
        write.b.payload.id.eq(top.m_axi_bid),
        write.b.payload.resp.eq(top.m_axi_bresp),
        write.b.valid.eq(top.m_axi_bvalid),
        top.m_axi_bready.eq(write.b.ready),
    ]


def _connect_address(m: Module, top, config: Config, channel: str, bus):
    """Connect an AXI address channel to the flat signals of the top module."""

    def port(name):
        """Return the top module's port for a signal of this channel, such as ``valid``."""
        return getattr(top, f"m_axi_{channel}{name}")

    m.d.comb += [
        port("id").eq(bus.payload.id),
        port("addr").eq(bus.payload.addr),
        port("len").eq(bus.payload.len),
        port("size").eq(Const(config.bus_bytes.bit_length() - 1, 3)),
        port("burst").eq(_BURST_INCR),
        port("cache").eq(_CACHE),
        port("prot").eq(_PROT),
        port("valid").eq(bus.valid),
        bus.ready.eq(port("ready")),
    ]
