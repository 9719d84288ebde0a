"""Tracks write bursts until their responses, and finds out whether one of them contains a beat."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["COMPARED_BITS", "Unanswered"]

#: Low bits of a beat's index that are compared; beats that differ only above these are confused.
COMPARED_BITS = 12


class Unanswered(wiring.Component):
    """Track up to `places` write bursts until their responses, which come in order.

    Beats of the newest burst are looked up in the older ones; within a burst no beat occurs twice.
    The index of a beat is its bus address divided by the bytes of a beat. Only its lowest
    `COMPARED_BITS` are compared. So a beat that an older burst contains is always found, and a beat
    that none contains may be found too, which only costs time.

    Latency: none from `place` to `held`; one cycle for new bursts and responses.

    Members
    -------
    begin, start, len: in
        A burst of `len` + 1 beats begins at the beat with index `start`, and becomes the newest.
        Allowed only while fewer than `places` bursts are tracked.
    answered: in
        The oldest burst receives its response.
    place: in
        Index of a beat of the newest burst.
    held: out
        An older burst without a response contains the beat `place`.
    """

    def __init__(self, places: int):
        self._places = places
        super().__init__(
            {
                "begin": In(1),
                "start": In(COMPARED_BITS),
                "len": In(8),
                "answered": In(1),
                "place": In(COMPARED_BITS),
                "held": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: a ring of bursts without a response, each compared with the beat."""
        m = Module()
        # One-hot: places of the newest, of the next, and of the oldest burst.
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
            start = Signal(COMPARED_BITS, name=f"start_{index}", reset_less=True)
            length = Signal(8, name=f"len_{index}", reset_less=True)
            past = Signal(COMPARED_BITS, name=f"past_{index}")
            with m.If(self.answered & oldest[index]):
                m.d.sync += used.eq(0)
            with m.If(self.begin & following[index]):
                m.d.sync += [used.eq(1), start.eq(self.start), length.eq(self.len)]
            m.d.comb += past.eq(self.place - start)
            holds.append(used & ~newest[index] & (past <= length))
        m.d.comb += self.held.eq(Cat(holds).any())
        return m
