"""Queue of bytes that wait for the results to which they are added."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config

__all__ = ["WaitingBytes"]


class WaitingBytes(wiring.Component):
    """Queue of vectors of bytes, in block RAM, without overflow protection.

    Latency: a vector can be taken three cycles after it arrived at the earliest. Throughput: one
    vector per cycle. Never stalls: at most `PLACES` vectors may wait. Reset discards all.

    Members
    -------
    arrives, arriving: in
        A vector arrives, and its 8 bits per column.
    takes: in
        The oldest vector is used in this cycle; the next one is shown in the next cycle.
    oldest: out
        The oldest vector.
    """

    #: Capacity in vectors: more than those that wait for the lanes, are in them, or just arrived.
    PLACES = 32

    def __init__(self, config: Config):
        bits = 8 * config.columns
        super().__init__(
            {"arrives": In(1), "arriving": In(bits), "takes": In(1), "oldest": Out(bits)}
        )

    def elaborate(self, platform):
        """Return the module: a memory, and the addresses of its oldest and its next vector."""
        m = Module()
        memory = Memory(
            shape=len(self.arriving),
            depth=self.PLACES,
            init=[],
            attrs={"ram_style": "block", "no_rw_check": 1},
        )
        m.submodules.bytes = memory
        write, read = memory.write_port(), memory.read_port()
        at = Signal.like(read.addr)
        m.d.comb += [
            write.en.eq(self.arrives),
            write.data.eq(self.arriving),
            read.addr.eq(at + self.takes),
            self.oldest.eq(read.data),
        ]
        m.d.sync += [at.eq(read.addr), write.addr.eq(write.addr + self.arrives)]
        return m
