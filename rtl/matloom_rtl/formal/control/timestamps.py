"""Proof of the completion-time table: entries of marked instructions, and clearing the table."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal

from matloom.arch.isa import UNITS
from matloom_rtl.control.timestamps import Timestamps
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["timestamps", "timestamps_proofs"]

#: Minimum cycles from a read to the next, and from a marked completion of a unit to the next.
_READS, _MARKS = 4, 16

#: Maximum cycles for which a completion waits while the table is not being cleared, by unit.
_MAX_WAITS = (2, 4, 7, 10)


class _Times:
    """Cycles since a program began, since a read, and since the last marked completions.

    Members
    -------
    begun:
        Whether a program has begun.
    elapsed:
        Cycles since the program began, saturating.
    rest:
        Cycles until the next read may come.
    clearing:
        Whether the table is being cleared.
    progress:
        Number of steps of clearing so far: one for each slot, and two more.
    marked:
        For each unit, whether it completes a marked instruction in this cycle.
    waits:
        For each unit, cycles since its last marked completion, not counting those in which the
        table is being cleared, saturating.
    """

    def __init__(self, m: Module, unit: Timestamps, most: int):
        slots = unit._timestamps
        self.begun = Signal()
        self.elapsed = Signal(range(most + 1))
        self.rest = Signal(range(4))
        self.clearing = Signal()
        self.progress = Signal(range(slots + 3))
        self.marked = [unit.done[n] & (unit.done_mark[n] != 0) for n in range(len(UNITS))]
        self.waits = [Signal(range(_MARKS + 1), name=f"waits_{n}") for n in range(len(UNITS))]
        apart = [Signal(range(_MARKS + 1), name=f"apart_{n}") for n in range(len(UNITS))]
        clears = self.clearing & ~unit.reading
        m.d.sync += [
            self.elapsed.eq(Mux(self.elapsed == most, most, self.elapsed + 1)),
            self.rest.eq(Mux(unit.reading, _READS - 1, self.rest - (self.rest != 0))),
        ]
        with m.If(clears):
            m.d.sync += self.progress.eq(self.progress + 1)
            with m.If(self.progress == slots + 1):
                m.d.sync += self.clearing.eq(0)
        with m.If(unit.start):
            m.d.sync += [self.begun.eq(1), self.elapsed.eq(0), self.clearing.eq(1)]
            m.d.sync += self.progress.eq(0)
        m.d.comb += Assume(~unit.reading | (self.rest == 0))
        for number, (marked, waits) in enumerate(zip(self.marked, self.waits, strict=True)):
            restarts = marked | self.clearing | unit.start
            m.d.sync += waits.eq(Mux(restarts, 0, waits + (waits != _MARKS)))
            since = apart[number]
            m.d.sync += since.eq(Mux(marked, _MARKS - 1, since - (since != 0)))
            m.d.comb += Assume(~marked | (since == 0))
        self._cycle(m, unit)

    def _cycle(self, m: Module, unit: Timestamps) -> None:
        """Assume how the cycle counter counts, and that nothing completes before a program runs."""
        before = Signal(32)
        counts = Signal()
        m.d.sync += [before.eq(unit.cycle), counts.eq(~unit.start)]
        young = self.elapsed < 1
        m.d.comb += [
            Assume(~counts | young | (unit.cycle == before) | (unit.cycle == before + 1)),
            Assume(~self.begun | (self.elapsed != 1) | (unit.cycle <= 1)),
            Assume(~unit.done.any() | (self.begun & ~young)),
        ]


class _Completion:
    """The completion for an arbitrary slot (entry) of the table, and its way to the table.

    Members
    -------
    slot:
        The slot, a free input that is constant.
    came:
        The completion has occurred.
    written:
        It has been written to the table.
    value, owner, while_clearing:
        The cycle of the completion, its unit, and whether the table was being cleared then.
    pending:
        One bit per unit: a completion of it waits to be written.
    """

    def __init__(self, m: Module, whitebox: Whitebox, times: _Times):
        unit = whitebox.unit
        self.slot = Signal(range(unit._timestamps))
        was = Signal(range(unit._timestamps))
        self.came = Signal()
        self.written = Signal()
        self.value = Signal(32)
        self.owner = Signal(2)
        self.while_clearing = Signal()
        known = Signal()
        self.pending = pending = whitebox.register(name="pending")
        mine = Cat(
            marked & (unit.done_mark[n] == self.slot) for n, marked in enumerate(times.marked)
        )
        m.d.sync += [was.eq(self.slot), known.eq(1)]
        m.d.comb += [
            Assume(~known | (self.slot == was)),
            # The mark is unique, and a unit completes nothing while its last completion waits.
            Assume(~mine.any() | (~self.came & ((mine & (mine - 1))[: len(mine)] == 0))),
            *(Assume(~marked | ~pending[n]) for n, marked in enumerate(times.marked)),
        ]
        with m.If(mine.any()):
            m.d.sync += [
                *(self.came.eq(1), self.value.eq(unit.cycle)),
                *(self.while_clearing.eq(times.clearing), self.owner.eq(_first_set(mine))),
            ]
        waits = self.came & ~self.written & (_first_set(pending) == self.owner)
        with m.If(waits & ~times.clearing & ~unit.reading):
            m.d.sync += self.written.eq(1)
        with m.If(unit.start):
            m.d.sync += [self.came.eq(0), self.written.eq(0)]


def _first_set(flags):
    """Return the index of the first unit whose flag is set; the last index if none is set."""
    return Mux(flags[0], 0, Mux(flags[1], 1, Mux(flags[2], 2, 3)))


def timestamps(unit: Timestamps) -> Claim:
    """Claim that any slot (entry of the table) holds the cycle of its completion, or 0 before it.

    Assumes that the cycle counter counts as documented; that reads come at most in every fourth
    cycle, and marked completions of a unit at most in every sixteenth and not while its last one
    waits; and that no two instructions of a program have the same mark.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    bits = len(whitebox.register(name="cycle_0"))
    times = _Times(m, unit, (1 << bits) - 1)
    completion = _Completion(m, whitebox, times)
    slot = completion.slot
    shown = Signal(32)
    read = Signal()
    done = times.begun & ~times.clearing
    expected = Signal(32)
    m.d.comb += shown.eq(Mux(completion.written, completion.value, 0))
    m.d.sync += [read.eq(done & (unit.slot == slot)), expected.eq(shown)]
    m.d.comb += [
        implies(read, unit.stored == expected),
        # It is written soon, and the table is cleared soon.
        *(
            implies(completion.pending[n] & ~times.clearing, times.waits[n] < longest)
            for n, longest in enumerate(_MAX_WAITS)
        ),
        implies(times.clearing, 3 * times.elapsed <= 4 * times.progress + times.rest),
        Cover(read & completion.written & (completion.value == 7) & (completion.owner == 2)),
    ]
    _lemmas(m, whitebox, times, completion)
    return Claim(module=m, ports=(slot, *inputs_of(unit)))


