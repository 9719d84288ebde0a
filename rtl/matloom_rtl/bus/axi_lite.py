"""AXI4-Lite channels as streams, from the initiator's view, with 32 bits of data."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ADDRESS_BITS", "AxiLiteSignature", "ReadData", "WriteData"]

#: Width of byte addresses: a window of 4 KiB.
ADDRESS_BITS = 12


class WriteData(data.Struct):
    """One word to write; bit k of `strb` enables byte k."""

    data: unsigned(32)
    strb: unsigned(4)


class ReadData(data.Struct):
    """One word read, and its response: 0 okay, 2 slave error."""

    data: unsigned(32)
    resp: unsigned(2)


class AxiLiteSignature(wiring.Signature):
    """AXI4-Lite: single reads and writes of 32-bit words.

    Payloads of `aw` and `ar` are byte addresses; that of `b` is the response: 0 okay, 2 slave
    error.
    """

    def __init__(self):
        super().__init__(
            {
                "aw": Out(stream.Signature(unsigned(ADDRESS_BITS))),
                "w": Out(stream.Signature(WriteData)),
                "b": In(stream.Signature(unsigned(2))),
                "ar": Out(stream.Signature(unsigned(ADDRESS_BITS))),
                "r": In(stream.Signature(ReadData)),
            }
        )
