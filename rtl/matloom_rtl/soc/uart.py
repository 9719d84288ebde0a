"""UART: the processor's serial line."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from matloom.arch.soc import soc_register
from matloom_rtl.link.receiver import Receiver
from matloom_rtl.link.transmitter import Transmitter
from matloom_rtl.soc.peripheral import PeripheralSignature, place_of

__all__ = ["Uart"]

_DIVISOR_BITS = soc_register("UART", "DIVISOR").width


class Uart(wiring.Component):
    """Registers, a queue of received bytes, and one byte that waits to be sent.

    Latency: a byte is sent from the second cycle after its write on; a received one can be read
    from the second cycle after its `valid` (`matloom_rtl.link.receiver`). Bytes that wait to be
    sent go without a gap. Nothing stalls the line: a byte without room is lost, and `overrun`
    says so. A reset empties both ways.

    Parameters
    ----------
    divisor:
        First cycles of a bit.
    room:
        Received bytes that may wait: with 2,048 a window of the host link, and a block RAM.

    Members
    -------
    port: PeripheralSignature, in
        The registers of UART (docs/soc.md).
    rx, tx: in, out
        The line.
    irq: out
        A received byte waits.
    """

    def __init__(self, divisor: int, room: int = 2048):
        self._divisor, self._room = divisor, room
        super().__init__(
            {
                "port": In(PeripheralSignature()),
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        port = self.port
        divisor = Signal(_DIVISOR_BITS, init=self._divisor)
        m.submodules.receiver = receiver = Receiver(divisor, bits=_DIVISOR_BITS)
        m.submodules.transmitter = transmitter = Transmitter(divisor, bits=_DIVISOR_BITS)
        m.submodules.received = received = SyncFIFOBuffered(width=8, depth=self._room)
        full = Signal()
        overrun = Signal()
        m.d.comb += [
            receiver.rx.eq(self.rx),
            received.w_data.eq(receiver.data),
            received.w_en.eq(receiver.valid),
            self.irq.eq(received.r_rdy),
            transmitter.i.valid.eq(full),
            self.tx.eq(transmitter.tx),
        ]
        m.d.sync += overrun.eq(overrun | (receiver.valid & ~received.w_rdy))
        with m.If(transmitter.i.ready):
            m.d.sync += full.eq(0)
        with m.Switch(port.place):
            with m.Case(place_of("UART", "DATA")):
                m.d.comb += received.r_en.eq(port.read)
                with m.If(received.r_rdy):
                    m.d.comb += port.value.eq(received.r_data)
                with m.If(port.write & ~full):
                    m.d.sync += [full.eq(1), transmitter.i.payload.eq(port.data)]
            with m.Case(place_of("UART", "STATUS")):
                m.d.comb += port.value.eq(Cat(received.r_rdy, ~full, overrun))
                with m.If(port.write & port.data[2]):
                    m.d.sync += overrun.eq(0)
            with m.Case(place_of("UART", "DIVISOR")):
                m.d.comb += port.value.eq(divisor)
                with m.If(port.write):
                    m.d.sync += divisor.eq(port.data)
        return m
