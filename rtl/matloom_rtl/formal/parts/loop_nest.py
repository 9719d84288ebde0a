"""A loop nest as the instruction set states it: the reference for address generators."""

from itertools import pairwise

from amaranth.hdl import Assume, Cat, Module, Signal

from matloom_rtl.formal.parts.channel import implies

__all__ = ["Loop", "Nest"]


class Loop:
    """One loop: how often it runs (1 at least), and what an iteration adds to each place."""

    def __init__(self, count, **steps):
        self.count, self.steps = count, steps


class Nest:
    """Run loops, outermost first, an innermost iteration at each `move`.

    Written as a program would be: every loop has an index, and for each place (an address, a row)
    the value with which its current iteration began. An iteration that begins adds its loop's step
    to its own value, and the loops inside begin there, with index 0. Nothing is looked up ahead,
    and nothing is shared with the hardware.

    Members
    -------
    loops:
        Outermost first, by name.
    running:
        The nest is under way; from the cycle after `begin` until its last iteration moves.
    index, last:
        Of each loop, by name; whether it is in its last iteration.
    at:
        Of each place, by name, a value for each loop by name: where its current iteration began.
        That of the innermost loop is the place itself.
    end:
        It is the last iteration of all.
    """

    def __init__(self, m: Module, loops: dict, places: dict, *, begin, move):
        """Build it; `places` gives the shape and first value of each place."""
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
        """Go on with the innermost loop that is not in its last iteration."""
        for name in self._names:
            whitebox = self._names[self._names.index(name) + 1 :]
            with m.If(~self.last[name] & self.inside_ends(name)):
                m.d.sync += self.index[name].eq(self.index[name] + 1)
                m.d.sync += [self.index[other].eq(0) for other in whitebox]
                for place, values in self.at.items():
                    moved = values[name] + self.loops[name].steps.get(place, 0)
                    m.d.sync += [values[other].eq(moved) for other in (name, *whitebox)]

    def inside_ends(self, name: str):
        """Return whether all loops inside of one are in their last iterations."""
        whitebox = self._names[self._names.index(name) + 1 :]
        return Cat(self.last[other] for other in whitebox).all()

    def place(self, name: str):
        """Return the place of the current iteration."""
        return self.at[name][self._names[-1]]

    def lemmas(self) -> list:
        """Return claims about the nest itself, which an induction over it needs."""
        below = Cat(self.index[name] < loop.count for name, loop in self.loops.items()).all()
        claims = [implies(self.running, below)]
        for outer, inner in pairwise(self._names):
            for values in self.at.values():
                begins = self.running & (self.index[inner] == 0)
                claims.append(implies(begins, values[inner] == values[outer]))
        return claims
