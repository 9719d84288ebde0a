"""Proof of POST's maxima: each result that leaves is the largest of four, column by column."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal

from matloom.arch.post_latency import maxima_latency
from matloom_rtl.arith.stages import register
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.maxima import Maxima


class _Groups:
    """The beats of groups of four vectors, as they enter and as they are compared.

    Members
    -------
    number:
        Number of vectors of the current group that have entered completely.
    beat:
        Number of beats of the next vector that have entered.
    whole:
        The last beat of a vector enters in this cycle.
    compared, of_number, of_beat, bytes:
        The beat that is compared in this cycle, one-hot and 0 for none; `number` and `beat` when it
        entered; and its bytes, by lane.
    """

    def __init__(self, m: Module, unit: Maxima):
        beats, pools, emerges = unit._beats, unit.pools, unit.emerges
        self.number = Signal(2)
        self.beat = Signal(range(beats + 1))
        self.pools_before = Signal()
        self.whole = emerges[-1] & pools
        m.d.sync += self.pools_before.eq(pools)
        with m.If(emerges.any()):
            m.d.sync += self.beat.eq(Mux(emerges[-1], 0, self.beat + 1))
        with m.If(self.whole):
            m.d.sync += self.number.eq(self.number + 1)
        self.compared = Mux(pools, emerges, 0)
        self.of_number, self.of_beat = self.number, self.beat
        self.bytes = [result[:8] for result in unit.results]
        if maxima_latency(unit._config):
            entered = Signal.like(emerges, name="entered")
            m.d.sync += entered.eq(self.compared)
            self.compared = entered
            self.of_number = register(m, self.number, "of_number")
            self.of_beat = register(m, self.beat, "of_beat")
            self.bytes = [register(m, byte, f"of_{at}") for at, byte in enumerate(self.bytes)]


def maxima(unit: Maxima) -> Claim:
    """Claim which results leave, and that each is the largest of its column in a group of four.

    Assumes that the beats of a vector come in order, and that `pools` is constant from the first
    beat of a group of four until its maximum has left.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    groups = _Groups(m, unit)
    number, beat, compared = groups.number, groups.beat, groups.compared
    between = (number == 0) & (beat == 0)
    if maxima_latency(unit._config):
        between &= compared == 0
        _registers(m, whitebox, groups)
    m.d.comb += [
        Assume((unit.emerges == 0) | (unit.emerges == (1 << beat))),
        Assume(between | (unit.pools == groups.pools_before)),
    ]
    leaves = Mux(groups.of_number == 3, compared, 0)
    m.d.comb += [
        Assert(unit.maxima_emerge == Mux(unit.pools, leaves, unit.emerges)),
        Assert(unit.kept == (groups.whole & (number != 3))),
        Assert(whitebox.register(name="number") == number),
        Assert(beat < unit._beats),
    ]
    for lane, byte in enumerate(groups.bytes):
        m.d.comb += implies(~unit.pools, unit.maxima[lane] == unit.results[lane])
        for at in range(unit._beats):
            largest = Signal(8, name=f"largest_{lane}_{at}")
            above = (groups.of_number != 0) & (largest.as_signed() > byte.as_signed())
            found = Mux(above, largest, byte)
            with m.If(compared[at]):
                m.d.sync += largest.eq(found)
            held = whitebox.register(name=f"held_{lane}_{at}")
            # Of this beat's column, results of the group so far are kept.
            began = (groups.of_number != 0) | (groups.of_beat > at)
            m.d.comb += [
                implies(compared[at] & leaves.any(), unit.maxima[lane][:8] == found),
                implies(unit.pools & began & groups.pools_before, held == largest),
            ]
    m.d.comb += [Cover(unit.pools & unit.maxima_emerge[-1]), Cover(~unit.pools & unit.emerges[-1])]
    return Claim(module=m, ports=inputs_of(unit))


def _registers(m: Module, whitebox: Whitebox, groups: _Groups) -> None:
    """Assert invariants for the induction: contents of the registers before the comparator."""
    entered, number = groups.compared.any(), groups.of_number
    m.d.comb += [
        Assert(whitebox.register(name="emerged") == groups.compared),
        implies(entered, whitebox.register(name="first") == (number == 0)),
        implies(entered, whitebox.register(name="last") == (number == 3)),
    ]
    for lane, byte in enumerate(groups.bytes):
        m.d.comb += Assert(whitebox.register(name=f"byte_{lane}") == byte)


def maxima_proofs(units: list) -> list[Proof]:
    """Return the proof of POST's maxima; none if the chip lacks them."""
    return [
        Proof(
            kind="maxima",
            unit="Maxima",
            statement="each fourth result leaves, with the largest byte of four in every column, "
            "and the other three take no place",
            build=lambda unit=unit: maxima(unit),
            depth=2,
            cover_depth=16,
        )
        for unit in units
        if isinstance(unit, Maxima)
    ]
