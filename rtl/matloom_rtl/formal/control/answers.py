"""Proof of the dispatcher's checks: a refused instruction is never issued, and faults are right."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal

from matloom.arch.csr import Fault
from matloom.arch.isa import FORMATS, Opcode
from matloom_rtl.control.bounds import Bounds
from matloom_rtl.control.dispatch import Dispatch
from matloom_rtl.formal.control.dispatch import InstructionFlow, dispatch_lemmas
from matloom_rtl.formal.control.extents import CYCLES
from matloom_rtl.formal.control.legality import Shown
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["answer_proofs", "answer_timing", "answers"]

#: Maximum cycles of a check of extents, and initial cycles in which it has no answer.
_LONGEST, _SILENT = max(CYCLES.values()), 3

_RANGES = (Fault.SPAD_RANGE, Fault.ACC_RANGE, Fault.DRAM_RANGE)

#: States of the dispatcher in which no check of extents is in progress or has found a fault.
_QUIET = ("Assemble", "Unknown", "Cut-Short", "Cut-Within", "Look", "Issue", "Settle")


class _Answers:
    """Free inputs instead of the checks of fields and memory ranges, with their proven timing.

    Members
    -------
    illegal, read_only:
        Verdict on the fields of the current instruction, an arbitrary one.
    same, held:
        As in `Shown`; the unit gives the verdict when `held` is 2.
    busy:
        A check of extents is in progress.
    since:
        Cycles of the check of extents so far.
    ports:
        Inputs of the claim.
    """

    def __init__(self, m: Module, whitebox: Whitebox):
        self.bounds, self.legality = (whitebox.child(name).unit for name in ("bounds", "legality"))
        self.says = Signal(2)
        self.ports = (self.says, *whitebox.free("bounds"), *whitebox.free("legality"))
        self._add_field_check(m)
        self._add_extent_check(m)

    def _add_field_check(self, m: Module) -> None:
        """Add the check of fields as free inputs, equal to one verdict once it is due."""
        legality, shown = self.legality, Shown(m, self.legality)
        self.illegal = Signal()
        self.read_only = Signal()
        self.same, self.held = shown.same, shown.held
        with m.If(~self.same):
            m.d.sync += Cat(self.illegal, self.read_only).eq(self.says)
        verdict = legality.illegal_field == self.illegal
        verdict &= legality.read_only == self.read_only
        # Proven for the unit by `legality`.
        m.d.comb += Assume((self.held != 2) | verdict)

    def _add_extent_check(self, m: Module) -> None:
        """Add the check of memory ranges as free inputs, with the timing proven for it."""
        bounds = self.bounds
        self.busy = Signal()
        self.since = Signal(range(_LONGEST + 2))
        found = Cat(bounds.fault, bounds.address)
        before = Signal.like(found, name="found_before")
        m.d.sync += [
            before.eq(found),
            self.busy.eq(bounds.start | (self.busy & ~bounds.done)),
            self.since.eq(Mux(bounds.start, 1, self.since + (self.busy & ~bounds.done))),
        ]
        silent, known = self.since <= _SILENT, Cat(bounds.fault == each for each in _RANGES).any()
        m.d.comb += [
            # Proven for the unit by `bounds` and `answer_timing`.
            Assume(~bounds.done | (self.busy & (self.since >= _SILENT))),
            Assume(~(self.busy & (self.since == _LONGEST)) | bounds.done),
            Assume(~(self.busy & silent) | (found == 0)),
            Assume(~bounds.done | known | (found == 0)),
            Assume(self.busy | (found == before)),
            # Requirements of the check: one at a time, of a stable word.
            implies(bounds.start, ~self.busy),
            implies(self.busy, self.same),
        ]


class _Instruction:
    """The current instruction, by the words taken so far.

    Members
    -------
    whole:
        All words of the instruction were taken.
    known:
        The opcode exists.
    early:
        It waits for an instruction that was not issued.
    short:
        One bit per opcode: the instruction has it, and not all of its words were taken.
    taken:
        Number of its words taken so far.
    age:
        Cycles since all words were taken, saturating.
    number:
        Number of instructions issued before it.
    """

    def __init__(self, m: Module, unit: Dispatch, flow: InstructionFlow):
        first, opcode = flow.first, flow.head[:4]
        self.taken = Signal(3)
        self.age = Signal(6)
        self.number = Signal(32)
        self.whole = Signal(name="whole_words")
        self.known = Signal()
        words = {each.value: layout.instruction_words for each, layout in FORMATS.items()}
        self.short = Cat((opcode == each) & (self.taken < count) for each, count in words.items())
        whole = Cat((opcode == each) & (self.taken == count) for each, count in words.items())
        self.early = Cat(
            wait > many for wait, many in zip(flow.waits, flow.many, strict=True)
        ).any()
        m.d.comb += [
            self.whole.eq(~first & whole.any()),
            self.known.eq(Cat(opcode == each.value for each in FORMATS).any()),
        ]
        m.d.sync += [
            self.taken.eq(Mux(first, 0, self.taken) + flow.takes),
            self.age.eq(Mux(self.whole, self.age + ~self.age.all(), 0)),
            self.number.eq(self.number + unit.issue.any()),
        ]


def _cause(checks: _Answers, flow: InstructionFlow, now: _Instruction):
    """Return the cause of the first check that fails, 0 if none; memory ranges come last."""
    cause = checks.bounds.fault
    for applies, each in (
        (now.early, Fault.DEPENDENCY),
        (checks.read_only, Fault.READ_ONLY_REGION),
        (checks.illegal, Fault.ILLEGAL_FIELD),
        (~now.whole, Fault.COMMAND_RANGE),
        (~now.known, Fault.ILLEGAL_OPCODE),
        (flow.first, Fault.COMMAND_RANGE),
    ):
        cause = Mux(applies, each, cause)
    return cause


def answers(unit: Dispatch) -> Claim:
    """Claim that a refused instruction is not issued, and that the fault is right and in time.

    The first check that fails gives the cause: opcode, fields, region, dependencies, extents.
    Assumes that the checks of fields and extents give any results, at the times proven for them.
    """
    m = Module()
    whitebox = Whitebox(unit)
    checks = _Answers(m, whitebox)
    bounds = checks.bounds
    m.submodules.unit = whitebox.fragment
    followed = InstructionFlow(m, unit)
    now = _Instruction(m, unit, followed)
    dispatch_lemmas(m, whitebox, followed)
    opcode, issues = followed.head[:4], unit.issue.any()
    cause = _cause(checks, followed, now)
    of_extent, faulty = Cat(unit.fault == each for each in _RANGES).any(), unit.fault != 0
    refused = checks.illegal | checks.read_only | now.early
    m.d.comb += [
        implies(issues, ~refused & ~checks.busy & (bounds.fault == 0)),
        implies(unit.finished, ~refused & (opcode == Opcode.END)),
        implies(faulty, ~followed.ended & (unit.fault == cause)),
        implies(faulty, unit.fault_opcode == Mux(followed.first, 0, opcode)),
        implies(faulty, unit.fault_address == Mux(of_extent, bounds.address, 0)),
        implies(faulty, unit.index == now.number),
        implies(bounds.start, now.whole & (opcode != Opcode.END) & (bounds.opcode == opcode)),
        Assert((unit.region == bounds.region) & (bounds.region_bytes == unit.region_bytes)),
        Cover((unit.fault == Fault.SPAD_RANGE) & (now.number == 1)),
        Cover((unit.fault == Fault.DEPENDENCY) & (now.number == 1)),
        Cover((unit.fault == Fault.ILLEGAL_FIELD) & (opcode == Opcode.END)),
    ]
    _in_time(m, unit, checks, (followed, now))
    _lemmas(m, whitebox, (checks, followed, now))
    return Claim(module=m, ports=(*checks.ports, *inputs_of(unit)))


def _in_time(m: Module, unit: Dispatch, checks: _Answers, instruction) -> None:
    """Claim that an instruction is issued or refused in the cycle after its checks are done.

    Nothing is claimed while its queue does not have it yet, or while `halt` is set.
    """
    followed, now = instruction
    waits = now.whole & ~followed.ended & (unit.fault == 0) & followed.opcodes.any()
    done = (now.age >= _SILENT) & (~checks.busy | checks.bounds.done)
    due = Signal()
    m.d.sync += due.eq(waits & done & followed.unissued.any() & ~unit.halt)
    m.d.comb += implies(due, unit.issue.any() | (unit.fault != 0))


def _lemmas(m: Module, whitebox: Whitebox, followed) -> None:
    """Assert invariants of registers; `followed`: an instruction's checks, words and number."""
    checks, words, now = followed
    unit, states, bounds = whitebox.unit, whitebox.in_states, checks.bounds
    place = whitebox.register(name="place")
    checked = words.head[:4] != Opcode.END
    found = Cat(bounds.fault, bounds.address)
    m.d.comb += [
        Assert(unit.index == now.number),
        Assert(whitebox.register(name="whole") == now.whole),
        implies(now.whole, place == 0),
        implies(~words.first & ~now.whole & now.known, place == (1 << now.taken)[: len(place)]),
        implies(~words.first & now.known, now.whole | now.short.any()),
        implies(~words.first, now.taken != 0),
        implies(states("Assemble") & ~words.first, now.known & ~now.whole),
        implies(states("Unknown"), ~words.first & ~now.known),
        implies(states("Cut-Short"), words.first),
        implies(states("Cut-Within"), ~words.first & now.known & ~now.whole),
        implies(
            states("Settle"),
            now.whole & ~checked & ~now.early & ~checks.illegal & ~checks.read_only,
        ),
        Assert(states("Halted") == ((unit.fault != 0) | words.ended)),
        # Of the checks.
        implies(states(*_QUIET), ~checks.busy & (found == 0)),
        implies(states("Look"), now.age == 0),
        implies(states("Look-Again"), (checks.busy == checked) & (now.age == 1)),
        implies(states("Judge"), (checks.busy == checked) & (now.age == 2)),
        implies(states("Measure"), checks.busy & (now.age >= _SILENT)),
        implies(checks.busy & ~states("Halted"), checks.since == now.age),
        implies(checks.busy, now.whole & (checks.since <= _LONGEST)),
        implies(states("Look-Again"), checks.held >= 1),
        implies(states("Judge", "Measure", "Issue", "Settle"), checks.held == 2),
        implies(states("Judge"), whitebox.register(name="unissued") == now.early),
        implies(states("Measure", "Issue"), ~checks.illegal & ~checks.read_only),
    ]


