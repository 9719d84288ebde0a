# amaranth: UnusedElaboratable=no
"""The register channels: directions, and agreement of both sides."""

from amaranth.hdl import Module
from amaranth.lib.wiring import connect, flipped

from matloom_rtl.bus.axi_lite import AxiLiteSignature


def test_connects_initiator_to_slave():
    initiator, slave = AxiLiteSignature().create(), AxiLiteSignature().flip().create()
    connect(Module(), flipped(initiator), flipped(slave))


def test_payloads():
    bus = AxiLiteSignature().create()
    assert len(bus.aw.payload) == len(bus.ar.payload) == 12
    assert (len(bus.w.payload.data), len(bus.w.payload.strb)) == (32, 4)
    assert (len(bus.r.payload.data), len(bus.r.payload.resp), len(bus.b.payload)) == (32, 2, 2)
