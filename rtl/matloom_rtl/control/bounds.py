"""Bounds check, with one multiplier: an instruction stays within each memory it touches."""

import itertools
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom.arch.isa import FORMATS, AddressSpace, Extent, Opcode, Region, extents_of
from matloom_rtl.control.choose import choose
from matloom_rtl.control.layouts import GRANULE_BITS, LONGEST, field_place, slice_field

__all__ = ["Bounds"]

#: Maximum width of the first factor of a term, the widest, and of the others. The limit on the
#: others halves the multiplier.
_FIRST_BITS, _FACTOR_BITS = 32, 16

#: Sources of factors per group in the first stage of the look-up.
_GROUP = 8

#: Bits of the partial product that one hardware multiplier takes.
_LOW_BITS = 18

#: Sums and products are kept modulo 2**32, with an overflow flag.
_SUM_BITS = 32

_CAUSES = {
    AddressSpace.SPAD: Fault.SPAD_RANGE,
    AddressSpace.ACC: Fault.ACC_RANGE,
    AddressSpace.DRAM: Fault.DRAM_RANGE,
}


@dataclass(frozen=True, kw_only=True)
class _Step:
    """One factor in an extent, the end of a memory range: a field, a field minus one, a constant.

    An extent is a sum of terms, each of one or two factors, of which each takes a cycle. A
    second factor needs the product of the first, which takes a cycle more: the base of the extent,
    a term of one factor, comes between two such factors, where there are any.
    """

    opcode: Opcode
    extent: Extent
    factor: str | int
    first_factor: bool
    last_factor: bool
    #: Whether the step waits for a cycle, because the partial product is not ready yet.
    waits: bool
    #: In the last step of an extent, the indices of the first steps of the remaining extents of the
    #: opcode; otherwise None.
    next: tuple[int, ...] | None

    @property
    def last(self) -> bool:
        """Whether the extent ends with this step."""
        return self.next is not None


def _split(factor: str) -> tuple[str, str]:
    """Return the name of a factor's field, and its suffix: ``-1``, ``/2``, ``%2`` or nothing."""
    suffix = factor[-2:] if factor[-2:] in ("-1", "/2", "%2") else ""
    return factor.removesuffix(suffix), suffix


def _factors(term: tuple[str, ...], opcode: Opcode, config: Config) -> list[str | int]:
    """Return the factors of a term, the widest first, with constants combined into one."""
    bits = {item.name: item.width(config) for item in FORMATS[opcode].fields}
    constant, widths = 1, {}
    for text in term:
        if text.isdigit():
            constant *= int(text)
        elif text.startswith("@"):
            constant *= getattr(config, text[1:])
        else:
            name, suffix = _split(text)
            widths[text] = {"/2": bits[name] - 1, "%2": 1}.get(suffix, bits[name])
    if not widths or constant != 1:
        widths[constant] = constant.bit_length()
    factors = sorted(widths, key=widths.get, reverse=True)
    assert widths[factors[0]] <= _FIRST_BITS
    assert all(widths[factor] <= _FACTOR_BITS for factor in factors[1:])
    return factors


def _terms(extent: Extent, opcode: Opcode, config: Config) -> list[dict]:
    """Return the attributes of `_Step` for each factor of an extent, in the order of its steps."""
    steps = []
    for term in extent.terms:
        factors = _factors(term, opcode, config)
        steps += [
            {
                "factor": factor,
                "first_factor": place == 0,
                "last_factor": place == len(factors) - 1,
                "waits": place > 0,
            }
            for place, factor in enumerate(factors)
        ]
    gaps = [place for place, each in enumerate(steps) if each["waits"]]
    if gaps:
        steps[gaps[0]]["waits"] = False
    base = {"factor": extent.base, "first_factor": True, "last_factor": True, "waits": False}
    steps.insert(gaps[0] if gaps else 0, base)
    return steps


def _extents(opcode: Opcode, config: Config) -> tuple[Extent, ...]:
    """Return the extents (ends of memory ranges) of an opcode that are checked."""
    extents = extents_of(opcode, config)
    return tuple(each for each in extents if config.checks or each.memory is AddressSpace.DRAM)


