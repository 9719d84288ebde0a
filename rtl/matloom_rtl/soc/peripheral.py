"""Peripheral registers of the processor, and the bridge from its bus to them."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.soc import soc_register
from matloom_rtl.soc.wishbone import WishboneSignature

__all__ = ["PeripheralBridge", "PeripheralSignature", "place_of"]

#: Width of a register's index, and of a byte address in the window of a peripheral.
_PLACE_BITS, _WINDOW_BITS = 4, 12


class PeripheralSignature(wiring.Signature):
    """Register port of a peripheral: `read` or `write` for one cycle, at register `place`.

    `data` is the word to write. `value`, the word read, is valid in the same cycle.
    """

    def __init__(self):
        super().__init__(
            {
                "read": Out(1),
                "write": Out(1),
                "place": Out(_PLACE_BITS),
                "data": Out(32),
                "value": In(32),
            }
        )


def place_of(peripheral: str, name: str) -> int:
    """Return the index of a register within its peripheral."""
    return soc_register(peripheral, name).offset // 4


class PeripheralBridge(wiring.Component):
    """Bridge from Wishbone to peripherals, whose registers repeat every 64 bytes of a 4 KiB window.

    Latency: one cycle. Throughput: one access in two cycles. Never stalls.

    Parameters
    ----------
    windows:
        For each peripheral, the index of its window: address bits 15 to 12.

    Members
    -------
    wishbone: WishboneSignature, in
    peripheral_0, peripheral_1, ...: PeripheralSignature, out
    """

    def __init__(self, windows: tuple[int, ...]):
        self._windows = windows
        super().__init__(
            {
                "wishbone": In(WishboneSignature()),
                **{f"peripheral_{k}": Out(PeripheralSignature()) for k in range(len(windows))},
            }
        )

    def elaborate(self, platform):
        """Return the module: two-cycle accesses to the peripheral of each window."""
        m = Module()
        bus = self.wishbone
        starts = Signal()
        done = Signal()
        asked = bus.cyc & bus.stb
        m.d.comb += [starts.eq(asked & ~done), bus.ack.eq(asked & done)]
        m.d.sync += done.eq(starts)
        window = bus.adr[_WINDOW_BITS - 2 :][:4]
        for index, number in enumerate(self._windows):
            port = getattr(self, f"peripheral_{index}")
            here = starts & (window == number)
            m.d.comb += [
                port.read.eq(here & ~bus.we),
                port.write.eq(here & bus.we),
                port.place.eq(bus.adr),
                port.data.eq(bus.dat_w),
            ]
            with m.If(here):
                m.d.sync += bus.dat_r.eq(port.value)
        return m
