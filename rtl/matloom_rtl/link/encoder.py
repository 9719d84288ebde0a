"""Encoder of replies for the line: adds the synchronising byte and the checksum."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.link import CRC_BYTES, SYNC
from matloom_rtl.link.checksum import Checksum
from matloom_rtl.link.decoder import FrameByte

__all__ = ["Encoder"]


class Encoder(wiring.Component):
    """Add the synchronising byte before each frame, and its CRC-32 after it.

    Latency: none for the bytes of a frame, except that the first waits for the synchronising byte.
    Throughput: one byte in ten or more cycles, the rate of the line; no gap between frames. Stalls:
    `i` waits for `o`.

    Members
    -------
    i: stream of FrameByte, in
        Replies without synchronising byte and checksum.
    o: stream, out
        Bytes, taken at least ten cycles apart.
    """

    def __init__(self):
        super().__init__({"i": In(stream.Signature(FrameByte)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        """Return the module: a state machine for the three parts of a frame."""
        m = Module()
        m.submodules.checksum = checksum = Checksum()
        place = Signal(range(CRC_BYTES))
        taken = self.o.valid & self.o.ready
        m.d.comb += checksum.data.eq(self.i.payload.data)
        with m.FSM():
            with m.State("Sync"):
                m.d.comb += [self.o.payload.eq(SYNC), self.o.valid.eq(self.i.valid)]
                m.d.comb += checksum.clear.eq(1)
                with m.If(taken):
                    m.next = "Body"
            with m.State("Body"):
                m.d.comb += [
                    self.o.payload.eq(self.i.payload.data),
                    self.o.valid.eq(self.i.valid & ~checksum.busy),
                    self.i.ready.eq(self.o.ready & ~checksum.busy),
                    checksum.valid.eq(taken),
                ]
                with m.If(taken & self.i.payload.last):
                    m.next = "Checksum"
            with m.State("Checksum"):
                m.d.comb += [
                    self.o.payload.eq(~checksum.value.word_select(place, 8)),
                    self.o.valid.eq(~checksum.busy),
                ]
                with m.If(taken):
                    m.d.sync += place.eq(place + 1)
                    with m.If(place == CRC_BYTES - 1):
                        m.next = "Sync"
        return m
