"""Proof of SOFTMAX's table: rows fill it in order, and each index finds its entry."""

from amaranth.hdl import Assert, Cover, Module, Signal

from matloom.arch.softmax import EXPONENTIAL_BITS, EXPONENTIAL_BYTES, EXPONENTIALS
from matloom_rtl.formal.parts.arbitrary import Arbitrary
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.exponentials import Exponentials

__all__ = ["exponentials", "exponentials_proofs"]

_BITS = 8 * EXPONENTIAL_BYTES


def exponentials(unit: Exponentials) -> Claim:
    """Claim what an arbitrary entry holds once it was filled, and that reads of it return that.

    Entries are filled in order from `start` on, by one word per cycle: word n of a row is written
    in the cycle n + 1 after the row was taken.
    """
    m = Module()
    whitebox = Whitebox(unit)
    chosen = Arbitrary(m, EXPONENTIALS)
    words = unit._words
    row = Signal.like(unit.rows.payload, reset_less=True)
    age = Signal(range(words + 1), init=words)
    place = Signal(range(EXPONENTIALS))
    entry = Signal(EXPONENTIAL_BITS)
    filled = Signal()
    word = row.word_select(age, _BITS)[:EXPONENTIAL_BITS]
    fills = (age != words) & (place == chosen.number)
    with m.If(age != words):
        m.d.sync += [age.eq(age + 1), place.eq(place + 1)]
    with m.Elif(unit.rows.valid):
        m.d.sync += [row.eq(unit.rows.payload), age.eq(0)]
    with m.If(unit.start):
        m.d.sync += place.eq(0)
    with m.If(fills):
        m.d.sync += [entry.eq(word), filled.eq(1)]
    peeks = [whitebox.peek(f"memory_{way}", chosen.number) for way in range(unit._ways)]
    m.submodules.unit = whitebox.fragment
    m.d.comb += [
        Assert(unit.rows.ready == (age == words)),
        Assert(whitebox.register(name="left") == words - age),
        Assert(whitebox.register(name="at") == place),
        implies(age != words, whitebox.register(name="row") == row >> (age * _BITS)),
        Cover(filled & (entry == (1 << EXPONENTIAL_BITS) - 1) & (chosen.number == words)),
    ]
    for way, held in enumerate(peeks):
        asked = Signal(name=f"asked_{way}")
        wanted = Signal(EXPONENTIAL_BITS, name=f"wanted_{way}")
        m.d.sync += [
            # Nothing is read during writes.
            asked.eq(filled & (age == words) & (unit.index[way] == chosen.number)),
            wanted.eq(entry),
        ]
        m.d.comb += [
            implies(filled, held == entry),
            implies(asked, unit.value[way] == wanted),
        ]
    return Claim(module=m, ports=(*inputs_of(unit), chosen.number))


def exponentials_proofs(units: list) -> list[Proof]:
    """Return the proof of SOFTMAX's table among a chip's units."""
    return [
        Proof(
            kind="softmax",
            unit="Exponentials",
            statement="an entry is the word that was last written at its place, rows one after "
            "another from `start` on, in all copies of the table; an index shows it one cycle "
            "later, and a row of n words takes n + 1 cycles",
            build=lambda unit=unit: exponentials(unit),
            depth=2,
            cover_depth=16,
        )
        for unit in units
        if isinstance(unit, Exponentials)
    ]