def _program(config: Config) -> tuple[list[_Step], dict[Opcode, tuple[int, ...]]]:
    """Return the steps of all opcodes in sequence, and by opcode the first step of each extent.

    Extents are in the order of the instruction set's table; steps are given by their index.
    """
    steps, entries = [], {}
    for opcode in FORMATS:
        extents = _extents(opcode, config)
        tables = [_terms(extent, opcode, config) for extent in extents]
        first_steps = list(itertools.accumulate(map(len, tables), initial=len(steps)))
        entries[opcode] = tuple(first_steps[:-1])
        for number, (extent, table) in enumerate(zip(extents, tables, strict=True)):
            for place, attributes in enumerate(table):
                last = place == len(table) - 1
                steps.append(
                    _Step(
                        opcode=opcode,
                        extent=extent,
                        next=tuple(first_steps[number + 1 : -1]) if last else None,
                        **attributes,
                    )
                )
    return steps, entries


def _source(step: _Step, config: Config) -> tuple[int, int] | int:
    """Return the constant of a factor, or the half-open range of instruction bits that hold it."""
    if isinstance(step.factor, int):
        return step.factor
    name, suffix = _split(step.factor)
    start, _end = field_place(step.opcode, name)
    item = next(item for item in FORMATS[step.opcode].fields if item.name == name)
    end = start + item.width(config)
    return {"/2": (start + 1, end), "%2": (start, start + 1)}.get(suffix, (start, end))


def _sources(steps: list[_Step], config: Config) -> list[tuple[int, int] | int]:
    """Return the distinct operands of all steps by width: bits of a word, or a constant."""

    def width(source):
        """Return the width in bits of a source."""
        return source.bit_length() if isinstance(source, int) else source[1] - source[0]

    return sorted(
        {_source(step, config) for step in steps}, key=lambda each: (width(each), str(each))
    )


def _early_fields(successor_count: int) -> dict:
    """Return the fields of a step that decide which step follows.

    `turn` is an index into `Bounds._successors`, which has `successor_count` items.
    """
    return {"waits": 1, "turn": max(4, (successor_count - 1).bit_length())}


#: Other attributes of a step, stored in a memory.
_LATE_FIELDS = {
    **dict.fromkeys(("minus_one", "first_factor", "last_factor"), 1),
    "memory": AddressSpace,
    "group": 4,
    "member": range(_GROUP),
}


