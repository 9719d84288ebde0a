"""The scoreboard: how many instructions of each unit have completed."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Signal

from matloom.arch.isa import UNITS
from matloom_rtl.control.control import Control
from matloom_rtl.control.layouts import RECORD_BITS
from matloom_rtl.formal.inside import Inside
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["scoreboard", "scoreboard_proofs"]

#: More bits than are counted in.
_BITS = RECORD_BITS + 8


def scoreboard(unit: Control) -> Claim:
    """Claim that a unit's number is that of its completions since a program began.

    The unit is an arbitrary one, which the free input `which` chooses; the count here wraps later.
    """
    m = Module()
    inside = Inside(unit).child("scoreboard")
    m.submodules.unit = inside.fragment
    numbers, forget = inside.register(name="completed"), inside.source("forget")
    done = [getattr(unit, opcode.name.lower()).done for opcode in UNITS]
    which = Signal(range(len(UNITS)))
    was = Signal(2)
    begun = Signal()
    count = Signal(_BITS)
    m.d.sync += [was.eq(which), begun.eq(1), count.eq(count + (Cat(done) >> which)[0])]
    with m.If(forget):
        m.d.sync += count.eq(0)
    m.d.comb += [
        Assume(~begun | (which == was)),
        Assert(numbers.word_select(which, RECORD_BITS) == count[:RECORD_BITS]),
        Cover((count == 3) & (numbers.word_select(which ^ 1, RECORD_BITS) == 2)),
    ]
    return Claim(module=m, ports=(which, forget, *done))


def scoreboard_proofs(units: list) -> list[Proof]:
    """Return the proof for the scoreboard of a chip."""
    return [
        Proof(
            kind="dependencies",
            unit="Control, scoreboard",
            statement="the number of a unit is that of its completions since the program began, "
            "each counted once, for runs of any length",
            build=lambda unit=unit: scoreboard(unit),
            depth=1,
            cover_depth=10,
        )
        for unit in units
        if isinstance(unit, Control)
    ]
