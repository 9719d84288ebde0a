"""The memory of instructions, and the dispatcher's part in what waits for what."""

from amaranth.hdl import Assert, Cat, Cover, Module, Mux, Signal

from matloom.arch.isa import FORMATS, UNITS, Opcode
from matloom_rtl.control.dispatch import Dispatch
from matloom_rtl.control.instructions import InstructionMemory
from matloom_rtl.formal.channel import implies
from matloom_rtl.formal.inside import Inside, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["dispatches", "instruction_memory", "instruction_proofs"]

#: Instruction words of each unit's instruction.
_WORDS = [FORMATS[unit].instruction_words for unit in UNITS]

#: Where `wait_load` begins in every instruction, and the bits of each wait.
_FIRST_WAIT, _WAIT_BITS = 12, 6

#: States of the dispatcher in which all words of an instruction are there.
_WHOLE = ("Look", "Look-Again", "Judge", "Measure", "Issue", "Settle", "Halted")

#: Cycles from an instruction that is issued to the next one, at least.
_APART = 6


def instruction_memory(unit: InstructionMemory) -> Claim:
    """Claim that a word lies where it was stored until it is read, and is read unchanged.

    Of the queues: they ask for places at which instructions end, whose words are all there.
    """
    m = Module()
    inside = Inside(unit)
    m.submodules.unit = inside.fragment
    mark, held, place = Signal(), Signal(), Signal.like(unit.last)
    value, notes = Signal.like(unit.i.payload), Signal(unit.notes.shape().size)
    occupied = inside.register(bits=1 << unit._bits)
    comes, reads = unit.i.valid & unit.i.ready, unit.brings.any()
    at = inside.register(bits=unit._bits, place=0)
    followed = (unit.last + 1)[: unit._bits]
    with m.If(comes & mark & ~held):
        m.d.sync += [held.eq(1), place.eq(followed), value.eq(unit.i.payload)]
    with m.Elif(held & reads & (at == place)):
        m.d.sync += held.eq(0)
    noted = Signal()
    with m.If(comes & ~held):
        m.d.sync += noted.eq(0)
    with m.If(unit.note & held & (unit.last == place)):
        m.d.sync += [noted.eq(1), notes.eq(unit.notes)]
    m.d.comb += [
        implies(held, occupied.bit_select(place, 1)),
        implies(comes & held, followed != place),
        implies(held & reads & (at == place), unit.word == value),
        implies(held & noted & reads & (at == place), unit.word_notes.as_value() == notes),
        implies(held, inside.peek("words", place) == value),
        implies(held & noted, inside.peek("noted", place) == notes),
        # Lemma: what is said to be free is.
        implies(inside.register(name="free"), ~occupied.bit_select(followed, 1)),
        Cover(held & noted & reads & (at == place) & (at == 0) & (unit.index == 1)),
    ]
    _in_order(m, unit, at)
    return Claim(module=m, ports=(mark, *inputs_of(unit)))


def _in_order(m: Module, unit: InstructionMemory, at) -> None:
    """Claim that whoever asks is served, the first first, with its words from the last on."""
    reads, before = unit.brings.any(), Signal.like(unit.brings)
    index, place = Signal.like(unit.index), Signal.like(at)
    asked, asks = Signal.like(unit.places.as_value()), Signal.like(unit.asks)
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
            # The unit first in the list goes first.
            implies(first, asks[number] & ~asks[:number].any() if number else asks[number]),
            implies(first, (unit.index == words - 1) & (at == asked.word_select(number, len(at)))),
            implies(mine, unit.index < words),
            implies(wants, reads),
        ]


def dispatches(unit: Dispatch) -> Claim:
    """Claim that an instruction is noted with its own waits, and issued once, when found good.

    A wait of k on a unit means its instructions up to the k-th before; k of 0 none. What never was
    issued is not waited for.
    """
    m = Module()
    inside = Inside(unit)
    # Whatever the two checks say.
    free = (*inside.free("bounds"), *inside.free("legality"))
    m.submodules.unit = inside.fragment
    queues = [getattr(unit, each.name.lower()) for each in UNITS]
    gives = Cat(queue.valid & queue.ready for queue in queues)
    takes, before_first = unit.i.valid & unit.i.ready, Signal(init=1)
    first = before_first | unit.issue.any()
    head, unissued = Signal(_FIRST_WAIT + 4 * _WAIT_BITS), Signal(len(UNITS))
    count = [Signal.like(unit.issued[number]) for number in range(len(UNITS))]
    many = [Signal(7, name=f"issued_{number}") for number in range(len(UNITS))]
    ended, apart = Signal(), Signal(4, init=15)
    with m.If(takes & first):
        m.d.sync += [head.eq(unit.i.payload), before_first.eq(0)]
    with m.Elif(unit.issue.any()):
        m.d.sync += before_first.eq(1)
    m.d.sync += [
        unissued.eq((unissued & ~unit.issue) | gives),
        apart.eq(Mux(unit.issue.any(), 1, apart + ~apart.all())),
        ended.eq(ended | (unit.fault != 0) | unit.finished),
    ]
    m.d.comb += [
        Assert((gives & (gives - 1)) == 0),
        implies(gives.any(), ~unissued.any()),
        implies(unit.issue.any(), unit.issue == unissued),
        implies(unit.issue.any(), ~ended & (apart >= _APART)),
        implies(unit.finished, Cat(unit.issued[n] == count[n] for n in range(len(UNITS))).all()),
    ]
    _waits(m, unit, (head, gives), (count, many))
    _known(m, inside, (first, head, unissued, ended, apart), (count, many))
    m.d.comb += Cover(unit.issue[0] & (head[12:18] == 1))
    return Claim(module=m, ports=(*free, *inputs_of(unit)))


