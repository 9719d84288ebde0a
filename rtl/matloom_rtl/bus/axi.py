"""AXI4 channels as streams, from the initiator's view.

All bursts are INCR with beats as wide as the bus. Size, burst type and the other constant
attributes are therefore not in the payloads; the top level adds them.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Address", "AxiReadSignature", "AxiWriteSignature", "ReadBeat", "Response", "WriteBeat"]


class Address(data.Struct):
    """Address of a burst of `len` + 1 beats from byte `addr` on, aligned to the bus width."""

    id: unsigned(1)
    addr: unsigned(32)
    len: unsigned(8)


class ReadBeat(data.StructLayout):
    """One beat of read data; bit 1 of `resp` signals an error."""

    def __init__(self, bus_bits: int):
        super().__init__({"id": 1, "data": bus_bits, "resp": 2, "last": 1})


class WriteBeat(data.StructLayout):
    """One beat of write data; bit k of `strb` enables byte k."""

    def __init__(self, bus_bits: int):
        super().__init__({"data": bus_bits, "strb": bus_bits // 8, "last": 1})


class Response(data.Struct):
    """Response to a write burst; bit 1 of `resp` signals an error."""

    id: unsigned(1)
    resp: unsigned(2)


class AxiReadSignature(wiring.Signature):
    """Read bursts: addresses `ar` out, beats `r` in, in order for each id."""

    def __init__(self, bus_bits: int):
        self.bus_bits = bus_bits
        super().__init__(
            {"ar": Out(stream.Signature(Address)), "r": In(stream.Signature(ReadBeat(bus_bits)))}
        )


class AxiWriteSignature(wiring.Signature):
    """Write bursts: addresses `aw` and beats `w` out, one response `b` in for each burst."""

    def __init__(self, bus_bits: int):
        self.bus_bits = bus_bits
        super().__init__(
            {
                "aw": Out(stream.Signature(Address)),
                "w": Out(stream.Signature(WriteBeat(bus_bits))),
                "b": In(stream.Signature(Response)),
            }
        )
