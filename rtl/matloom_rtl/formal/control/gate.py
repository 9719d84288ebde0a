"""Proof of each unit's queue: an instruction starts only after all that it waits for completed."""

from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Module, Mux, Signal, signed

from matloom.arch.isa import FORMATS, UNITS
from matloom_rtl.control.layouts import LONGEST_WAIT, max_issued_before_read, queue_places
from matloom_rtl.control.queue import UnitQueue
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["gate", "gate_proofs"]

#: Maximum number of incomplete instructions of a unit, in its queue and within the unit.
_OUTSTANDING = 63


class _MarkedInstruction:
    """One arbitrary instruction of the queue's unit, and its wait on each unit.

    `need[u]` is the number of completions of unit u before the instruction may start. At zero or
    below, unit u no longer delays the instruction. The number never wraps: the arrival sets it, and
    completions decrement it until the instruction is the issued head and needs no more completions
    of the unit (`reached[u]`).
    """

    def __init__(self, m: Module, unit: UnitQueue, issue, done):
        count = len(UNITS)
        bits = len(unit.completed[0]) + 2
        self.waits = Array(Signal(6, name=f"wait_{number}") for number in range(count))
        self.need = Array(Signal(signed(bits), name=f"need_{number}") for number in range(count))
        self.targets = Array(Signal(bits - 2, name=f"target_{number}") for number in range(count))
        self.outstanding = Array(Signal(7, name=f"under_way_{number}") for number in range(count))
        self.mark = Signal()
        #: Position of the instruction in the queue, from 1 on; 0 if it is not there. `is_head`:
        #: it has left the queue and is the head, the one to be shown.
        self.place = Signal(8)
        self.is_head = Signal()
        self.issued = Signal()
        self.reached = Array(Signal(name=f"reached_{number}") for number in range(count))
        #: Number of instructions issued since it arrived, including itself, until it is the head.
        self.since = Signal(8)
        for number in range(count):
            m.d.sync += self.outstanding[number].eq(
                self.outstanding[number] + issue[number] - done[number]
            )


def gate(unit: UnitQueue) -> Claim:
    """Claim that the marked instruction is shown only once it is issued and its waits are met.

    It is shown at most two cycles later. Assumes that an instruction arrives only after the
    dispatcher has issued the previous one. Assumes that the instruction memory returns requested
    words with their notes, and that it stores after an unread word at most as many words as it has
    other places, of which the dispatcher takes at least two per instruction that it issues.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    number = UNITS.index(unit._opcode)
    issue = Signal(len(UNITS))
    done = Signal(len(UNITS))
    item = _MarkedInstruction(m, unit, issue, done)
    wait = [Signal(6, name=f"waits_{each}") for each in range(len(UNITS))]
    present = whitebox.register(name="present")
    m.d.comb += unit.issued.eq(issue[number])
    unissued = _assume_dispatch(m, unit, item, issue, done, number)
    _assume_word_order(m, unit)
    came, left = unit.i.valid & unit.i.ready, present & unit.o.valid & unit.o.ready
    fetched, level = unit.brings & (unit.index == 0), whitebox.child("fifo").unit.level
    _follow(m, unit, item, (came, left, fetched, level), (wait, issue, done, number))
    _claim_notes(m, whitebox, item)
    _claim_bounds(m, unit, item, issue)
    shown, head = unit.o.valid & present, item.is_head
    needs = Cat((item.waits[each] != 0) & (item.need[each] > 0) for each in range(len(UNITS)))
    m.d.comb += [
        implies(head & shown, item.issued),
        implies(unit.o.valid, present),
        implies(head & unit._gated & shown, ~needs.any()),
        *(implies(head & unit.met[each], ~needs[each]) for each in range(len(UNITS))),
        # An instruction that may start is not held back.
        Assert(_cycles(m, head & item.issued & ~needs.any() & ~unit.o.valid) <= 2),
        Cover(head & shown & item.issued & (item.since > 1) & (item.waits[0] == 2)),
    ]
    _lemmas(m, whitebox, item, present, unissued)
    ports = (item.mark, issue, done, *wait, unit.i.valid, unit.brings, unit.index, unit.notes)
    return Claim(module=m, ports=(*(_as_value(each) for each in ports), unit.o.ready))


def _lemmas(m: Module, whitebox: Whitebox, item: _MarkedInstruction, present, unissued) -> None:
    """Assert invariants for the induction: the marked instruction's position in the queue."""
    unit, level, head = whitebox.unit, whitebox.child("fifo").unit.level, item.is_head
    lives, last = head | (item.place != 0), item.place == level
    m.d.comb += [
        Assert(level <= queue_capacity(unit)),
        implies(item.place != 0, item.place <= level),
        implies(head, present & (item.place == 0)),
        implies(lives, item.issued == ~(last & unissued)),
        Assert(whitebox.register(name="checked") == ~unissued),
        implies(unit.met.any() | whitebox.register(name="judged"), present),
        implies(head & whitebox.register(name="judged"), item.issued),
        implies(head & unit.met.any(), item.issued),
    ]


def _as_value(port):
    """Return a view as a value, and other signals as they are."""
    return port.as_value() if hasattr(port, "as_value") else port


