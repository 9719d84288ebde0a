"""The gate of each unit: no instruction starts before all that it waits for has completed."""

from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Module, Mux, Signal, signed

from matloom.arch.isa import FORMATS, UNITS
from matloom_rtl.control.layouts import AHEAD, queue_places
from matloom_rtl.control.queue import UnitQueue
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["gate", "gate_proofs"]

#: Longest wait of the instruction set, and more instructions than a unit has without completing
#: one: those of its queue, and those within the unit.
_LONGEST_WAIT, _OUTSTANDING = 63, 63

#: Instructions that are issued while a head is read, and in the two cycles in which the dispatcher
#: does not know that it must stop. A read waits for those of three full queues and of what comes
#: meanwhile: 48 cycles at `reference`, in which the dispatcher, at 16 an instruction, issues three.
_WHILE_READ, _LATE = 8, 2

#: Instructions that are issued while one head stays.
_EACH = AHEAD + _LATE + _WHILE_READ


class _Marked:
    """One arbitrary instruction of the queue's unit, and for each unit what it waits for.

    `need[u]`: so many completions of unit u are yet to come until it may start; 0 or less: none.
    Numbers here never wrap: they begin with what is outstanding when the instruction comes, and
    every completion takes one off.
    """

    def __init__(self, m: Module, unit: UnitQueue, issue, done):
        count = len(UNITS)
        bits = len(unit.completed[0]) + 2
        self.waits = Array(Signal(6, name=f"wait_{number}") for number in range(count))
        self.need = Array(Signal(signed(bits), name=f"need_{number}") for number in range(count))
        self.targets = Array(Signal(bits - 2, name=f"target_{number}") for number in range(count))
        self.outstanding = Array(Signal(7, name=f"under_way_{number}") for number in range(count))
        self.mark = Signal()
        #: Its place among those before the head, from 1 on; 0: it is not there. It is the head.
        self.place = Signal(8)
        self.is_head = Signal()
        self.issued = Signal()
        self.since = Signal(16)
        for number in range(count):
            m.d.sync += self.outstanding[number].eq(
                self.outstanding[number] + issue[number] - done[number]
            )


