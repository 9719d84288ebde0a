"""Checks the memory that an instruction touches, with one multiplier."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom.arch.isa import FORMATS, Extent, Memory, Opcode, Region
from matloom_rtl.control.layouts import GRANULE_BITS, LONGEST, slice_field

__all__ = ["Bounds"]

#: A product of this many bits or more saturates; every capacity but external memory's is smaller,
#: and extents in external memory have products of two factors only, which are not cut.
_CHAIN_BITS = 25
_FACTOR_BITS = 24
_SUM_BITS = 52

_CAUSES = {
    Memory.SPAD: Fault.SPAD_RANGE,
    Memory.ACC: Fault.ACC_RANGE,
    Memory.DRAM: Fault.DRAM_RANGE,
}


class _Step:
    """One factor of one term of one extent, and what surrounds it."""

    def __init__(self, extent: Extent, term: int, factor: int):
        self.extent = extent
        self.text = extent.terms[term][factor]
        self.first_factor = factor == 0
        self.last_factor = factor == len(extent.terms[term]) - 1
        self.first_term = term == 0
        self.last = self.last_factor and term == len(extent.terms) - 1
        self.begins = self.first_factor and self.first_term


def _steps(opcode: Opcode) -> list[_Step]:
    return [
        _Step(extent, term, factor)
        for extent in FORMATS[opcode].extents
        for term in range(len(extent.terms))
        for factor in range(len(extent.terms[term]))
    ]


class Bounds(wiring.Component):
    """Compare the end of every extent of `arch/isa.py` with the capacity of its memory.

    Factors are multiplied one after another: a term's first factor takes one cycle, each further
    one two, an extent that does not apply one; 12 to 32 cycles an instruction. Extents are judged
    in the table's order, the first that fails wins.

    Members
    -------
    start: in
        Begin with `word`, which must hold until `done`.
    word: in
        The instruction from bit 0 on.
    opcode: in
    region_bytes: in
        Size of each region, 32 bits each, region 0 lowest.
    done: out
        For one cycle: `fault` and `address` are the verdict.
    fault, address: out
        A `csr.Fault` or 0, and the low 32 bits of the extent's end.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "word": In(LONGEST * GRANULE_BITS),
                "opcode": In(4),
                "region_bytes": In(32 * len(Region)),
                "done": Out(1),
                "fault": Out(4),
                "address": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        most = max(len(_steps(opcode)) for opcode in FORMATS)
        number = Signal(range(most + 2))
        value, base = Signal(_FACTOR_BITS), Signal(32)
        selected = {
            name: Signal(name=f"selected_{name}")
            for name in ("first_factor", "last_factor", "first_term", "last", "skip", "end")
        }
        following = Signal.like(number)
        self._select(m, number, value, base, following, selected)

        factor, start_base = Signal(_FACTOR_BITS), Signal(32)
        flags = {name: Signal(name=f"at_{name}") for name in selected}
        memory = Signal(Memory)
        product, chain = Signal(_CHAIN_BITS + _FACTOR_BITS), Signal(_CHAIN_BITS)
        total = Signal(_SUM_BITS)
        judge = Signal()
        judged_memory = Signal(Memory)

        def advance():
            m.d.sync += [factor.eq(value), start_base.eq(base), number.eq(following)]
            m.d.sync += [flags[name].eq(selected[name]) for name in flags]
            m.d.sync += memory.eq(self._memory(m, number))

        def add(result):
            with m.If(flags["last_factor"]):
                m.d.sync += total.eq(Mux(flags["first_term"], start_base, total) + result)
                m.d.sync += judge.eq(flags["last"])
                m.d.sync += judged_memory.eq(memory)

        m.d.sync += judge.eq(0)
        with m.FSM():
            with m.State("Idle"):
                m.d.sync += [number.eq(0), self.fault.eq(0)]
                with m.If(self.start):
                    m.next = "Select"
            with m.State("Select"):
                advance()
                m.next = "Apply"
            with m.State("Apply"):
                m.d.sync += product.eq(chain * factor)
                with m.If(flags["end"]):
                    m.next = "Judge"
                with m.Elif(flags["skip"]):
                    advance()
                with m.Elif(flags["first_factor"]):
                    m.d.sync += chain.eq(factor)
                    add(factor)
                    advance()
                with m.Else():
                    m.next = "Fold"
            with m.State("Fold"):
                too_large = product[_CHAIN_BITS:].any()
                m.d.sync += chain.eq(Mux(too_large, (1 << _CHAIN_BITS) - 1, product))
                add(product)
                advance()
                m.next = "Apply"
            with m.State("Judge"):
                m.d.comb += self.done.eq(1)
                m.next = "Idle"
        self._judge(m, judge, judged_memory, total)
        return m

    def _value(self, text: str, opcode: Opcode) -> Value | int:
        if text.startswith("@"):
            return getattr(self._config, text[1:])
        if text.endswith("-1"):
            return (slice_field(self.word, opcode, text[:-2]) - 1)[:_FACTOR_BITS]
        return slice_field(self.word, opcode, text)

    def _select(self, m: Module, number, value, base, following, selected):
        """Look up step `number` of the opcode; an extent that does not apply is one step."""
        m.d.comb += following.eq(number + 1)
        with m.Switch(self.opcode):
            for opcode in FORMATS:
                steps = _steps(opcode)
                with m.Case(opcode), m.Switch(number):
                    for index, step in enumerate(steps):
                        with m.Case(index):
                            m.d.comb += [
                                value.eq(self._value(step.text, opcode)),
                                base.eq(slice_field(self.word, opcode, step.extent.base)),
                                selected["first_factor"].eq(step.first_factor),
                                selected["last_factor"].eq(step.last_factor),
                                selected["first_term"].eq(step.first_term),
                                selected["last"].eq(step.last),
                            ]
                            if step.begins and step.extent.only:
                                applies = self._applies(step.extent, opcode)
                                behind = index + sum(len(term) for term in step.extent.terms)
                                with m.If(~applies):
                                    m.d.comb += [selected["skip"].eq(1), following.eq(behind)]
                    with m.Default():
                        m.d.comb += selected["end"].eq(1)

    def _memory(self, m: Module, number) -> Signal:
        memory = Signal(Memory)
        with m.Switch(self.opcode):
            for opcode in FORMATS:
                with m.Case(opcode), m.Switch(number):
                    for index, step in enumerate(_steps(opcode)):
                        with m.Case(index):
                            m.d.comb += memory.eq(step.extent.memory)
        return memory

    def _applies(self, extent: Extent, opcode: Opcode) -> Value:
        held = {name: slice_field(self.word, opcode, name) for name, _values in extent.only}
        return Cat(
            Cat(held[name] == value for value in values).any() for name, values in extent.only
        ).all()

    def _judge(self, m: Module, judge, memory, total):
        """Compare a finished sum, unless an earlier extent failed."""
        region_at = Signal(32)
        region = Signal(len(Region).bit_length() - 1)
        with m.Switch(self.opcode):
            for opcode in (Opcode.LOAD, Opcode.STORE):
                with m.Case(opcode):
                    m.d.comb += region.eq(slice_field(self.word, opcode, "region"))
        m.d.comb += region_at.eq(self.region_bytes.word_select(region, 32))
        capacity = Signal(33)
        with m.Switch(memory):
            with m.Case(Memory.SPAD):
                m.d.comb += capacity.eq(self._config.spad_bytes)
            with m.Case(Memory.ACC):
                m.d.comb += capacity.eq(self._config.acc_entries)
            with m.Default():
                m.d.comb += capacity.eq(region_at)
        with m.If(judge & (total > capacity) & (self.fault == 0)):
            m.d.sync += self.address.eq(total)
            with m.Switch(memory):
                for each, cause in _CAUSES.items():
                    with m.Case(each):
                        m.d.sync += self.fault.eq(cause)
