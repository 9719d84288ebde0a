"""FIFO without overflow and underflow checks, for users that know whether there is room."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["UncheckedFIFO"]


class UncheckedFIFO(wiring.Component):
    """FIFO without overflow and underflow protection.

    The writer must know that there is room. No gate precedes the memory, and the fill level is not
    shown.

    Latency: an item can be taken in the cycle after it was written. Throughput: one write and one
    read per cycle. Reset discards the items.

    Parameters
    ----------
    width:
        Number of bits per item.
    depth:
        Capacity in items.

    Members
    -------
    w_en, w_data: in
        Write an item; only if there is room.
    r_rdy, r_data: out
        Whether there is an item, and the oldest item.
    r_en: in
        Take the oldest item; only with `r_rdy`.
    """

    def __init__(self, *, width: int, depth: int):
        self._width, self._depth = width, depth
        super().__init__(
            {
                "w_en": In(1),
                "w_data": In(width),
                "r_rdy": Out(1),
                "r_data": Out(width),
                "r_en": In(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: a memory, and two indices into it that wrap."""
        m = Module()
        places = 1 << (self._depth - 1).bit_length()
        m.submodules.storage = storage = Memory(shape=self._width, depth=places, init=[])
        write, read = storage.write_port(), storage.read_port(domain="comb")
        level = Signal(range(self._depth + 1))
        m.d.comb += [
            write.en.eq(self.w_en),
            write.data.eq(self.w_data),
            self.r_data.eq(read.data),
        ]
        m.d.sync += [
            write.addr.eq(write.addr + self.w_en),
            read.addr.eq(read.addr + self.r_en),
            level.eq(level + self.w_en - self.r_en),
            self.r_rdy.eq(self.w_en | (level > self.r_en)),
        ]
        return m
