"""An arbitrary index: a claim about the item with this index holds for all items."""

from functools import reduce
from operator import or_

from amaranth.hdl import Assume, Module, Mux, Signal

__all__ = ["Arbitrary"]


class Arbitrary:
    """An arbitrary index below `count`, constant during a run.

    Members
    -------
    number:
        The index, which must be an input of the claim.
    """

    def __init__(self, m: Module, count: int):
        self.number = Signal(range(count), name="which")
        before = Signal.like(self.number, reset_less=True, name="before")
        begun = Signal(reset_less=True)
        m.d.sync += [before.eq(self.number), begun.eq(1)]
        m.d.comb += [
            Assume(self.number < count),
            Assume(~begun | (self.number == before)),
        ]

    def choose(self, values: list):
        """Return the item of `values`, which may be integers, at the chosen index."""
        found = (Mux(self.number == number, value, 0) for number, value in enumerate(values))
        return reduce(or_, found)
