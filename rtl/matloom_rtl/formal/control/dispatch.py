"""Claim about the dispatcher: each instruction enters its queue with its own waits."""

from amaranth.hdl import Assert, Cat, Cover, Module, Mux, Signal

from matloom.arch.isa import FORMATS, UNITS, Opcode
from matloom_rtl.control.dispatch import Dispatch
from matloom_rtl.control.layouts import LONGEST
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim

__all__ = ["InstructionFlow", "dispatch_lemmas", "dispatches"]

#: Number of words of each unit's instruction.
_WORDS = [FORMATS[unit].instruction_words for unit in UNITS]

#: First bit of the waits in every instruction, and the width of a wait.
_FIRST_WAIT, _WAIT_BITS = 12, 6

#: States of the dispatcher in which an instruction is complete.
_COMPLETE_STATES = ("Look", "Look-Again", "Judge", "Measure", "Issue", "Settle", "Halted")

#: Minimum cycles from the issue of an instruction to the next.
_MIN_ISSUE_DISTANCE = 6


class InstructionFlow:
    """Instructions as they arrive, enter their queues, and are issued.

    Members
    -------
    first:
        The next word is the first of an instruction.
    head:
        First 36 bits of the current instruction.
    waits:
        Waits of the current instruction, by unit.
    opcodes:
        One bit per unit: the current instruction is for it.
    takes:
        A word is taken in this cycle.
    gives:
        One bit per unit: an instruction enters its queue in this cycle.
    unissued:
        One bit per unit: the last instruction in its queue is not issued yet.
    ended:
        There was a fault, or END.
    apart:
        Cycles since the previous issue, saturating.
    count:
        Number of instructions issued to each unit, as wide as the dispatcher's count.
    many:
        Number of instructions issued to each unit, saturating at 127.
    taken:
        Number of words taken since the previous issue.
    """

    def __init__(self, m: Module, unit: Dispatch):
        queues = [getattr(unit, each.name.lower()) for each in UNITS]
        self.gives = Cat(queue.valid & queue.ready for queue in queues)
        self.takes = unit.i.valid & unit.i.ready
        before_first = Signal(init=1)
        self.first = before_first | unit.issue.any()
        self.head = Signal(_FIRST_WAIT + 4 * _WAIT_BITS)
        self.unissued = Signal(len(UNITS))
        self.count = [
            Signal.like(unit.issued[number], name=f"count_{number}") for number in range(len(UNITS))
        ]
        self.many = [Signal(7, name=f"issued_{number}") for number in range(len(UNITS))]
        self.ended = Signal()
        self.apart = Signal(4, init=15)
        self.taken = Signal(range(LONGEST + 1))
        self.opcodes = Cat(self.head[:4] == opcode.value for opcode in UNITS)
        self.waits = [
            self.head[_FIRST_WAIT + _WAIT_BITS * number :][:_WAIT_BITS]
            for number in range(len(UNITS))
        ]
        with m.If(self.takes & self.first):
            m.d.sync += [self.head.eq(unit.i.payload), before_first.eq(0)]
        with m.Elif(unit.issue.any()):
            m.d.sync += before_first.eq(1)
        m.d.sync += [
            self.taken.eq(Mux(unit.issue.any(), 0, self.taken) + self.takes),
            self.unissued.eq((self.unissued & ~unit.issue) | self.gives),
            self.apart.eq(Mux(unit.issue.any(), 1, self.apart + ~self.apart.all())),
            self.ended.eq(self.ended | (unit.fault != 0) | unit.finished),
        ]
        for issued, count, many in zip(unit.issue, self.count, self.many, strict=True):
            m.d.sync += [count.eq(count + issued), many.eq(Mux(many.all(), many, many + issued))]


def dispatches(unit: Dispatch) -> Claim:
    """Claim that an instruction enters its queue with its own waits, and is issued once.

    A wait of k on a unit means that the k-th last instruction issued to the unit must have
    completed; 0 means no wait. An instruction is issued only if those it waits for were issued, and
    none is issued in the cycle after `halt`. At an issue, exactly the words of that instruction
    have been taken since the previous issue. The checks are removed and may give any verdict.
    """
    m = Module()
    whitebox = Whitebox(unit)
    # For any verdicts of the two checks.
    free = (*whitebox.free("bounds"), *whitebox.free("legality"))
    m.submodules.unit = whitebox.fragment
    followed = InstructionFlow(m, unit)
    gives, unissued = followed.gives, followed.unissued
    halted = Signal()
    m.d.sync += halted.eq(unit.halt)
    m.d.comb += [
        implies(halted, ~unit.issue.any()),
        *(
            implies(issued, followed.taken == words)
            for issued, words in zip(unit.issue, _WORDS, strict=True)
        ),
        Assert((gives & (gives - 1)) == 0),
        implies(gives.any(), ~unissued.any()),
        implies(unit.issue.any(), unit.issue == unissued),
        implies(unit.issue.any(), ~followed.ended & (followed.apart >= _MIN_ISSUE_DISTANCE)),
        implies(
            unit.finished, Cat(unit.issued[n] == followed.count[n] for n in range(len(UNITS))).all()
        ),
    ]
    _waits(m, unit, followed)
    dispatch_lemmas(m, whitebox, followed)
    m.d.comb += Cover(unit.issue[0] & (followed.waits[0] == 1))
    return Claim(module=m, ports=(*free, *inputs_of(unit)))


