"""POST's maxima: each result that leaves is the largest of four, column by column."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal

from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.maxima import Maxima


def maxima(unit: Maxima) -> Claim:
    """Claim which results leave, and their bytes, for the last three results of every column.

    Assumes that the beats of a vector come in order, and that `pools` stays within a group of four.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    beats, lanes = unit._beats, unit._config.lanes
    number = Signal(2)
    beat = Signal(range(beats + 1))
    pools_before = Signal()
    comes, whole = unit.emerges.any(), unit.emerges[-1]
    m.d.sync += pools_before.eq(unit.pools)
    m.d.comb += [
        Assume((unit.emerges == 0) | (unit.emerges == (1 << beat))),
        Assume((number == 0) & (beat == 0) | (unit.pools == pools_before)),
    ]
    with m.If(comes):
        m.d.sync += beat.eq(Mux(whole, 0, beat + 1))
    with m.If(whole & unit.pools):
        m.d.sync += number.eq(number + 1)
    passes = ~unit.pools | (number == 3)
    m.d.comb += [
        Assert(unit.maxima_emerge == Mux(passes, unit.emerges, 0)),
        Assert(unit.kept == (whole & ~passes)),
        Assert(whitebox.register(name="number") == number),
        Assert(beat < beats),
    ]
    for lane in range(lanes):
        byte = unit.results[lane][:8].as_signed()
        m.d.comb += Assert(unit.maxima[lane][8:] == unit.results[lane][8:])
        m.d.comb += implies(~unit.pools, unit.maxima[lane] == unit.results[lane])
        for at in range(beats):
            largest = Signal(8, name=f"largest_{lane}_{at}")
            above = (number != 0) & (largest.as_signed() > byte)
            found = Mux(above, largest.as_signed(), byte)
            with m.If(unit.emerges[at] & unit.pools):
                m.d.sync += largest.eq(found)
            here = unit.emerges[at] & unit.pools
            held = whitebox.register(name=f"held_{lane}_{at}")
            # Of this beat's column, results of the group so far are kept.
            began = (number != 0) | (beat > at)
            m.d.comb += [
                implies(here & passes, unit.maxima[lane][:8].as_signed() == found),
                implies(unit.pools & began & pools_before, held == largest),
            ]
    m.d.comb += [Cover(unit.pools & unit.maxima_emerge[-1]), Cover(~unit.pools & whole)]
    return Claim(module=m, ports=inputs_of(unit))


def maxima_proofs(units: list) -> list[Proof]:
    """Return the proof of POST's maxima, where they are built."""
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
