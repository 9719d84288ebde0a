"""Proofs of instruction memory and dispatcher: stored words stay unchanged until they are read."""

from amaranth.hdl import Cover, Module, Mux, Signal

from matloom.arch.isa import FORMATS, UNITS
from matloom_rtl.control.dispatch import Dispatch
from matloom_rtl.control.instructions import InstructionMemory
from matloom_rtl.formal.control.dispatch import dispatches
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["instruction_memory", "instruction_proofs"]

#: Number of words of each unit's instruction.
_WORDS = [FORMATS[unit].instruction_words for unit in UNITS]


def instruction_memory(unit: InstructionMemory) -> Claim:
    """Claim that a word and its notes are kept until they are read, and are read unchanged.

    Until a word is read, at most as many words are stored after it as there are other places. The
    proof of `UnitQueue` relies on this.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    mark = Signal()
    held = Signal()
    place = Signal.like(unit.last)
    value = Signal.like(unit.i.payload)
    notes = Signal(unit.notes.shape().size)
    occupied = whitebox.register(name="occupied")
    comes, reads = unit.i.valid & unit.i.ready, unit.brings.any()
    at = whitebox.register(name="place")
    followed = (unit.last + 1)[: unit._bits]
    with m.If(comes & mark & ~held):
        m.d.sync += [held.eq(1), place.eq(followed), value.eq(unit.i.payload)]
    with m.Elif(held & reads & (at == place)):
        m.d.sync += held.eq(0)
    # Number of words stored after it; unlike places, it does not wrap.
    after = Signal(unit._bits + 1)
    m.d.sync += after.eq(Mux(held, after + comes, 0))
    noted = Signal()
    with m.If(comes & ~held):
        m.d.sync += noted.eq(0)
    with m.If(unit.note & held & (unit.last == place)):
        m.d.sync += [noted.eq(1), notes.eq(unit.notes)]
    m.d.comb += [
        implies(held, occupied.bit_select(place, 1)),
        implies(comes & held, followed != place),
        implies(held, after + comes < 1 << unit._bits),
        implies(held, after == (unit.last - place)[: unit._bits]),
        implies(held & reads & (at == place), unit.word == value),
        implies(held & noted & reads & (at == place), unit.word_notes.as_value() == notes),
        implies(held, whitebox.peek("words", place) == value),
        implies(held & noted, whitebox.peek("noted", place) == notes),
        # Lemma: places marked as free are free.
        implies(whitebox.register(name="free"), ~occupied.bit_select(followed, 1)),
        Cover(held & noted & reads & (at == place) & (at == 0) & (unit.index == 1)),
    ]
    _in_order(m, unit, at)
    return Claim(module=m, ports=(mark, *inputs_of(unit)))


def _in_order(m: Module, unit: InstructionMemory, at) -> None:
    """Claim that requests are served without a gap, the last word of an instruction first.

    If several units request an instruction, the first of them in `UNITS` is served.
    """
    reads = unit.brings.any()
    before = Signal.like(unit.brings)
    index = Signal.like(unit.index)
    place = Signal.like(at)
    asked = Signal.like(unit.places.as_value())
    asks = Signal.like(unit.asks)
    m.d.sync += [
        *(before.eq(unit.brings), index.eq(unit.index), place.eq(at)),
        *(asked.eq(unit.places), asks.eq(unit.asks)),
    ]
    goes_on = before.any() & (index != 0)
    m.d.comb += [
        implies(reads, (unit.brings & (unit.brings - 1)) == 0),
        implies(goes_on, unit.brings == before),
        implies(goes_on, (unit.index == index - 1) & (at == (place - 1)[: len(at)])),
        implies(before.any() & (index == 0), ~reads),
    ]
    for number, words in enumerate(_WORDS):
        mine, wants = unit.brings[number], asks[number] & ~before.any()
        first = mine & ~before.any()
        m.d.comb += [
            # The first unit in the list has priority.
            implies(first, asks[number] & ~asks[:number].any() if number else asks[number]),
            implies(first, (unit.index == words - 1) & (at == asked.word_select(number, len(at)))),
            implies(mine, unit.index < words),
            implies(wants, reads),
        ]


#: Claim, depth of the induction, and depth of the covers, by class of the unit.
_TABLE = {
    InstructionMemory: (instruction_memory, 2, 20),
    Dispatch: (dispatches, 3, 45),
}
_STATEMENTS = {
    InstructionMemory: "a word and its notes are kept until they are read, and are read "
    "unchanged, an instruction's last word first; requests never wait while no read is in "
    "progress; at most as many words are stored after an unread word as there are other places",
    Dispatch: "an instruction enters the queue of its opcode with its own waits, and is issued "
    "once, when all its words have been taken, and only if the instructions it waits for were "
    "issued; none is issued after a fault, a halt or END",
}


def instruction_proofs(units: list) -> list[Proof]:
    """Return the proofs of the instruction memory and of the dispatcher of a chip."""
    return [
        Proof(
            kind="dependencies",
            unit=type(unit).__name__,
            statement=_STATEMENTS[type(unit)],
            build=lambda unit=unit: _TABLE[type(unit)][0](unit),
            depth=_TABLE[type(unit)][1],
            cover_depth=_TABLE[type(unit)][2],
        )
        for unit in units
        if type(unit) in _TABLE
    ]