def _lemmas(m: Module, whitebox: Whitebox, times: _Times, completion: _Completion) -> None:
    """Assert invariants for the induction: registers, table, and age of completions."""
    slot, value, owner = completion.slot, completion.value, completion.owner
    came, written, while_clearing = completion.came, completion.written, completion.while_clearing
    unit, slots, pending = whitebox.unit, whitebox.unit._timestamps, completion.pending
    clear_slot = whitebox.register(name="clear_slot")
    clearing = whitebox.register(name="clearing")
    bits, waits = len(whitebox.register(name="cycle_0")), came & ~written
    table = whitebox.peek("table", slot)
    holds = ~times.clearing | (times.progress > slot + 2)
    latest = (4 * (slots + 2) + 3) // 3 + 1
    age = (unit.cycle - value)[:32]
    m.d.comb += [
        Assert(clearing == times.clearing),
        implies(clearing, clear_slot == (times.progress - 2)[: len(clear_slot)]),
        implies(times.begun & ~clearing, clear_slot == slots),
        Assert(times.progress <= slots + 2),
        implies(clearing, times.begun & (times.progress < slots + 2)),
        implies(times.begun & holds, table == Mux(written, value, 0)),
        implies(came, times.begun),
        implies(written, came & ~clearing),
        implies(~times.begun, ~pending.any() & ~times.clearing),
        # Since a program began no more cycles have been counted than passed.
        implies(
            times.begun & (times.elapsed > 0) & ~times.elapsed.all(),
            unit.cycle <= times.elapsed + 1,
        ),
        implies(waits & while_clearing, (times.elapsed <= latest + 8) & (value <= unit.cycle)),
        implies(waits & ~while_clearing, ~clearing & (age <= 16)),
    ]
    for number in range(len(UNITS)):
        here, mark = waits & (owner == number), whitebox.register(name=f"slot_{number}")
        cycle = whitebox.register(name=f"cycle_{number}")
        m.d.comb += [
            implies(here, pending[number] & (mark == slot) & (cycle == value[:bits])),
            implies(pending[number] & (mark == slot), here),
            implies(here & ~while_clearing, age <= times.waits[number] + 1),
            implies(
                here & while_clearing & ~clearing, times.elapsed <= latest + times.waits[number] + 1
            ),
        ]


def timestamps_proofs(units: list) -> list[Proof]:
    """Return the proof for the completion-time table of a chip."""
    return [
        Proof(
            kind="registers",
            unit="Timestamps",
            statement="from the end of clearing on, each slot reads as the 32-bit cycle in which "
            "its instruction completed, or as 0 without one; completions are written within ten "
            "cycles, or within ten of the end of clearing",
            build=lambda unit=unit: timestamps(unit),
            depth=12,
            cover_depth=90,
        )
        for unit in units
        if isinstance(unit, Timestamps)
    ]