def _waits(m: Module, unit: Dispatch, flow: InstructionFlow) -> None:
    """Claim the waits that go with an instruction: for each unit, whether, and for which count."""
    queues = [getattr(unit, each.name.lower()) for each in UNITS]
    is_end = flow.head[:4] == Opcode.END.value
    for number, opcode in enumerate(UNITS):
        wait, count = flow.waits[number], flow.count[number]
        issued, target = unit.issue[number], (count - wait)[: len(count)]
        for each, queue in enumerate(queues):
            notes, mine = queue.payload, flow.gives[each] & ~is_end
            m.d.comb += [
                implies(mine, notes.waits[number] == (wait != 0)),
                implies(mine, notes.targets[number] == target),
            ]
        m.d.comb += [
            # END may be given to any queue; it is never issued.
            implies(flow.gives[number], (flow.head[:4] == opcode.value) | is_end),
            implies(issued, flow.head[:4] == opcode.value),
            implies(unit.issue.any(), wait <= flow.many[number]),
        ]


def dispatch_lemmas(m: Module, whitebox: Whitebox, flow: InstructionFlow) -> None:
    """Assert invariants for the induction: the dispatcher's registers, by its state."""
    unit = whitebox.unit
    first, head, opcodes, apart = flow.first, flow.head, flow.opcodes, flow.apart
    word = whitebox.register(name="word")
    whole, given = (whitebox.register(name=name) for name in ("whole", "given"))
    place = whitebox.register(name="place")
    mine = whitebox.register(name="mine")
    good = whitebox.in_states("Measure", "Issue")
    # Two cycles after the first word, its decoded values are registered.
    known = Signal(2)
    m.d.sync += known.eq(Mux(first, 0, Cat(1, known)))
    unissued = flow.unissued
    m.d.comb += [
        implies(~first, word[: len(head)] == head),
        Assert(place[0] == first),
        Assert((place & (place - 1)) == 0),
        Assert(unit.i.ready == whitebox.in_states("Assemble")),
        implies(unit.i.ready & ~unit.issue.any(), place == (1 << flow.taken)[:LONGEST]),
        implies(
            unit.i.ready & ~first,
            (Cat(flow.taken < words for words in _WORDS) & opcodes).any(),
        ),
        *(
            implies(whole & opcodes[number], flow.taken == words)
            for number, words in enumerate(_WORDS)
        ),
        implies(known[0], mine == opcodes),
        implies(first, ~whole & ~given),
        implies(given, whole),
        implies(whole, opcodes.any() | (head[:4] == Opcode.END.value)),
        Assert(unissued.any() == (given | unit.issue.any())),
        implies(whitebox.in_states("Look"), ~given),
        implies(whole & opcodes.any(), known[0]),
        implies(given & opcodes.any(), unissued == opcodes),
        implies(unit.issue.any(), unit.issue == opcodes),
        implies(good, known[0] & opcodes.any()),
        implies(whitebox.in_states(*_COMPLETE_STATES[:5]), whole & ~first),
        implies(whitebox.in_states("Look-Again", "Judge"), known[0]),
        implies(whole, whitebox.in_states(*_COMPLETE_STATES)),
        implies(flow.ended, whitebox.in_states("Halted")),
        # Cycles since the one before was issued.
        implies(~first & opcodes.any(), apart != 0),
        *(
            implies(whitebox.in_states(state) & opcodes.any(), apart >= number)
            for number, state in zip((2, 3, 4, 5, 5), _COMPLETE_STATES, strict=False)
        ),
    ]
    for number, wait in enumerate(flow.waits):
        many, count = flow.many[number], flow.count[number]
        enough = whitebox.register(name=f"enough_{UNITS[number].name.lower()}")
        m.d.comb += [
            Assert(unit.issued[number] == count),
            implies(good | unit.issue.any(), wait <= many),
            implies(many < 64, ~enough & (count == many)),
            implies((many >= 64) & ~enough, count == 64),
        ]