def gate(unit: UnitQueue) -> Claim:
    """Claim that the marked instruction is shown exactly when it is issued and its waits are met.

    Assumes of the dispatcher: an instruction comes when the one before is issued, at most
    `_WHILE_READ` are issued while a head is read, and none from the second cycle after `old` on.
    Assumes of the memory of instructions: it returns the requested words with their notes.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    number = UNITS.index(unit._opcode)
    issue = Signal(len(UNITS))
    done = Signal(len(UNITS))
    item = _Marked(m, unit, issue, done)
    wait = [Signal(6, name=f"waits_{each}") for each in range(len(UNITS))]
    present = whitebox.register(name="present")
    m.d.comb += [unit.issued.eq(issue[number]), unit.issues.eq(issue.any())]
    unissued = _dispatches(m, unit, item, issue, done, number)
    _brings(m, unit)
    came, left = unit.i.valid & unit.i.ready, present & unit.o.valid & unit.o.ready
    fetched, level = unit.brings & (unit.index == 0), whitebox.child("fifo").unit.level
    _follow(m, unit, item, (came, left, fetched, level), (wait, issue, done, number))
    _noted(m, whitebox, item, present)
    _bounded(m, whitebox, item, (came, left, present), issue)
    shown, head = unit.o.valid & present, item.is_head
    needs = Cat((item.waits[each] != 0) & (item.need[each] > 0) for each in range(len(UNITS)))
    m.d.comb += [
        implies(head & shown, item.issued),
        implies(unit.o.valid, present),
        implies(head & unit._gated & shown, ~needs.any()),
        *(implies(head & unit.met[each], ~needs[each]) for each in range(len(UNITS))),
        # Nothing that may start is kept back.
        Assert(_cycles(m, head & item.issued & ~needs.any() & ~unit.o.valid) <= 2),
        Cover(head & shown & item.issued & (item.since > 1) & (item.waits[0] == 2)),
    ]
    _lemmas(m, whitebox, item, present, unissued)
    ports = (item.mark, issue, done, *wait, unit.i.valid, unit.brings, unit.index, unit.notes)
    return Claim(module=m, ports=(*(_value(each) for each in ports), unit.o.ready))


def _lemmas(m: Module, whitebox: Whitebox, item: _Marked, present, unissued) -> None:
    """Say where the marked instruction is, and which instruction is not yet issued."""
    unit, level, head = whitebox.unit, whitebox.child("fifo").unit.level, item.is_head
    lives, last = head | (item.place != 0), item.place == level
    m.d.comb += [
        Assert(level <= unit_places(unit)),
        implies(item.place != 0, item.place <= level),
        implies(head, present & (item.place == 0)),
        implies(lives, item.issued == ~(last & unissued)),
        Assert(whitebox.register(name="checked") == ~unissued),
        implies(unit.met.any() | whitebox.register(name="judged"), present),
        implies(head & whitebox.register(name="judged"), item.issued),
        implies(head & unit.met.any(), item.issued),
    ]


def _value(port):
    return port.as_value() if hasattr(port, "as_value") else port


def _dispatches(m: Module, unit: UnitQueue, item: _Marked, issue, done, number: int) -> Signal:
    """Assume what the dispatcher and the units do; return whether the last one is unissued."""
    unissued = Signal()
    completed = [
        Signal(len(each), name=f"completed_{number}") for number, each in enumerate(_counts(unit))
    ]
    old = Signal(2)
    m.d.sync += old.eq(Cat(unit.old, old))
    with m.If(issue[number]):
        m.d.sync += unissued.eq(0)
    with m.Elif(unit.i.valid & unit.i.ready):
        m.d.sync += unissued.eq(1)
    m.d.comb += [
        Assume((issue & (issue - 1)) == 0),
        Assume(~issue[number] | unissued),
        Assume(~unissued | ~(issue.any() & ~issue[number])),
        Assume(~unit.i.valid | (~unissued & ~issue.any())),
        Assume(~(issue.any() & old[1])),
    ]
    for each, count in enumerate(completed):
        under_way = item.outstanding[each]
        m.d.sync += count.eq(count + done[each])
        m.d.comb += [
            unit.completed[each].eq(count),
            Assume(~done[each] | (under_way != 0)),
            Assume(~issue[each] | (under_way < _OUTSTANDING)),
            Assert(under_way <= _OUTSTANDING),
        ]
    return unissued


def _counts(unit: UnitQueue) -> list:
    return [unit.completed[number] for number in range(len(UNITS))]


def _brings(m: Module, unit: UnitQueue) -> None:
    """Assume that words come from the last to the first, when they are asked for."""
    first = FORMATS[unit._opcode].instruction_words - 1
    before = Signal()
    index = Signal.like(unit.index)
    m.d.sync += [before.eq(unit.brings), index.eq(unit.index)]
    goes_on = before & (index != 0)
    m.d.comb += [
        Assume(~goes_on | (unit.brings & (unit.index == index - 1))),
        Assume(~(unit.brings & ~goes_on) | (~before & unit.asks & (unit.index == first))),
        implies(unit.brings, unit.asks & (unit.index <= first)),
        implies(before & (index == 0), ~unit.asks),
    ]


def _follow(m: Module, unit: UnitQueue, item: _Marked, moves, events) -> None:
    """Follow the marked instruction from where it comes to where it leaves."""
    came, left, fetched, level = moves
    wait, issue, done, number = events
    begins = came & item.mark & (item.place == 0) & ~item.is_head
    with m.If(fetched & (item.place != 0)):
        m.d.sync += [item.place.eq(item.place - 1), item.is_head.eq(item.place == 1)]
    with m.If(left):
        m.d.sync += item.is_head.eq(0)
    with m.If(issue[number]):
        m.d.sync += item.issued.eq(1)
    m.d.sync += item.since.eq(item.since + issue.any())
    for each in range(len(UNITS)):
        under_way = item.outstanding[each]
        m.d.sync += item.need[each].eq(item.need[each] - done[each])
        with m.If(begins):
            m.d.sync += [
                item.waits[each].eq(wait[each]),
                item.need[each].eq(under_way + 1 - wait[each] - done[each]),
                item.targets[each].eq(unit.completed[each] + under_way - wait[each]),
            ]
    with m.If(begins):
        m.d.sync += [item.place.eq(level + 1 - fetched), item.issued.eq(0), item.since.eq(0)]


def _noted(m: Module, whitebox: Whitebox, item: _Marked, present) -> None:
    """Assume that what was noted of the marked instruction comes with its last word; it is kept."""
    unit = whitebox.unit
    first = FORMATS[unit._opcode].instruction_words - 1
    kept = unit.notes.shape()(whitebox.register(name="notes"))

    def same(notes):
        return Cat(
            (notes.waits[each] == (item.waits[each] != 0))
            & (notes.targets[each] == item.targets[each])
            for each in range(len(UNITS))
        ).all()

    mine = unit.brings & (item.place == 1)
    m.d.comb += [
        Assume(~(mine & (unit.index == first)) | same(unit.notes)),
        implies(mine & (unit.index != first), same(kept)),
        implies(item.is_head, same(kept)),
    ]


def _bounded(m: Module, whitebox: Whitebox, item: _Marked, moves, issue) -> None:
    """Claim that no number is so far from another that their order is lost."""
    unit = whitebox.unit
    came, left, present = moves
    begins = came & item.mark & (item.place == 0) & ~item.is_head
    lives = (item.place != 0) | item.is_head
    age, longest = whitebox.register(name="age"), unit_places(unit)
    # Issued since the head before left: of these while there was none, and after `old`.
    issued_now = Signal(16)
    unread = Signal(8)
    late = Signal(8)
    m.d.sync += [
        issued_now.eq(Mux(left | begins, 0, issued_now + issue.any())),
        unread.eq(Mux(left | ~(present | unit.asks), 0, unread + (issue.any() & ~present))),
        late.eq(Mux(left | ~present, 0, late + (issue.any() & unit.old))),
    ]
    before = Mux(item.is_head, 0, item.place - 1 + present)
    bits = len(unit.completed[0])
    m.d.comb += [
        Assume(unread <= _WHILE_READ),
        Assert(age <= AHEAD),
        implies(lives, before <= longest),
    ]
    for each in range(len(UNITS)):
        low = item.outstanding[each] - item.since - (_LONGEST_WAIT - 1)
        modulo = (item.targets[each] + 1 - unit.completed[each])[:bits]
        m.d.comb += [
            implies(lives, item.need[each] >= low),
            implies(lives, item.need[each] <= _OUTSTANDING + 1),
            implies(lives, item.need[each][:bits] == modulo),
        ]
    m.d.comb += [
        implies(lives, item.since <= (longest - before) * _EACH + issued_now),
        implies(lives, issued_now <= unread + age + late),
        implies(~present, (age == 0) & (late == 0)),
        implies(late != 0, age == AHEAD),
        Assert(late <= _LATE),
    ]


def unit_places(unit: UnitQueue) -> int:
    """Return the most instructions ahead of a new one: a full queue without it, and a head."""
    return queue_places(unit._config)


def _cycles(m: Module, condition) -> Signal:
    """Return for how many cycles before this one it has held, up to seven; with this one."""
    count = Signal(3)
    m.d.sync += count.eq(Mux(condition, count + ~count.all(), 0))
    return count


def gate_proofs(units: list) -> list[Proof]:
    """Return a proof for the queue of each unit of a chip."""
    return [
        Proof(
            kind="dependencies",
            unit=f"UnitQueue, {unit._opcode.name}",
            statement="no instruction is shown before it was found good and before all that it "
            "waits for have completed; one that may start is shown in three cycles",
            build=lambda unit=unit: gate(unit),
            depth=3,
            cover_depth=25,
        )
        for unit in units
        if isinstance(unit, UnitQueue)
    ]
