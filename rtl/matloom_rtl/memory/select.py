"""Chooses, beside a bank, the bytes of one read out of the line it found."""

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.memory.wide import bytes_of, choices, passing, pick, when

__all__ = ["Select", "span_of"]


def span_of(width: int) -> int:
    """Return the bytes of the window that a reader of `width` bytes looks at."""
    return 1 << (width - 1).bit_length()


class Select(wiring.Component):
    """Turn a line, an even and an odd word, into the bytes of a read, by remainder.

    A window of `span` bytes, a power of two, holds each remainder modulo `span` once: byte j of `o`
    is the byte of the window with remainder j. A window that starts in the odd word may go on in
    the even one. A bank serves one reader a cycle, so readers of all spans share this unit, and
    only these bytes, not whole lines, travel from the banks to the readers.

    A request in cycle t has its words in t + 3 and its bytes in `o` in t + 4. One a cycle.

    Parameters
    ----------
    spans:
        Of the readers, at most `word_bytes`.
    rests:
        Whether registers hold while nothing is read.

    Members
    -------
    valid: in
        There is a request; absent where nothing rests.
    offset, span: in
        Position of the first byte in the line, and the number of the span among those sorted.
    even, odd: in
        The words.
    o: out
        Of a narrower span the lower bytes.
    """

    def __init__(self, *, spans: list[int], word_bytes: int, rests: bool = False):
        self._spans = sorted(set(spans))
        self._line_bytes = 2 * word_bytes
        self._rests = rests
        super().__init__(
            {
                **({"valid": In(1)} if rests else {}),
                "offset": In(range(2 * word_bytes)),
                "span": In(range(max(2, len(self._spans)))),
                "even": In(8 * word_bytes),
                "odd": In(8 * word_bytes),
                "o": Out(8 * self._spans[-1]),
            }
        )

    def number_of(self, width: int) -> int:
        """Return the value of `span` for a reader of `width` bytes."""
        return self._spans.index(span_of(width))

    def elaborate(self, platform):
        m = Module()
        asked, _, found = passing(m, self.valid if self._rests else None, 3)
        here, following, below = self._window(m, asked)
        low_bits = (self._spans[0] - 1).bit_length()
        line = Cat(self.even, self.odd)
        chosen = bytes_of("chosen", self._spans[-1], apart=self._rests)
        steps = [min(span for span in self._spans if span > index) for index in range(len(chosen))]
        shifts = [(step - 1).bit_length() - low_bits for step in steps]
        numbers = choices(m, below, following, here, shifts) if self._rests else None
        for index, (step, shift) in enumerate(zip(steps, shifts, strict=True)):
            places = range(index, self._line_bytes, step)
            candidates = [line.word_select(place, 8) for place in places]
            if self._rests:
                with m.If(found):
                    m.d.sync += chosen[index].eq(pick(candidates, numbers[index]))
            else:
                choice = Signal(len(here) - shift, name=f"choice_{index}", reset_less=True)
                m.d.sync += choice.eq(Mux(below[index], following[shift:], here[shift:]))
                m.d.sync += chosen[index].eq(Array(candidates)[choice])
        m.d.comb += self.o.eq(Cat(chosen))
        return m

    def _window(self, m: Module, asked):
        """Return where the window's chunk of `span` bytes begins, the next, and who is there.

        Remainders below that of the first byte lie in the next chunk. Both in units of the
        narrowest span.
        """
        offset = Signal.like(self.offset, reset_less=True)
        span = Signal.like(self.span, reset_less=True)
        m.d.sync += [offset.eq(self.offset), span.eq(self.span)]

        low_bits = (self._spans[0] - 1).bit_length()
        here = Signal(len(offset) - low_bits, reset_less=True)
        following = Signal.like(here)
        below = Signal(self._spans[-1], reset_less=True)
        with when(m, asked), m.Switch(span):
            for number, size in enumerate(self._spans):
                with m.Case(number):
                    bits = (size - 1).bit_length()
                    chunk, zeros = offset[bits:], C(0, bits - low_bits)
                    m.d.sync += [
                        here.eq(Cat(zeros, chunk)),
                        following.eq(Cat(zeros, (chunk + 1)[: len(chunk)])),
                        below.eq(Cat(index < offset[:bits] for index in range(size))),
                    ]
        return here, following, below