def _waits(m: Module, unit: Dispatch, instruction, counts) -> None:
    """Claim what is noted of an instruction: of each unit whether and for what it waits."""
    (head, gives), (count, many) = instruction, counts
    queues = [getattr(unit, each.name.lower()) for each in UNITS]
    is_end = head[:4] == Opcode.END.value
    for number, opcode in enumerate(UNITS):
        wait = head[_FIRST_WAIT + _WAIT_BITS * number :][:_WAIT_BITS]
        issued = unit.issue[number]
        m.d.sync += [
            count[number].eq(count[number] + issued),
            many[number].eq(Mux(many[number].all(), many[number], many[number] + issued)),
        ]
        target = (count[number] - wait)[: len(count[number])]
        for each, queue in enumerate(queues):
            notes, mine = queue.payload, gives[each] & ~is_end
            m.d.comb += [
                implies(mine, notes.waits[number] == (wait != 0)),
                implies(mine, notes.targets[number] == target),
            ]
        m.d.comb += [
            # END may be given to any queue; it is never issued.
            implies(gives[number], (head[:4] == opcode.value) | is_end),
            implies(issued, head[:4] == opcode.value),
            implies(unit.issue.any(), wait <= many[number]),
            Assert(unit.issued[number] == count[number]),
        ]


def _known(m: Module, inside: Inside, followed, counts) -> None:
    """Say what the dispatcher's registers hold, and in which states: lemmas."""
    unit = inside.unit
    (first, head, unissued, ended, apart), (count, many) = followed, counts
    word = inside.register(bits=len(unit.i.payload) * max(_WORDS))
    whole, given = (inside.register(name=name) for name in ("whole", "given"))
    place = inside.register(bits=max(_WORDS))
    mine = inside.register(name="$signal", place=1)
    good = inside.in_states("Measure", "Issue")
    opcodes = Cat(head[:4] == opcode.value for opcode in UNITS)
    # Two cycles after the first word, what follows from it is in registers.
    known = Signal(2)
    m.d.sync += known.eq(Mux(first, 0, Cat(1, known)))
    waits = [head[_FIRST_WAIT + _WAIT_BITS * number :][:_WAIT_BITS] for number in range(len(UNITS))]
    m.d.comb += [
        implies(~first, word[: len(head)] == head),
        Assert(place[0] == first),
        Assert((place & (place - 1)) == 0),
        Assert(unit.i.ready == inside.in_states("Assemble")),
        implies(known[0], mine == opcodes),
        implies(first, ~whole & ~given),
        implies(given, whole),
        implies(whole, opcodes.any() | (head[:4] == Opcode.END.value)),
        Assert(unissued.any() == (given | unit.issue.any())),
        implies(inside.in_states("Look"), ~given),
        implies(whole & opcodes.any(), known[0]),
        implies(given & opcodes.any(), unissued == opcodes),
        implies(unit.issue.any(), unit.issue == opcodes),
        implies(good, known[0] & opcodes.any()),
        implies(inside.in_states(*_WHOLE[:5]), whole & ~first),
        implies(inside.in_states("Look-Again", "Judge"), known[0]),
        implies(whole, inside.in_states(*_WHOLE)),
        implies(ended, inside.in_states("Halted")),
        # Cycles since the one before was issued.
        implies(~first & opcodes.any(), apart != 0),
        *(
            implies(inside.in_states(state) & opcodes.any(), apart >= number)
            for number, state in zip((2, 3, 4, 5, 5), _WHOLE, strict=False)
        ),
    ]
    for number, wait in enumerate(waits):
        enough = inside.register(name=f"enough_{UNITS[number].name.lower()}")
        m.d.comb += [
            implies(good | unit.issue.any(), wait <= many[number]),
            implies(many[number] < 64, ~enough & (count[number] == many[number])),
            implies((many[number] >= 64) & ~enough, count[number] == 64),
        ]


#: Of each unit its claim, what is proven, and the depths of induction and covers.
_TABLE = {
    InstructionMemory: (instruction_memory, 2, 20),
    Dispatch: (dispatches, 3, 45),
}
_STATEMENTS = {
    InstructionMemory: "a word and what is noted of it lie where they were stored until they are "
    "read, and are read unchanged, those of an instruction from the last on; none waits without a "
    "read under way",
    Dispatch: "an instruction goes into the queue of its opcode with its own waits, and is issued "
    "once, and only if what it waits for was issued; none after a fault or END",
}


def instruction_proofs(units: list) -> list[Proof]:
    """Return the proofs of the memory of instructions and of the dispatcher of a chip."""
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
