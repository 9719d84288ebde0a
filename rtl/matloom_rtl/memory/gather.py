"""Collects the bytes of one read from the banks and puts them in order."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.memory.rotate import rotate_right
from matloom_rtl.memory.select import span_of
from matloom_rtl.memory.wide import bytes_of, choices, pick

__all__ = ["Gather"]


class Gather(wiring.Component):
    """Turn the bytes that the banks selected into those of a read, first byte lowest.

    A read granted in cycle t finds its bytes in t + 4, each at the place of its remainder modulo
    the window's span. In t + 4 every byte is taken from its bank, in t + 5 the bytes rotate into
    order, `data` follows in t + 6 and stays until the next read. One read a cycle.

    Parameters
    ----------
    rests:
        Whether all registers of bytes hold while nothing is read.

    Members
    -------
    valid, request: in
        A read is granted: the remainder of its first byte (`turn`), the bank of that
        (`odd_bank`), and the bank of what lies beyond the last line of that bank (`even_bank`);
        the same bank where the read does not go on so far.
    banks: in
        What each bank selected.
    data: out
        The bytes.
    """

    def __init__(self, *, width: int, banks: int, rests: bool = False):
        self._width = width
        self._rests = rests
        self._span = span_of(width)
        self._request = data.StructLayout(
            {
                "turn": (self._span - 1).bit_length(),
                "even_bank": range(max(2, banks)),
                "odd_bank": range(max(2, banks)),
            }
        )
        super().__init__(
            {
                "valid": In(1),
                "request": In(self._request),
                "banks": In(8 * self._span).array(banks),
                "data": Out(8 * width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        valid, request = self.valid, self.request
        for _cycle in range(3):
            valid_next, request_next = Signal(), Signal(self._request, reset_less=True)
            m.d.sync += [valid_next.eq(valid), request_next.eq(request)]
            valid, request = valid_next, request_next

        picking, rotating = Signal(), Signal()
        m.d.sync += [picking.eq(valid), rotating.eq(picking)]
        turn, final_turn = (
            Signal.like(request.turn, name=name, reset_less=True) for name in ("turn", "final_turn")
        )
        m.d.sync += [turn.eq(request.turn), final_turn.eq(turn)]
        picked = bytes_of("picked", self._span, apart=self._rests)
        # A read that goes on in another bank wraps around the line: remainders below the first.
        if self._rests:
            below = Cat(index < request.turn for index in range(self._span))
            numbers = choices(m, below, request.even_bank, request.odd_bank, [0] * self._span)
        for index in range(self._span):
            found = [each.word_select(index, 8) for each in self.banks]
            if self._rests:
                with m.If(picking):
                    m.d.sync += picked[index].eq(pick(found, numbers[index]))
            else:
                bank = Signal.like(request.even_bank, name=f"bank_{index}", reset_less=True)
                m.d.sync += bank.eq(Mux(index < request.turn, request.even_bank, request.odd_bank))
                m.d.sync += picked[index].eq(Array(found)[bank])
        result = Signal(8 * self._width, reset_less=True)
        with m.If(rotating):
            m.d.sync += result.eq(rotate_right(m, Cat(picked), final_turn, 8))
        m.d.comb += self.data.eq(result)
        return m