class Bounds(wiring.Component):
    """Compare the end of every extent of `arch/isa.py` with the capacity of its memory.

    Without `Config.checks`, only extents in external memory are checked.

    Latency: 7 cycles plus the steps of all extents that apply, or 3 cycles if none applies. The
    first factor of a term takes one cycle; each further factor takes two, because it waits for the
    partial product. The base of an extent uses the first such wait, or a cycle of its own if
    there is none. Throughput: one check at a time. Stalls: none.

    Extents are judged in the order of the table, and the first that fails determines the fault.
    Numbers are exact modulo 2**32, and overflow is a fault.

    Members
    -------
    start: in
        Begin a check of `word`. `word`, and the size of its region, must be stable until `done`.
    word: in
        The instruction, starting at bit 0.
    opcode: in
        A legal opcode other than END.
    region, region_bytes: out, in
        The region of the instruction, and its size in the same cycle.
    done: out
        High for one cycle: `fault` and `address` are valid.
    fault, address: out
        A `csr.Fault`, and the low 32 bits of the extent's end; 0 if there is no fault. Stable until
        the next start.
    """

    def __init__(self, config: Config):
        self._config = config
        self._program, self._entries = _program(config)
        self._sources = _sources(self._program, config)
        # Possible successors at the end of an extent; None within an extent.
        self._successors = [None, *dict.fromkeys(each.next for each in self._program if each.last)]
        self._early = data.StructLayout(_early_fields(len(self._successors)))
        self._late = data.StructLayout(_LATE_FIELDS)
        assert len(self._sources) <= _GROUP << 4
        super().__init__(
            {
                "start": In(1),
                "word": In(LONGEST * GRANULE_BITS),
                "opcode": In(4),
                "region": Out(range(len(Region))),
                "region_bytes": In(32),
                "done": Out(1),
                "fault": Out(4),
                "address": Out(32),
            }
        )

    def elaborate(self, platform):
        """Return the module: a pipeline that adds up extents, and compares them with capacities."""
        m = Module()
        # Pipeline stages, one cycle each.
        names = ("begin", "select", "subtract", "multiply", "carry", "add", "judge")
        marks = ("valid", "final", "first", "last")
        begin, _select, subtract, multiply, _carry, add, judge = stages = [
            Signal(data.StructLayout(dict.fromkeys(marks, 1) | _LATE_FIELDS), name=name)
            for name in names
        ]
        m.d.sync += [after.eq(before) for before, after in itertools.pairwise(stages)]
        none = self._walk(m, begin)
        exact = Signal(_FIRST_BITS)
        m.d.comb += exact.eq(self._look_up(m, begin, subtract) - subtract.minus_one)

        # A product starts as its first factor times one.
        first = Signal.like(exact, reset_less=True)
        factor = Signal(_FACTOR_BITS, reset_less=True)
        m.d.sync += [first.eq(exact), factor.eq(Mux(subtract.first_factor, 1, exact))]
        before = Signal(_SUM_BITS)
        low = Signal(_LOW_BITS + _FACTOR_BITS, reset_less=True)
        high = Signal(_SUM_BITS - _LOW_BITS + _FACTOR_BITS, reset_less=True)
        product = Signal(_SUM_BITS + _FACTOR_BITS, reset_less=True)
        large = Signal()
        too_large = Signal()
        was_large = Signal()
        m.d.comb += [
            before.eq(Mux(multiply.first_factor, first, product)),
            too_large.eq(large | product[_SUM_BITS:].any()),
        ]
        m.d.sync += [
            low.eq(before[:_LOW_BITS] * factor),
            high.eq(before[_LOW_BITS:] * factor),
            product.eq(low + (high << _LOW_BITS)),
            # A zero factor makes even an overflowed product zero.
            was_large.eq(~multiply.first_factor & too_large & factor.any()),
            large.eq(was_large),
        ]

        total = Signal(_SUM_BITS)
        beyond = Signal()
        result = Signal(_SUM_BITS + 1)
        m.d.comb += result.eq(
            Mux(add.first, 0, total) + Mux(add.last_factor, product[:_SUM_BITS], 0)
        )
        m.d.sync += [
            Cat(total, beyond).eq(result),
            beyond.eq((beyond & ~add.first) | (too_large & add.last_factor) | result[_SUM_BITS]),
        ]
        self._judge(m, add, judge, total, beyond)
        # The requester looks for the verdict from the third cycle on.
        told = Signal(2)
        m.d.sync += [told.eq(Cat(none, told)), self.done.eq((judge.valid & judge.final) | told[1])]
        return m

    def _walk(self, m: Module, begin):
        """Step through the extents of the instruction, one factor at a time, and drive `begin`.

        Returns a flag: a check starts, and no extent applies to the instruction.

        The fields that decide which step follows are in registers, for the current and the next
        step, while those of the step after are looked up: a table between the step number and that
        decision would be the longest path of the chip. Other fields come from a memory.
        """
        step = Signal(self._early, reset_less=True)
        ahead = Signal(self._early, reset_less=True)
        count = len(self._program)
        number = Signal(range(count + 1), reset_less=True)
        m.submodules.known = known = self._attribute_memory()
        fetch = known.read_port()
        m.d.comb += fetch.addr.eq(number)
        final = Signal()
        running = Signal()
        waited = Signal()
        go = Signal()
        none = Signal()
        # The current step is the first of its extent.
        entered = Signal(reset_less=True)

        def enter(entries):
            """Go to the first extent that applies, of those that begin with these steps."""
            # The first extent that applies is assigned last, and so has priority.
            m.d.comb += final.eq(1)
            for entry in reversed(entries):
                with m.If(self._applies(self._program[entry])):
                    m.d.comb += [final.eq(0), fetch.addr.eq(entry + 1)]
                    m.d.sync += [
                        step.eq(self._turn(entry)),
                        ahead.eq(self._turn((entry + 1) % count)),
                        number.eq((entry + 2) % count),
                        entered.eq(1),
                    ]

        m.d.comb += go.eq(running & (~step.waits | waited))
        m.d.sync += waited.eq(running & ~go)
        m.d.comb += [begin[name].eq(fetch.data[name]) for name in _LATE_FIELDS]
        m.d.comb += [
            fetch.en.eq(go | ~running),
            begin.valid.eq(go),
            # Steps that begin while one waits are not accumulated.
            begin.last_factor.eq(go & fetch.data.last_factor),
            begin.first.eq(go & entered),
        ]
        with m.If(go):
            m.d.comb += [
                begin.final.eq(final),
                # Only the end of an extent has a successor to choose.
                begin.last.eq(step.turn != 0),
            ]
            m.d.sync += [step.eq(ahead), number.eq(number + 1), running.eq(~final), entered.eq(0)]
            with m.Switch(number):
                for index in range(count):
                    with m.Case(index):
                        m.d.sync += ahead.eq(self._turn(index))
            with m.Switch(step.turn):
                for turn, entries in enumerate(self._successors):
                    with m.Case(turn):
                        if entries is not None:
                            enter(entries)
        with m.Elif(~running):
            # Set regardless of `begin`. With checks, every instruction has an extent in some
            # memory.
            if not self._config.checks:
                m.d.comb += none.eq(self.start & final)
            m.d.sync += running.eq(self.start & ~none)
            with m.Switch(self.opcode):
                for opcode, entries in self._entries.items():
                    with m.Case(opcode):
                        enter(entries)
        return none

    def _applies(self, step: _Step) -> Value:
        """Return whether a step's extent applies to the instruction, by the fields in `only`."""
        conditions = []
        for name, values in step.extent.only:
            held = slice_field(self.word, step.opcode, name)
            conditions.append(Cat(held == value for value in values).any())
        return Cat(conditions).all()

    def _turn(self, index: int):
        """Return the `_early_fields` of the step with this index, as a constant."""
        each = self._program[index]
        return self._early.const({"waits": each.waits, "turn": self._successors.index(each.next)})

    def _attribute_memory(self) -> Memory:
        """Return a read-only memory with the `_LATE_FIELDS` of step n at address n + 1."""
        facts = [self._facts(place - 1) for place in range(len(self._program) + 1)]
        # A block RAM: logic tables would take ten for each bit.
        return Memory(shape=self._late, depth=len(facts), init=facts, attrs={"ram_style": "block"})

    def _facts(self, index: int):
        """Return the `_LATE_FIELDS` of the step with this index, as a constant."""
        each = self._program[index]
        source = self._sources.index(_source(each, self._config))
        return self._late.const(
            {
                "minus_one": str(each.factor).endswith("-1"),
                "first_factor": each.first_factor,
                "last_factor": each.last_factor,
                "memory": each.extent.memory,
                "group": source // _GROUP,
                "member": source % _GROUP,
            }
        )

    def _look_up(self, m: Module, begin, later) -> Value:
        """Return the value of a step's factor two cycles after `begin`, when `later` has it.

        First every group selects one of its sources, close to the instruction's bits and controlled
        by its own register; then one group is selected. A single table, or a single register, with
        hundreds of wires would be too congested to route.
        """
        values = [
            Const(each) if isinstance(each, int) else self.word[slice(*each)]
            for each in self._sources
        ]
        chosen = []
        for start in range(0, len(values), _GROUP):
            group = values[start : start + _GROUP]
            value = Signal(max(map(len, group)), name=f"group_{len(chosen)}", reset_less=True)
            member = Signal(
                range(_GROUP),
                name=f"member_{len(chosen)}",
                reset_less=True,
                attrs={"keep": 1},
            )
            m.d.sync += [member.eq(begin.member), value.eq(choose(group, member))]
            chosen.append(value)
        return choose(chosen, later.group)

    def _judge(self, m: Module, add, judge, total, beyond):
        """Compare a finished sum with the capacity of its memory; drive `fault` and `address`.

        The first extent that fails sets them.
        """
        # LOAD and STORE have the same fields.
        m.d.comb += self.region.eq(slice_field(self.word, Opcode.LOAD, "region"))
        capacity = Signal(_SUM_BITS)
        cause = Signal(4)
        with m.Switch(add.memory):
            for memory, value in (
                (AddressSpace.SPAD, self._config.spad_bytes),
                (AddressSpace.ACC, self._config.acc_entries),
                (AddressSpace.DRAM, self.region_bytes),
            ):
                if not self._config.checks and memory is not AddressSpace.DRAM:
                    continue
                with m.Case(memory):
                    m.d.sync += [capacity.eq(value), cause.eq(_CAUSES[memory])]
        with m.If(self.start):
            m.d.sync += [self.fault.eq(Fault.NONE), self.address.eq(0)]
        with m.Elif(
            judge.valid & judge.last & (self.fault == Fault.NONE) & (beyond | (total > capacity))
        ):
            m.d.sync += [self.fault.eq(cause), self.address.eq(total)]
