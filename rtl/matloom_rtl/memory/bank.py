"""One scratchpad bank: an even and an odd memory, a word of each wide."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Bank"]


class Bank(wiring.Component):
    """Read and write an even and an odd word, side by side or one line apart.

    Words alternate: even, odd, even. An access that starts in the even word finds both words in
    its line; one that starts in the odd word (`carry`) goes on in the even word of the next line,
    the first line after the last.

    A read in cycle t has its words in t + 3, and they stay until the next read. A write in cycle t
    is seen by reads from cycle t + 1 on; one in cycle t itself finds anything in the line written.
    One read and one write a cycle, no back-pressure.

    Members
    -------
    read_valid, read_line, read_carry: in
    even, odd: out
        The words read.
    write_valid, write_line, write_carry: in
    write_data, write_mask: in
        Bytes of the even word, then those of the odd word; only masked ones are written.
    """

    def __init__(self, *, word_bytes: int, lines: int):
        self._word_bytes = word_bytes
        self._lines = lines
        super().__init__(
            {
                "read_valid": In(1),
                "read_line": In(range(lines)),
                "read_carry": In(1),
                "even": Out(8 * word_bytes),
                "odd": Out(8 * word_bytes),
                "write_valid": In(1),
                "write_line": In(range(lines)),
                "write_carry": In(1),
                "write_data": In(16 * word_bytes),
                "write_mask": In(2 * word_bytes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        reading = Signal()
        read_line = Signal.like(self.read_line, reset_less=True)
        read_carry = Signal(reset_less=True)
        m.d.sync += [
            reading.eq(self.read_valid),
            read_line.eq(self.read_line),
            read_carry.eq(self.read_carry),
        ]

        write_line = Signal.like(self.write_line, reset_less=True)
        write_carry = Signal(reset_less=True)
        write_data = Signal.like(self.write_data, reset_less=True)
        write_mask = Signal.like(self.write_mask)
        # Only the mask tells whether there is a write: no other bit waits for that.
        m.d.sync += [
            write_line.eq(self.write_line),
            write_carry.eq(self.write_carry),
            write_data.eq(self.write_data),
            write_mask.eq(Mux(self.write_valid, self.write_mask, 0)),
        ]

        # `no_rw_check`: no logic that keeps the old word where a read meets a write.
        for index, (name, word) in enumerate((("even", self.even), ("odd", self.odd))):
            m.submodules[name] = memory = Memory(
                shape=8 * self._word_bytes, depth=self._lines, init=[], attrs={"no_rw_check": 1}
            )
            fetch, store = memory.read_port(), memory.write_port(granularity=8)
            m.d.comb += [
                fetch.en.eq(reading),
                fetch.addr.eq(read_line if index else read_line + read_carry),
                store.en.eq(write_mask.word_select(index, self._word_bytes)),
                store.addr.eq(write_line if index else write_line + write_carry),
                store.data.eq(write_data.word_select(index, 8 * self._word_bytes)),
            ]
            held = Signal.like(word, name=f"{name}_held", reset_less=True)
            m.d.sync += held.eq(fetch.data)
            m.d.comb += word.eq(held)
        return m
