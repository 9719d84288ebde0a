"""Tracks write bursts that memory has not answered yet, and whether one contains a beat."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PLACE_BITS", "Unanswered"]

#: Bits of a beat's number that are compared; what lies this far apart is taken for the same.
PLACE_BITS = 12


class Unanswered(wiring.Component):
    """Remember up to `places` bursts, answered in their order.

    A beat of the newest burst is looked for in the older ones: within a burst no beat comes twice.
    Of beats' numbers the lowest `PLACE_BITS` alone count, so a beat may seem to be in a burst that
    does not have it, which costs time, but never the reverse.

    Latency: `held` belongs to `place` of the same cycle, and to bursts up to the cycle before.

    Members
    -------
    begin, start, len: in
        A burst begins, of `len` + 1 beats from beat number `start` on: the newest. There must be a
        place.
    answered: in
        The oldest burst has its answer.
    place: in
        Number of a beat of the newest burst.
    held: out
        An older burst without an answer has that beat.
    """

    def __init__(self, places: int):
        self._places = places
        super().__init__(
            {
                "begin": In(1),
                "start": In(PLACE_BITS),
                "len": In(8),
                "answered": In(1),
                "place": In(PLACE_BITS),
                "held": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # One hot: the place of the newest, that of the next and that of the oldest burst.
        newest = Signal(self._places)
        following = Signal(self._places, init=1)
        oldest = Signal(self._places, init=1)
        with m.If(self.begin):
            m.d.sync += [newest.eq(following), following.eq(following.rotate_left(1))]
        with m.If(self.answered):
            m.d.sync += oldest.eq(oldest.rotate_left(1))
        holds = []
        for index in range(self._places):
            used = Signal(name=f"used_{index}")
            start = Signal(PLACE_BITS, name=f"start_{index}", reset_less=True)
            length = Signal(8, name=f"len_{index}", reset_less=True)
            past = Signal(PLACE_BITS, name=f"past_{index}")
            with m.If(self.answered & oldest[index]):
                m.d.sync += used.eq(0)
            with m.If(self.begin & following[index]):
                m.d.sync += [used.eq(1), start.eq(self.start), length.eq(self.len)]
            m.d.comb += past.eq(self.place - start)
            holds.append(used & ~newest[index] & (past <= length))
        m.d.comb += self.held.eq(Cat(holds).any())
        return m
