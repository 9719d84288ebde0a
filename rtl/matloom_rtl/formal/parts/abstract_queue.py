"""Replaces a queue by free inputs that obey its contract, for proofs of the logic around it."""

from amaranth.hdl import Assert, Assume, Module, Mux, Signal

from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox

__all__ = ["AbstractQueue"]


class AbstractQueue:
    """A queue of a unit whose outputs are free, except for the contract of queues.

    The caller removes it from the unit with `Whitebox.free`. `flags` maps an item to bits whose
    counts are consistent with the items that come and leave.

    Members
    -------
    unit, level:
        The queue, and the number of items in it.
    counts, newest:
        For each flag, the number of items with the flag, and whether the newest item has it.
    """

    def __init__(self, m: Module, whitebox: Whitebox, name: str, depth: int, flags=lambda item: ()):
        self.unit = unit = whitebox.child(name).unit
        self.level = Signal(range(depth + 2), name=f"level_{name}")
        comes, leaves = unit.w_en, unit.r_rdy & unit.r_en
        m.d.sync += self.level.eq(self.level + comes - leaves)
        m.d.comb += [
            Assume(~unit.r_rdy | (self.level != 0)),
            implies(comes, self.level < depth),
            Assert(self.level <= depth),
        ]
        self.counts, self.newest = [], []
        came, goes = flags(unit.w_data), flags(unit.r_data)
        for number, (flag, gone) in enumerate(zip(came, goes, strict=True)):
            count = Signal.like(self.level, name=f"count_{name}_{number}")
            newest = Signal(name=f"newest_{name}_{number}")
            m.d.sync += [
                count.eq(count + (comes & flag) - (leaves & gone)),
                newest.eq(Mux(comes, flag, newest)),
            ]
            several = Mux(gone, count > newest, self.level - count > ~newest)
            m.d.comb += [
                Assume(~unit.r_rdy | Mux(self.level == 1, gone == newest, several)),
                Assert(count <= self.level),
                implies((self.level != 0) & newest, count != 0),
                implies((self.level != 0) & ~newest, count != self.level),
            ]
            self.counts.append(count)
            self.newest.append(newest)

    def shows_at_once(self, m: Module) -> None:
        """Assume that an item is shown from the cycle after it came, if it is the oldest."""
        m.d.comb += Assume(self.unit.r_rdy == (self.level != 0))

    def shows_soon(self, m: Module) -> None:
        """Assume that the oldest item is hidden for at most one cycle."""
        hidden = Signal(name=f"hidden_{self.level.name}")
        m.d.sync += hidden.eq((self.level != 0) & ~self.unit.r_rdy)
        m.d.comb += Assume(~hidden | self.unit.r_rdy)
