"""A nest of loops, as the instruction set defines it: the reference for address generators."""

from itertools import pairwise

from amaranth.hdl import Assume, Cat, Module, Signal

from matloom_rtl.formal.parts.channel import implies

__all__ = ["Loop", "Nest"]


class Loop:
    """One loop: its number of iterations, at least 1, and the step that each adds to a place."""

    def __init__(self, count, **steps):
        self.count, self.steps = count, steps


class Nest:
    """Runs nested loops; each `move` starts the next iteration of the innermost loop.

    It is written like a program. A place is a quantity such as an address or a row. Every loop has
    an index and, for each place, the value at the start of its current iteration. A new iteration
    adds the loop's step to that value, and the inner loops restart there with index 0. There is no
    look-ahead, and nothing is shared with the hardware.

    Members
    -------
    loops:
        The loops by name, outermost first.
    running:
        Whether the nest is running: from the cycle after `begin` to the `move` of its last
        iteration.
    index, last:
        Index of each loop, by name, and whether it is in its last iteration.
    at:
        For each place and each loop, by name, the value at the start of the loop's current
        iteration. The value of the innermost loop is the place itself.
    end:
        Whether this is the last iteration of all loops.
    """

    def __init__(self, m: Module, loops: dict, places: dict, *, begin, move):
        """Build the nest; `places` gives the shape and the initial value of each place."""
        self.loops, self._names = loops, list(loops)
        self.running = Signal()
        self.index = {
            name: Signal.like(loop.count, name=f"index_{name}") for name, loop in loops.items()
        }
        self.last = {name: self.index[name] + 1 == loop.count for name, loop in loops.items()}
        self.end = Cat(self.last.values()).all()
        self.at = {
            place: {name: Signal(shape, name=f"{place}_of_{name}") for name in loops}
            for place, (shape, _first) in places.items()
        }
        m.d.comb += [Assume(~begin | (loop.count != 0)) for loop in loops.values()]
        with m.If(begin):
            m.d.sync += [self.running.eq(1), *(index.eq(0) for index in self.index.values())]
            for place, (_shape, first) in places.items():
                m.d.sync += [at.eq(first) for at in self.at[place].values()]
        with m.Elif(move):
            m.d.sync += self.running.eq(~self.end)
            self._move(m)

    def _move(self, m: Module) -> None:
        """Advance the innermost loop that is not in its last iteration."""
        for name in self._names:
            inner = self._names[self._names.index(name) + 1 :]
            with m.If(~self.last[name] & self.inside_ends(name)):
                m.d.sync += self.index[name].eq(self.index[name] + 1)
                m.d.sync += [self.index[other].eq(0) for other in inner]
                for place, values in self.at.items():
                    moved = values[name] + self.loops[name].steps.get(place, 0)
                    m.d.sync += [values[other].eq(moved) for other in (name, *inner)]

    def inside_ends(self, name: str):
        """Return whether all loops inside loop `name` are in their last iterations."""
        inner = self._names[self._names.index(name) + 1 :]
        return Cat(self.last[other] for other in inner).all()

    def place(self, name: str):
        """Return the value of place `name`, such as an address, in the innermost iteration."""
        return self.at[name][self._names[-1]]

    def lemmas(self) -> list:
        """Return assertions about the nest itself: invariants that inductions need."""
        below = Cat(self.index[name] < loop.count for name, loop in self.loops.items()).all()
        claims = [implies(self.running, below)]
        for outer, inner in pairwise(self._names):
            for values in self.at.values():
                begins = self.running & (self.index[inner] == 0)
                claims.append(implies(begins, values[inner] == values[outer]))
        return claims
