"""Block RAM on a processor's bus, for its boot ROM and private memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In

from matloom_rtl.soc.wishbone import CTI_INCREMENTING, WishboneSignature

__all__ = ["BlockMemory"]


class BlockMemory(wiring.Component):
    """Block RAM as a Wishbone target; addresses wrap at its size.

    Latency: one cycle. Throughput: one word per cycle in a burst, otherwise one word in two cycles.
    Never stalls. Reset keeps the contents.

    Parameters
    ----------
    bytes_:
        Size in bytes, a power of two.
    contents:
        Initial contents, padded with zeros.
    writable:
        If not set, writes respond with an error.

    Members
    -------
    wishbone: WishboneSignature, in
    """

    def __init__(self, bytes_: int, contents: bytes = b"", *, writable: bool):
        if bytes_ & (bytes_ - 1) or len(contents) > bytes_:
            raise ValueError(
                f"contents must fit in a power of two of bytes, not {len(contents)} in {bytes_}"
            )
        padded = contents.ljust(-(-len(contents) // 4) * 4, b"\0")
        self._words = [
            int.from_bytes(padded[k : k + 4], "little") for k in range(0, len(padded), 4)
        ]
        self._depth, self._writable = bytes_ // 4, writable
        super().__init__({"wishbone": In(WishboneSignature())})

    def elaborate(self, platform):
        """Return the module: a memory that acknowledges in the cycle after a request."""
        m = Module()
        bus = self.wishbone
        found = Signal()
        m.submodules.memory = memory = Memory(shape=32, depth=self._depth, init=self._words)
        read = memory.read_port()
        place = Signal(range(self._depth))
        goes_on = found & (bus.cti == CTI_INCREMENTING)
        answers, refused = bus.cyc & bus.stb & found, bus.we & (not self._writable)
        m.d.comb += [
            place.eq(bus.adr),
            # In a burst, prefetch the next word while this one is acknowledged.
            read.addr.eq(Mux(found, place + 1, place)),
            bus.dat_r.eq(read.data),
            bus.ack.eq(answers & ~refused),
            bus.err.eq(answers & refused),
        ]
        m.d.sync += found.eq(bus.cyc & bus.stb & (~found | goes_on))
        if self._writable:
            write = memory.write_port(granularity=8)
            m.d.comb += [
                write.addr.eq(place),
                write.data.eq(bus.dat_w),
                write.en.eq(Mux(answers & bus.we, bus.sel, 0)),
            ]
        return m
