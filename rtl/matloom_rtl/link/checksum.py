"""CRC-32 over bytes, one bit per cycle."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.link import CRC_INITIAL, CRC_POLYNOMIAL, CRC_RESIDUE

__all__ = ["CYCLES_PER_BYTE", "Checksum"]

#: Minimum cycles from one byte to the next.
CYCLES_PER_BYTE = 9


class Checksum(wiring.Component):
    """CRC-32 with the link's polynomial, one bit per cycle.

    One bit per cycle is enough, as a byte takes at least 20 cycles on the line, and needs a quarter
    of the area of one byte per cycle. Latency: `value` includes a byte nine cycles after it was
    taken.

    Members
    -------
    clear: in
        Start again; a byte in the same cycle is lost.
    data, valid: in
        A byte, for one cycle, while `busy` is low.
    busy: out
        The value does not yet include the last byte.
    value: out
        The CRC register; its complement is the checksum.
    good: out
        The last four bytes are the checksum of all bytes before them since `clear`.
    """

    def __init__(self):
        super().__init__(
            {
                "clear": In(1),
                "data": In(8),
                "valid": In(1),
                "busy": Out(1),
                "value": Out(32, init=CRC_INITIAL),
                "good": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: a shift register that divides by the polynomial."""
        m = Module()
        bits = Signal(8)
        left = Signal(range(9))
        divided = Signal(32)
        m.d.comb += [
            divided.eq((self.value >> 1) ^ Mux(self.value[0] ^ bits[0], CRC_POLYNOMIAL, 0)),
            self.busy.eq(left != 0),
            self.good.eq(self.value == CRC_RESIDUE),
        ]
        with m.If(self.clear):
            m.d.sync += [self.value.eq(CRC_INITIAL), left.eq(0)]
        with m.Elif(self.busy):
            m.d.sync += [self.value.eq(divided), bits.eq(bits >> 1), left.eq(left - 1)]
        with m.Elif(self.valid):
            m.d.sync += [bits.eq(self.data), left.eq(8)]
        return m
