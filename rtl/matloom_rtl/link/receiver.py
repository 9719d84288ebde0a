"""Receiver of a serial line: 8 data bits, no parity, one stop bit."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["Receiver"]

_STOP = 9


class Receiver(wiring.Component):
    """Serial receiver: samples each bit in its middle; drops bytes without a stop bit.

    A start bit that has ended by its middle is ignored as a glitch. After a missing stop bit the
    line must rise before the next start bit, so that a break is one dropped byte.

    Latency: `valid` follows the middle of the stop bit by three cycles, two of them in the
    synchroniser. No backpressure: a byte must be taken in the cycle in which it is valid.

    Members
    -------
    rx: in
        Serial line, asynchronous.
    data, valid: out
        A byte, for one cycle.
    broken: out
        A byte without a stop bit was dropped; for one cycle.

    Parameters
    ----------
    divisor:
        Bit length in cycles, at least 2: a number, or a signal that changes only between bytes.
    bits:
        Width of such a signal.
    """

    def __init__(self, divisor: int | Value, bits: int | None = None):
        self._divisor, self._bits = divisor, bits
        super().__init__({"rx": In(1, init=1), "data": Out(8), "valid": Out(1), "broken": Out(1)})

    def elaborate(self, platform):
        """Return the module: a synchroniser, a bit timer and a shift register."""
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, line, init=1)

        busy = Signal()
        waits = Signal()
        timer = Signal(self._bits or range(self._divisor))
        bit = Signal(range(_STOP + 1))
        m.d.sync += [self.valid.eq(0), self.broken.eq(0), timer.eq(timer - 1)]
        with m.If(~busy):
            m.d.sync += [timer.eq(self._divisor // 2 - 1), bit.eq(0), waits.eq(waits & ~line)]
            m.d.sync += busy.eq(~line & ~waits)
        with m.Elif(timer == 0):
            m.d.sync += [timer.eq(self._divisor - 1), bit.eq(bit + 1)]
            with m.If(bit == 0):
                m.d.sync += busy.eq(~line)
            with m.Elif(bit == _STOP):
                m.d.sync += [busy.eq(0), waits.eq(~line)]
                m.d.sync += [self.valid.eq(line), self.broken.eq(~line)]
            with m.Else():
                m.d.sync += self.data.eq(Cat(self.data[1:], line))
        return m