def _assume_dispatch(
    m: Module, unit: UnitQueue, item: _MarkedInstruction, issue, done, number: int
) -> Signal:
    """Assume the behaviour of dispatcher and units.

    Returns whether the last instruction that arrived is not issued yet.
    """
    unissued = Signal()
    completed = [
        Signal(len(each), name=f"completed_{number}")
        for number, each in enumerate(_completed_counts(unit))
    ]
    with m.If(issue[number]):
        m.d.sync += unissued.eq(0)
    with m.Elif(unit.i.valid & unit.i.ready):
        m.d.sync += unissued.eq(1)
    m.d.comb += [
        Assume((issue & (issue - 1)) == 0),
        Assume(~issue[number] | unissued),
        Assume(~unissued | ~(issue.any() & ~issue[number])),
        Assume(~unit.i.valid | (~unissued & ~issue.any())),
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


def _completed_counts(unit: UnitQueue) -> list:
    """Return the number of instructions that each unit completed, as the queue's input says."""
    return [unit.completed[number] for number in range(len(UNITS))]


def _assume_word_order(m: Module, unit: UnitQueue) -> None:
    """Assume that the words of a requested instruction come without a gap, the last word first."""
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


def _follow(m: Module, unit: UnitQueue, item: _MarkedInstruction, moves, events) -> None:
    """Follow the marked instruction from its arrival to its departure."""
    came, left, fetched, level = moves
    wait, issue, done, number = events
    begins = came & item.mark & (item.place == 0) & ~item.is_head
    with m.If(fetched & (item.place != 0)):
        m.d.sync += [item.place.eq(item.place - 1), item.is_head.eq(item.place == 1)]
    with m.If(left):
        m.d.sync += item.is_head.eq(0)
    with m.If(issue[number]):
        m.d.sync += item.issued.eq(1)
    m.d.sync += item.since.eq(item.since + (issue.any() & ~item.is_head))
    for each in range(len(UNITS)):
        under_way = item.outstanding[each]
        reaches = item.is_head & item.issued & (item.need[each] <= 0)
        with m.If(reaches):
            m.d.sync += item.reached[each].eq(1)
        with m.Else():
            m.d.sync += item.need[each].eq(item.need[each] - done[each])
        with m.If(begins):
            m.d.sync += [
                item.waits[each].eq(wait[each]),
                item.reached[each].eq(0),
                item.need[each].eq(under_way + 1 - wait[each] - done[each]),
                item.targets[each].eq(unit.completed[each] + under_way - wait[each]),
            ]
    with m.If(begins):
        m.d.sync += [item.place.eq(level + 1 - fetched), item.issued.eq(0), item.since.eq(0)]


def _claim_notes(m: Module, whitebox: Whitebox, item: _MarkedInstruction) -> None:
    """Assume that the marked item's notes come with its last word; claim that they are kept."""
    unit = whitebox.unit
    first = FORMATS[unit._opcode].instruction_words - 1
    kept = unit.notes.shape()(whitebox.register(name="notes"))

    def same(notes):
        """Return whether stored notes equal the marked instruction's waits and target counts."""
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


def _claim_bounds(m: Module, unit: UnitQueue, item: _MarkedInstruction, issue) -> None:
    """Claim that `need` stays within limits, so that comparisons of wrapping counts are right.

    All words of instructions issued after an unread one are in the instruction memory, so there are
    few. The waits of the head are evaluated in every cycle, and stay met.
    """
    words = FORMATS[unit._opcode].instruction_words
    most = max_issued_before_read(unit._config, words)
    unread, bits = item.place != 0, len(unit.completed[0])
    # Its own issue is one of them.
    m.d.comb += [
        Assume(~unread | (item.since + issue.any() <= most + 1)),
        implies(unread | item.is_head, item.since <= most + 1),
        implies((unread | item.is_head) & ~item.issued, item.since == 0),
    ]
    lives = unread | item.is_head
    for each in range(len(UNITS)):
        need, reached = item.need[each], item.reached[each]
        modulo = (item.targets[each] + 1 - unit.completed[each])[:bits]
        low = item.outstanding[each] - item.since - (LONGEST_WAIT - 1)
        m.d.comb += [
            implies(unread | (item.is_head & ~item.issued), need >= low),
            implies(lives, (need >= -(LONGEST_WAIT + most)) & (need <= _OUTSTANDING + 1)),
            implies(lives & ~reached, need[:bits] == modulo),
            implies(lives & reached, item.is_head & item.issued & (need <= 0)),
            implies(item.is_head & reached, unit.met[each]),
        ]


def queue_capacity(unit: UnitQueue) -> int:
    """Return the number of places in the memory of a unit's queue."""
    return queue_places(unit._config)


def _cycles(m: Module, condition) -> Signal:
    """Return the cycles before this one for which a condition has held, saturating at seven."""
    count = Signal(3)
    m.d.sync += count.eq(Mux(condition, count + ~count.all(), 0))
    return count


def gate_proofs(units: list) -> list[Proof]:
    """Return a proof for the queue of each unit of a chip."""
    return [
        Proof(
            kind="dependencies",
            unit=f"UnitQueue, {unit._opcode.name}",
            statement="no instruction is shown before it passed all checks and everything it waits "
            "for has completed; one that may start is shown within three cycles",
            build=lambda unit=unit: gate(unit),
            depth=3,
            cover_depth=25,
        )
        for unit in units
        if isinstance(unit, UnitQueue)
    ]
