"""Host link between the pins of a serial line and registers and memory."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.config import Config
from matloom.arch.link import BOARD_BYTES, LINK_IDENTITY
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.bus.axi_lite import AxiLiteSignature
from matloom_rtl.link.accesses import Accesses
from matloom_rtl.link.decoder import Decoder
from matloom_rtl.link.encoder import Encoder
from matloom_rtl.link.executor import Executor
from matloom_rtl.link.receiver import Receiver
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.link.transmitter import Transmitter

__all__ = ["Link"]


class Link(wiring.Component):
    """Serve requests from a serial line (docs/link.md).

    Latency: about 30 cycles, plus the time of its accesses, from the last stop bit of a request to
    the first start bit of its reply. Throughput: that of the line in both directions, if memory
    delivers a 32-bit word within 40 bit lengths. Reset ends the session and discards whatever is in
    progress.

    Members
    -------
    rx, tx: in, out
        Serial line.
    irq: in
        Interrupt of the engine.
    axi_lite: AxiLiteSignature, out
        Registers of the engine.
    axi_read, axi_write: AxiReadSignature, AxiWriteSignature, out
        External memory.
    """

    def __init__(self, config: Config, settings: LinkSettings):
        self._config, self._settings = config, settings
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "irq": In(1),
                "axi_lite": Out(AxiLiteSignature()),
                "axi_read": Out(AxiReadSignature(config.bus_bits)),
                "axi_write": Out(AxiWriteSignature(config.bus_bits)),
            }
        )

    def _hello(self) -> list[int]:
        """Return the words of `matloom.arch.link.HELLO`."""
        settings = self._settings
        board = settings.board.encode().ljust(BOARD_BYTES, b"\0")
        names = [int.from_bytes(board[k : k + 4], "little") for k in range(0, BOARD_BYTES, 4)]
        return [
            LINK_IDENTITY,
            settings.clock_hz,
            self._config.digest,
            settings.memory_base,
            settings.memory_bytes,
            0,
            *names,
        ]

    def elaborate(self, platform):
        """Return the module: receiver, decoder, executor, encoder and transmitter in a chain."""
        m = Module()
        divisor = self._settings.divisor
        m.submodules.receiver = receiver = Receiver(divisor)
        m.submodules.decoder = decoder = Decoder()
        m.submodules.executor = executor = Executor(self._hello())
        m.submodules.accesses = accesses = Accesses(self._config.bus_bits)
        m.submodules.encoder = encoder = Encoder()
        m.submodules.transmitter = transmitter = Transmitter(divisor)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            decoder.data.eq(receiver.data),
            decoder.valid.eq(receiver.valid),
            executor.irq.eq(self.irq),
            self.tx.eq(transmitter.tx),
        ]
        m.d.comb += [
            getattr(accesses, name).eq(getattr(executor, name))
            for name in ("start", "write", "memory", "address", "data", "strobe")
        ]
        m.d.comb += [
            getattr(executor, name).eq(getattr(accesses, name))
            for name in ("idle", "done", "failed", "value")
        ]
        connect(m, decoder.o, executor.i)
        connect(m, executor.o, encoder.i)
        connect(m, encoder.o, transmitter.i)
        for name in ("axi_lite", "axi_read", "axi_write"):
            connect(m, getattr(accesses, name), flipped(getattr(self, name)))
        return m