def answer_timing(unit: Bounds) -> Claim:
    """Claim when a check of memory ranges answers, and that its answer stays until the next one.

    Assumes one check at a time, which `answers` claims. `bounds` claims the answer itself.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    found = Cat(unit.fault, unit.address)
    busy = Signal()
    since = Signal(4)
    before = Signal.like(found, name="found_before")
    m.d.sync += [
        before.eq(found),
        busy.eq(unit.start | (busy & ~unit.done)),
        since.eq(Mux(unit.start, 1, since + ~since.all())),
    ]
    names = ("select", "subtract", "multiply", "carry", "add", "judge")
    stages = [whitebox.register(name=name) for name in names]
    running, told = whitebox.register(name="running"), whitebox.register(name="told")
    steps, final = Cat(stage[0] for stage in stages), Cat(stage[:2].all() for stage in stages)
    m.d.comb += [
        Assume(~unit.start | ~busy),
        implies(unit.done, busy & (since >= _SILENT)),
        implies(busy & (since <= _SILENT), found == 0),
        implies(~busy, found == before),
        # Lemmas: no step follows the last; bound on the first.
        implies(running | steps.any() | told.any(), busy & ~unit.done),
        implies(running | told.any(), ~final.any() & (since != 0)),
        implies(told.any(), ~running & ~steps.any() & (since == told) & ~told.all()),
        *(implies(stage[0], since > place) for place, stage in enumerate(stages, start=1)),
        *(implies(final[place], ~steps[:place].any()) for place in range(1, len(stages))),
        Cover(unit.done & (since > _SILENT)),
    ]
    return Claim(module=m, ports=inputs_of(unit))


_STATEMENTS = {
    Dispatch: (
        "an instruction that fails a check is never issued, and the fault has its cause, opcode, "
        "index and address; once in its queue, it is issued or refused as soon as it is checked"
    ),
    Bounds: (
        "a check answers once, not before its third cycle, and its answer is stable until the next"
    ),
}


def answer_proofs(units: list) -> list[Proof]:
    """Return the proofs of the dispatcher's reaction to its checks, and of their timing."""
    table = {Dispatch: ("dependencies", answers, 3), Bounds: ("bounds", answer_timing, 1)}
    return [
        Proof(
            kind=kind,
            unit=f"{type(unit).__name__}, answers",
            statement=_STATEMENTS[type(unit)],
            build=lambda unit=unit, claim=claim: claim(unit),
            depth=depth,
            cover_depth=30,
        )
        for unit in units
        if type(unit) in table
        for kind, claim, depth in (table[type(unit)],)
    ]
