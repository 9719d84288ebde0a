"""Selector of the bytes of a read, next to a scratchpad bank."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Select", "span_of"]


def span_of(width: int) -> int:
    """Return the size in bytes of the window for reads of `width` bytes: a power of two."""
    return 1 << (width - 1).bit_length()


class Select(wiring.Component):
    """Select the bytes of a read from an even and an odd word, ordered by address modulo `span`.

    A window of `span` bytes, a power of two, contains each address modulo `span` once: byte j of
    `o` is the byte of the window whose address has remainder j. A window that starts in the odd
    word may continue in the even one. A bank serves one reader per cycle, so all readers of up to
    `span` bytes share this unit, and only the selected bytes travel from the banks to the readers.

    Latency: `o` is valid four cycles after `offset`, and one cycle after `even` and `odd`.
    Throughput: one request per cycle.

    Parameters
    ----------
    span:
        Window size in bytes, at most `word_bytes`.
    word_bytes:
        Size of a word; a line is two words.

    Members
    -------
    offset: in
        Position of the first byte in the line.
    even, odd: in
        The words read, three cycles after `offset`.
    o: out
        The selected bytes.
    """

    def __init__(self, *, span: int, word_bytes: int):
        self._span = span
        self._line_bytes = 2 * word_bytes
        super().__init__(
            {
                "offset": In(range(2 * word_bytes)),
                "even": In(8 * word_bytes),
                "odd": In(8 * word_bytes),
                "o": Out(8 * span),
            }
        )

    def elaborate(self, platform):
        """Return the module: a multiplexer for each byte, with registers."""
        m = Module()
        bits = (self._span - 1).bit_length()
        offset, waited = (
            Signal.like(self.offset, name=name, reset_less=True) for name in ("offset", "waited")
        )
        m.d.sync += [offset.eq(self.offset), waited.eq(offset)]
        # Bytes with smaller remainders than the first byte's lie in the next chunk of `span` bytes.
        here = waited[bits:]
        following = (here + 1)[: len(here)]
        chosen = Signal(8 * self._span, reset_less=True)
        for index in range(self._span):
            chunk = Signal(len(here), name=f"chunk_{index}", reset_less=True)
            m.d.sync += chunk.eq(Mux(index < waited[:bits], following, here))
            places = range(index, self._line_bytes, self._span)
            candidates = [self._byte(place) for place in places]
            m.d.sync += chosen.word_select(index, 8).eq(Array(candidates)[chunk])
        m.d.comb += self.o.eq(chosen)
        return m

    def _byte(self, place: int):
        """Return byte `place` of both words, counted from the even word on."""
        word, index = divmod(place, self._line_bytes // 2)
        return (self.odd if word else self.even).word_select(index, 8)
