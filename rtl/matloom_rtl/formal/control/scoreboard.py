"""The scoreboard: completions of each unit, and halts of the dispatcher."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Signal

from matloom.arch.isa import UNITS
from matloom_rtl.control.control import Control
from matloom_rtl.control.layouts import RECORD_BITS
from matloom_rtl.formal.parts.whitebox import Whitebox
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["scoreboard", "scoreboard_proofs", "stops"]

#: More bits than are counted in.
_BITS = RECORD_BITS + 8


def scoreboard(unit: Control) -> Claim:
    """Claim that a unit's number is that of its completions since a program began.

    The unit is an arbitrary one, which the free input `which` chooses; the count here wraps later.
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
        Assert(numbers.word_select(which, RECORD_BITS) == count[:RECORD_BITS]),
        Cover((count == 3) & (numbers.word_select(which ^ 1, RECORD_BITS) == 2)),
    ]
    return Claim(module=m, ports=(which, forget, *done))


def stops(unit: Control) -> Claim:
    """Claim that the dispatcher is halted in the cycle after any unit's queue was `old`.

    With the claim of `Dispatch` about `halt`, nothing is issued from the second cycle after `old`
    on, which the proof of `UnitQueue` assumes.
    """
    m = Module()
    whitebox = Whitebox(unit)
    queues, dispatch = whitebox.child("queues"), whitebox.child("dispatch").unit
    old = [queues.child(opcode.name.lower()).unit.old for opcode in UNITS]
    # Whatever the queues and all else do.
    for opcode in UNITS:
        queues.free(opcode.name.lower())
    for name in ("dispatch", "registers", "counters", "scoreboard"):
        whitebox.fragment.subfragments[:] = [
            part for part in whitebox.fragment.subfragments if part[1] != name
        ]
    m.submodules.unit = whitebox.fragment
    late = Signal(len(UNITS))
    m.d.sync += late.eq(Cat(old) & ~whitebox.register(name="forget").replicate(len(UNITS)))
    m.d.comb += [Assert(~late.any() | dispatch.halt), Cover(late.all()), Cover(~dispatch.halt)]
    return Claim(module=m, ports=tuple(old))


def scoreboard_proofs(units: list) -> list[Proof]:
    """Return the proofs for the scoreboard of a chip, and for the halts of its dispatcher."""
    controls = [unit for unit in units if isinstance(unit, Control)]
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
        for unit in controls
    ] + [
        Proof(
            kind="dependencies",
            unit="Control, halt",
            statement="the dispatcher is halted in the cycle after any queue has waited for so "
            "many instructions that the order of numbers could be lost",
            build=lambda unit=unit: stops(unit),
            cover_depth=10,
        )
        for unit in controls
    ]
