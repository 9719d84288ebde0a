"""Proofs of `Control`: the scoreboard counts completions, and all instruction words are stored."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Signal

from matloom.arch.csr import UNIT_INDEX_BITS
from matloom.arch.isa import UNITS
from matloom_rtl.control.control import Control
from matloom_rtl.formal.parts.whitebox import Whitebox
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["scoreboard", "scoreboard_proofs", "words_are_stored"]

#: Width of the reference count, more than that of the hardware's.
_BITS = UNIT_INDEX_BITS + 8


def scoreboard(unit: Control) -> Claim:
    """Claim that the count of a unit is the number of its completions since a program began.

    The unit is an arbitrary one, selected by the free input `which`. Counts are compared in the
    width of the hardware's, which wraps.
    """
    m = Module()
    whitebox = Whitebox(unit).child("scoreboard")
    m.submodules.unit = whitebox.fragment
    numbers, forget = whitebox.register(name="completed"), whitebox.source("forget")
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
        Assert(numbers.word_select(which, UNIT_INDEX_BITS) == count[:UNIT_INDEX_BITS]),
        Cover((count == 3) & (numbers.word_select(which ^ 1, UNIT_INDEX_BITS) == 2)),
    ]
    return Claim(module=m, ports=(which, forget, *done))


def words_are_stored(unit: Control) -> Claim:
    """Claim that the instruction memory stores exactly the words that the dispatcher takes.

    The proof of `UnitQueue` assumes this.
    """
    m = Module()
    whitebox = Whitebox(unit)
    dispatch, queues = (whitebox.child(name).unit.i for name in ("dispatch", "queues"))
    # For any behaviour of these units.
    for name in ("dispatch", "queues", "registers", "counters", "scoreboard"):
        whitebox.fragment.subfragments[:] = [
            part for part in whitebox.fragment.subfragments if part[1] != name
        ]
    m.submodules.unit = whitebox.fragment
    taken, stored = dispatch.valid & dispatch.ready, queues.valid & queues.ready
    m.d.comb += [
        Assert(taken == stored),
        Assert(taken == unit.instruction_words.valid & unit.instruction_words.ready),
        Assert(dispatch.payload == queues.payload),
        Cover(taken),
        Cover(queues.ready & unit.instruction_words.valid & ~taken),
    ]
    words = unit.instruction_words
    ports = (words.valid, words.payload, dispatch.ready, queues.ready)
    return Claim(module=m, ports=ports)


def scoreboard_proofs(units: list) -> list[Proof]:
    """Return the proofs for the scoreboard of a chip, and for where instruction words go."""
    controls = [unit for unit in units if isinstance(unit, Control)]
    return [
        Proof(
            kind="dependencies",
            unit="Control, scoreboard",
            statement="the number of a unit equals its completions since the program began, "
            "each counted once, for runs of any length",
            build=lambda unit=unit: scoreboard(unit),
            depth=1,
            cover_depth=10,
        )
        for unit in controls
    ] + [
        Proof(
            kind="dependencies",
            unit="Control, words",
            statement="the instruction memory stores exactly the words that the dispatcher takes",
            build=lambda unit=unit: words_are_stored(unit),
            cover_depth=2,
        )
        for unit in controls
    ]
