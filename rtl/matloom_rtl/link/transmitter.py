"""Transmitter of a serial line: 8 data bits, no parity, one stop bit."""

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Transmitter"]

_BITS = 10


class Transmitter(wiring.Component):
    """Serial transmitter.

    Latency: the start bit begins in the cycle after a byte is taken. Throughput: one byte per ten
    bit lengths, without gaps while bytes are available. `ready` is high in the last cycle of a byte
    and when idle.

    Members
    -------
    i: stream, in
        Bytes.
    tx: out
        Serial line, registered.

    Parameters
    ----------
    divisor, bits:
        As in `Receiver`.
    """

    def __init__(self, divisor: int | Value, bits: int | None = None):
        self._divisor, self._bits = divisor, bits
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        """Return the module: a bit timer and a shift register."""
        m = Module()
        timer = Signal(self._bits or range(self._divisor))
        left = Signal(range(_BITS + 1))
        bits = Signal(_BITS, init=-1)
        m.d.comb += [
            self.tx.eq(bits[0]),
            self.i.ready.eq((left == 0) | ((left == 1) & (timer == 0))),
        ]
        m.d.sync += timer.eq(timer - 1)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += bits.eq(Cat(Const(0, 1), self.i.payload, Const(1, 1)))
            m.d.sync += [timer.eq(self._divisor - 1), left.eq(_BITS)]
        with m.Elif((left != 0) & (timer == 0)):
            m.d.sync += [bits.eq(Cat(bits[1:], Const(1, 1))), left.eq(left - 1)]
            m.d.sync += timer.eq(self._divisor - 1)
        return m
