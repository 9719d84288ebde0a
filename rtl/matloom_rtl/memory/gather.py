"""Collector of the bytes of a read, which come from one or two banks."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.memory.rotate import rotate_right

__all__ = ["LATENCY", "Gather"]

#: Maximum number of bytes whose bank is selected by the same register.
_NEAR = 16

#: Cycles from a grant to the data.
LATENCY = 6


class Gather(wiring.Component):
    """Assemble the data of a read from the bytes that the banks return, first byte lowest.

    The bytes of a read granted in cycle t arrive in t + `bank_latency`, each at the position of its
    address modulo `span`, and are selected from their banks in that cycle. They are rotated into
    order in t + 5.

    Latency: `data` is valid in t + 6 and stays until the next read. Throughput: one read per
    cycle.

    Parameters
    ----------
    width, span:
        Size in bytes of a read, and number of bytes returned by each bank.
    banks:
        Number of banks.
    boundary:
        Alignment of the first byte, a power of two.
    bank_latency:
        Cycles from the grant to the bytes from the banks, at most 4.

    Members
    -------
    valid, request: in
        A read is granted, and what is known of it: its first address modulo `span` (`turn`), the
        bank of its first byte (`odd_bank`), and the bank of its last byte (`even_bank`), which is
        the next one if the read crosses the end of a bank.
    banks: in
        Bytes from each bank.
    data: out
        Bytes of the read.
    """

    def __init__(
        self, *, width: int, span: int, banks: int, boundary: int = 1, bank_latency: int = 4
    ):
        self._width, self._span = width, span
        self._boundary, self._found = boundary, bank_latency
        self._request = data.StructLayout(
            {
                "turn": (span - 1).bit_length(),
                "even_bank": range(max(2, banks)),
                "odd_bank": range(max(2, banks)),
            }
        )
        super().__init__(
            {
                "valid": In(1),
                "request": In(self._request),
                "banks": In(8 * span).array(banks),
                "data": Out(8 * width),
            }
        )

    def elaborate(self, platform):
        """Return the module: it selects each byte from its bank, then rotates the bytes."""
        m = Module()
        valid, request = self.valid, self.request
        for _cycle in range(self._found - 1):
            valid_next = Signal()
            request_next = Signal(self._request, reset_less=True)
            m.d.sync += [valid_next.eq(valid), request_next.eq(request)]
            valid, request = valid_next, request_next
        picked = self._pick(m, request)
        turn = Signal.like(request.turn, reset_less=True)
        picking = Signal()
        rotating = Signal()
        m.d.sync += [picking.eq(valid), rotating.eq(picking), turn.eq(request.turn)]
        final_turn = Signal.like(turn, reset_less=True)
        m.d.sync += final_turn.eq(turn)
        for _cycle in range(self._found, LATENCY - 2):
            picked = _next_cycle(m, picked)
            final_turn = _next_cycle(m, final_turn)
            rotating = _next_cycle(m, rotating)
        result = Signal(8 * self._width, reset_less=True)
        with m.If(rotating):
            fixed = (self._boundary - 1).bit_length()
            turned = rotate_right(m, picked, final_turn[fixed:], 8 * self._boundary)
            m.d.sync += result.eq(turned)
        m.d.comb += self.data.eq(result)
        return m

    def _pick(self, m: Module, request):
        """Return the bytes of a read, each selected from its bank, one cycle later.

        The bytes of a read that are in the next bank have positions below that of its first byte.
        Bytes that share a multiple of `boundary` are always in the same bank.
        """
        picked = Signal(8 * self._span, reset_less=True)
        step = min(self._boundary, _NEAR)
        for first in range(0, self._span, step):
            # `keep`: equal registers would be merged into one that drives all bytes.
            bank = Signal.like(
                request.even_bank, name=f"bank_{first}", reset_less=True, attrs={"keep": 1}
            )
            below = first // self._boundary * self._boundary < request.turn
            m.d.sync += bank.eq(Mux(below, request.even_bank, request.odd_bank))
            found = [each[8 * first : 8 * (first + step)] for each in self.banks]
            m.d.sync += picked[8 * first : 8 * (first + step)].eq(Array(found)[bank])
        return picked


def _next_cycle(m: Module, value: Signal) -> Signal:
    """Return a signal delayed by one cycle."""
    later = Signal.like(value, name=f"{value.name}_next", reset_less=True)
    m.d.sync += later.eq(value)
    return later
