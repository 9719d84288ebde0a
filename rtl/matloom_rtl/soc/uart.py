"""UART: serial line of the processor."""

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
    """UART with a receive queue and a one-byte transmit buffer.

    Latency: transmission starts in the second cycle after a write; a received byte can be read from
    the second cycle after its `valid` (`matloom_rtl.link.receiver`). Throughput: buffered bytes are
    sent without a gap. The line is never stalled: a byte that finds the queue full is lost and sets
    `overrun`. Reset empties both directions.

    Parameters
    ----------
    divisor:
        Initial bit length in cycles.
    room:
        Capacity of the receive queue; 2,048 bytes hold a window of the host link, in a block RAM.

    Members
    -------
    port: PeripheralSignature, in
        Registers of UART (docs/soc.md).
    rx, tx: in, out
        Serial line.
    irq: out
        A received byte is waiting.
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
        """Return the module: receiver with a queue, transmitter, and their registers."""
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
