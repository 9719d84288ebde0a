"""Scratchpad bank: a memory of even words and a memory of odd words."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Bank"]

#: Cycles from a read to the `wrong` that reports its parity error.
PARITY_LATENCY = 5


class Bank(wiring.Component):
    """Scratchpad bank: accesses an even and an odd word, of one line or of adjacent lines.

    A line is an even word followed by an odd word. An access that starts in the even word uses both
    words of its line; one that starts in the odd word (`carry`) continues in the even word of the
    next line. The first line follows the last.

    Read latency: three cycles; the words stay until the next read. A write in cycle t is visible
    to reads from cycle t + 1 on; a read in cycle t itself returns undefined data for that line.
    Throughput: one read and one write per cycle, without backpressure.

    With `parity` each byte has a ninth bit, even parity, so that zero-initialised memory is
    valid. Both words of each read are checked, whichever bytes are used, except a word written in
    the cycle of the read, which is undefined. `wrong` follows a read by five cycles
    (`PARITY_LATENCY`); reset discards checks in progress.

    Parameters
    ----------
    word_bytes, lines:
        Size in bytes of a word, and number of lines of two words.
    parity:
        Add parity bits.

    Members
    -------
    read_valid, read_line, read_carry: in
    even, odd: out
        The words read.
    write_valid, write_line, write_carry: in
    write_data, write_mask: in
        Bytes of the even word, then of the odd word; only masked bytes are written.
    wrong: out
        Parity error in the words read. Only with `parity`.
    """

    def __init__(self, *, word_bytes: int, lines: int, parity: bool = False):
        self._parity = parity
        #: Even and odd memory, once elaborated: simulations inspect them and flip bits.
        self.memories: list[Memory] = []
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
                **({"wrong": Out(1)} if parity else {}),
            }
        )

    def elaborate(self, platform):
        """Return the module: a memory of even words and one of odd words, with registered ports."""
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
        # Only the mask depends on the write being valid: no other bit needs to wait for it.
        m.d.sync += [
            write_line.eq(self.write_line),
            write_carry.eq(self.write_carry),
            write_data.eq(self.write_data),
            write_mask.eq(Mux(self.write_valid, self.write_mask, 0)),
        ]

        self.memories = []
        byte_bits, wrong = 9 if self._parity else 8, []
        # `no_rw_check`: omits the logic that returns the old word when a read meets a write.
        for index, (name, word) in enumerate((("even", self.even), ("odd", self.odd))):
            m.submodules[name] = memory = Memory(
                shape=byte_bits * self._word_bytes,
                depth=self._lines,
                init=[],
                attrs={"no_rw_check": 1},
            )
            self.memories.append(memory)
            fetch, store = memory.read_port(), memory.write_port(granularity=byte_bits)
            data = write_data.word_select(index, 8 * self._word_bytes)
            m.d.comb += [
                fetch.en.eq(reading),
                fetch.addr.eq(read_line if index else read_line + read_carry),
                store.en.eq(write_mask.word_select(index, self._word_bytes)),
                store.addr.eq(write_line if index else write_line + write_carry),
                store.data.eq(self._with_parity(data) if self._parity else data),
            ]
            held = Signal(len(fetch.data), name=f"{name}_held", reset_less=True)
            m.d.sync += held.eq(fetch.data)
            if self._parity:
                m.d.comb += word.eq(Cat(each[:8] for each in self._slices(held, 9)))
                wrong.append(self._check(m, fetch, store, held, name))
            else:
                m.d.comb += word.eq(held)
        if self._parity:
            m.d.sync += self.wrong.eq(Cat(wrong).any())
        return m

    def _slices(self, word, bits: int):
        """Return a word as a list of parts of `bits` bits, one per byte, lowest first."""
        return [word.word_select(number, bits) for number in range(self._word_bytes)]

    def _with_parity(self, data):
        """Return the bytes of a word, each followed by its parity bit."""
        return Cat(Cat(each, each.xor()) for each in self._slices(data, 8))

    def _check(self, m: Module, fetch, store, held, name: str):
        """Return a bit for each byte with wrong parity, one cycle after the word read is shown."""
        checked = fetch.en & ~(store.en.any() & (store.addr == fetch.addr))
        for cycle in range(2):
            later = Signal(name=f"{name}_checked_{cycle}")
            m.d.sync += later.eq(checked)
            checked = later
        wrong = Signal(self._word_bytes, name=f"{name}_wrong")
        parities = Cat(each.xor() for each in self._slices(held, 9))
        m.d.sync += wrong.eq(parities & checked.replicate(self._word_bytes))
        return wrong
