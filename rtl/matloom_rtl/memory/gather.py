"""Picks the bytes of one read out of the words of all banks."""

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.memory.rotate import rotate_right

__all__ = ["Gather"]


class Gather(wiring.Component):
    """Turn the words that a read found into its bytes, first byte lowest.

    A read granted in cycle t finds its words in t + 3. In a window of `span` bytes (`width`, or
    the next power of two) each remainder modulo `span` occurs once: in t + 3 every remainder
    selects its byte, in t + 4 the bytes rotate into order, `data` follows in t + 5 and stays until
    the next read. So a narrow reader pays for selection once and for a narrow rotation only.
    One read a cycle.

    Members
    -------
    valid, request: in
        A read is granted: the position of its first byte in the line, the banks of its words.
    even, odd: in
        The words of each bank.
    data: out
        The bytes.
    """

    def __init__(self, *, width: int, word_bytes: int, banks: int):
        self._width = width
        self._span = 1 << (width - 1).bit_length()
        self._chunks = 2 * word_bytes // self._span
        self._request = data.StructLayout(
            {
                "offset": (2 * word_bytes - 1).bit_length(),
                "even_bank": range(max(2, banks)),
                "odd_bank": range(max(2, banks)),
            }
        )
        word = In(8 * word_bytes)
        super().__init__(
            {
                "valid": In(1),
                "request": In(self._request),
                "even": word.array(banks),
                "odd": word.array(banks),
                "data": Out(8 * width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        valid, request = self.valid, self.request
        for _cycle in range(2):
            valid_next, request_next = Signal(), Signal(self._request, reset_less=True)
            m.d.sync += valid_next.eq(valid)
            with m.If(valid):
                m.d.sync += request_next.eq(request)
            valid, request = valid_next, request_next

        even, odd, take_even, turn = self._decode(m, valid, request)
        selecting, rotating = Signal(), Signal()
        m.d.sync += [selecting.eq(valid), rotating.eq(selecting)]

        bits = 8 * self._span
        selected = Signal(bits, reset_less=True)
        final_turn = Signal.like(turn, reset_less=True)
        with m.If(selecting):
            m.d.sync += final_turn.eq(turn)
            m.d.sync += selected.eq(
                Cat(
                    Mux(take_even[index], even.word_select(index, 8), odd.word_select(index, 8))
                    for index in range(self._span)
                )
            )
        result = Signal(8 * self._width, reset_less=True)
        with m.If(rotating):
            m.d.sync += result.eq(rotate_right(selected, final_turn, 8))
        m.d.comb += self.data.eq(result)
        return m

    def _decode(self, m: Module, valid, request):
        """Return the even and the odd chunk of the window, who takes which, and the rotation.

        A line is an even number of chunks of `span` bytes; a window touches an even one and an
        odd one, in either order. Its controls are registered beside the words.
        """
        turn_bits = (self._span - 1).bit_length()
        first = request.offset[turn_bits:]
        even_bank = Signal.like(request.even_bank, reset_less=True)
        odd_bank = Signal.like(request.odd_bank, reset_less=True)
        # Even chunks lie at or after the first, odd ones before or at it.
        even_chunk = Signal(range(max(2, self._chunks // 2)), reset_less=True)
        odd_chunk = Signal.like(even_chunk)
        take_even = Signal(self._span, reset_less=True)
        turn = Signal(turn_bits, reset_less=True)
        # No remainder lies above the last.
        below = Cat(*(index < request.offset[:turn_bits] for index in range(self._span - 1)), C(0))
        with m.If(valid):
            m.d.sync += [
                even_bank.eq(request.even_bank),
                odd_bank.eq(request.odd_bank),
                even_chunk.eq(first[1:] + first[0]),
                odd_chunk.eq(first[1:]),
                take_even.eq(Mux(first[0], below, ~below)),
                turn.eq(request.offset[:turn_bits]),
            ]
        line = Cat(_pick(self.even, even_bank), _pick(self.odd, odd_bank))
        chunks = [line.word_select(index, 8 * self._span) for index in range(self._chunks)]
        even, odd = _pick(chunks[::2], even_chunk), _pick(chunks[1::2], odd_chunk)
        return even, odd, take_even, turn


def _pick(items, index):
    """Return an item; the index of a single one is anything."""
    return Array(items)[index] if len(items) > 1 else items[0]
