"""Lane of a large memory: some bits of each word, with registers near its block RAMs."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["MemoryLane"]


class MemoryLane(wiring.Component):
    """Memory of `words` words of `bits` bits each, with registered inputs and outputs.

    The block RAMs of a large memory are spread over the device. So each lane registers its inputs
    and outputs, and an attribute keeps tools from merging the input registers of several lanes.

    Read latency: three cycles. A write in cycle t is visible to reads from cycle t + 1 on; a read
    in cycle t itself is undefined. Throughput: one read and one write per cycle, without
    backpressure.

    Members
    -------
    read_word: in
        Index of the word to read.
    found: out
        The word, three cycles later.
    write_word, data, strobes: in
        Index and contents of the word to write; only bytes with a strobe are written.
    """

    def __init__(self, *, words: int, bits: int):
        self._words, self._bits = words, bits
        super().__init__(
            {
                "read_word": In(range(words)),
                "found": Out(bits),
                "write_word": In(range(words)),
                "data": In(bits),
                "strobes": In(bits // 8),
            }
        )

    def elaborate(self, platform):
        """Return the module: the memory, with a register for each signal to and from it."""
        m = Module()

        def near(signal):
            """Return a copy of a signal, one cycle later, in a register close to the memory."""
            copy = Signal(
                signal.shape(), name=f"{signal.name}_near", reset_less=True, attrs={"keep": 1}
            )
            m.d.sync += copy.eq(signal)
            return copy

        # `no_rw_check`: omits the logic that returns the old word when a read meets a write.
        m.submodules.memory = memory = Memory(
            shape=self._bits, depth=self._words, init=[], attrs={"no_rw_check": 1}
        )
        read, write = memory.read_port(), memory.write_port(granularity=8)
        m.d.comb += [
            read.addr.eq(near(self.read_word)),
            write.addr.eq(near(self.write_word)),
            write.data.eq(near(self.data)),
            write.en.eq(near(self.strobes)),
        ]
        m.d.sync += self.found.eq(read.data)
        return m
