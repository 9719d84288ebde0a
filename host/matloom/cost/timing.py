"""Costs of single instructions; a cache computes those of equal instructions once."""

from functools import lru_cache
from typing import NamedTuple

from matloom.arch.instruction import Instruction
from matloom.arch.isa import (
    FORMATS,
    INSTRUCTION_WORD_BYTES,
    UNITS,
    Destination,
    Opcode,
    RowFunction,
    Source,
    Table,
    post_vector_count,
)
from matloom.arch.machine import Machine
from matloom.cost.bank_use import NOTHING, AccessStream, bank_use

#: Cycles from the end of an instruction to the start of one that waits for it.
HANDOVER = 3

#: Cycles of the dispatcher per instruction, without and with `Config.checks`: for its first word,
#: its extents, and the verdict. Without checks, EXEC and POST have no extents to check.
_DISPATCH = (
    {Opcode.LOAD: 16, Opcode.EXEC: 2, Opcode.POST: 2, Opcode.STORE: 16},
    {Opcode.LOAD: 23, Opcode.EXEC: 27, Opcode.POST: 29, Opcode.STORE: 23},
)
#: With checks: cycles saved if EXEC has a single weight tile or LOAD no region; cycles added if a
#: POST reads the scratchpad, if it writes there, and if it reads sums in addition to bytes.
_LEFT_OUT, _SIDE = 7, 5

#: Maximum number of cached instructions, about 10 MB.
_MAX_CACHED = 1 << 13

#: Fields that do not affect cost: addresses of sums, and operands of the arithmetic. `pre_shift`
#: affects it: in floating point, it selects the format, and with it the size of an element.
_COSTLESS_FIELDS = frozenset(
    (
        *("acc_addr", "fill_value", "pad_value", "bias", "multiplier", "shift"),
        *("output_zero", "factor_zero", "clamp_low", "clamp_high", "low_byte", "high_byte"),
    )
)
_FIELDS = {
    unit: tuple(
        each.name
        for each in FORMATS[unit].fields
        if each.name not in {*_COSTLESS_FIELDS, "dram_offset"}
    )
    for unit in UNITS
}


class Timing(NamedTuple):
    """Cycles and memory accesses of an instruction, independent of when it starts.

    Members
    -------
    dispatch:
        Cycles from its first word to the queue.
    durations:
        Result of `Machine.durations`, first for an idle unit, then directly after another
        instruction of the unit.
    cycles:
        Cycles for which it streams.
    moved:
        Stream of the bytes that EXEC, POST or STORE reads, or that LOAD writes.
    reads, writes:
        Accesses per cycle to each bank; EXEC's reads include its weights.
    banks:
        Banks where it may wait: those of `moved`, and for a POST of several blocks that of its
        parameters.
    params, param_reads, fetch:
        Bank of a POST's parameters; reads and cycles that the parameters of one block take.
    blocks:
        Output blocks of a POST.
    vectors:
        Cycles of each block of a POST; of the whole SOFTMAX, which passes over all blocks of a row.
    softmax:
        Whether it is a SOFTMAX.
    fills:
        Whether it fills a table for each lane, or the table of SOFTMAX: it reads too seldom to wait
        for banks.
    """

    opcode: Opcode
    dispatch: int
    durations: tuple[tuple[int, int], tuple[int, int]]
    cycles: int
    moved: AccessStream
    reads: dict[int, float]
    writes: dict[int, float]
    banks: frozenset[int]
    params: AccessStream = NOTHING
    param_reads: int = 0
    fetch: int = 0
    blocks: int = 1
    vectors: int = 0
    softmax: bool = False
    fills: bool = False


class Timings:
    """Cache of the costs of a machine's instructions, by opcode and the fields that affect cost."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[tuple[int | None, ...], Timing] = {}

    def of(self, instruction: Instruction) -> Timing:
        """Return the cost of an instruction other than END."""
        opcode, values = instruction.opcode, instruction.values
        offset = values.get("dram_offset", 0) % self._machine.offset_period
        key = (opcode, offset, *map(values.get, _FIELDS[opcode]))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            make = self._post_timing if opcode is Opcode.POST else self._other_timing
            found = self._known[key] = make(instruction)
        return found

    def _other_timing(self, instruction: Instruction) -> Timing:
        """Return the cost of an EXEC, LOAD or STORE, from the machine's formulas."""
        machine, opcode = self._machine, instruction.opcode
        durations = machine.durations(instruction)
        cycles = durations[0][0]
        use = bank_use(instruction, machine, cycles)
        reads = use.reads.by_bank()
        for bank, share in use.weights.by_bank().items():
            reads[bank] = min(1.0, reads.get(bank, 0.0) + share)
        moved = use.writes if opcode is Opcode.LOAD else use.reads
        return Timing(
            opcode=opcode,
            dispatch=_dispatch_cycles(instruction, machine),
            durations=durations,
            cycles=cycles,
            moved=moved,
            reads=reads,
            writes=use.writes.by_bank(),
            banks=frozenset([bank for bank, _ in moved.parts]),
        )

    def _post_timing(self, instruction: Instruction) -> Timing:
        """Return the cost of a POST, from the machine's formulas."""
        machine, values = self._machine, instruction.values
        cycles = machine.post_cycles(values)
        use, blocks = bank_use(instruction, machine, cycles), values["oc_blocks"]
        fetched = {use.params} if blocks > 1 else set()
        rows = values.get("softmax", 0)
        softmax = rows == RowFunction.SOFTMAX
        return Timing(
            opcode=Opcode.POST,
            dispatch=_dispatch_cycles(instruction, machine),
            durations=machine.durations(instruction),
            cycles=cycles,
            moved=use.reads,
            reads=use.reads.by_bank(),
            writes=use.writes.by_bank(),
            banks=frozenset({bank for bank, _ in use.reads.parts} | fetched),
            params=AccessStream(((use.params, 1.0),), 1.0),
            param_reads=machine.post_reads(values),
            fetch=machine.post_fetch(values),
            blocks=blocks,
            vectors=cycles if softmax else post_vector_count(values) * machine.post_beats(values),
            softmax=softmax,
            fills=values.get("table", 0) == Table.FILL_EACH or rows == RowFunction.FILL,
        )


@lru_cache(maxsize=1)
def shared_timings(machine: Machine) -> Timings:
    """Return the shared cache of instruction costs for a machine.

    The cache is kept until a call names another machine.
    """
    return Timings(machine)


def _dispatch_cycles(instruction: Instruction, machine: Machine) -> int:
    """Return the cycles that the dispatcher needs for an instruction: reading and checking it."""
    opcode, get = instruction.opcode, instruction.values.get
    words = FORMATS[opcode].instruction_words - 1
    beats = max(1, INSTRUCTION_WORD_BYTES // machine.config.bus_bytes)
    checks = machine.config.checks
    cycles = _DISPATCH[checks][opcode] + words * beats
    if not checks:
        return cycles
    if opcode is Opcode.POST:
        sides = get("destination", 0) == Destination.SPAD, get("source", 0) == Source.SPAD
        return cycles + _SIDE * (sum(sides) + bool(get("product") or get("addend")))
    return cycles - _LEFT_OUT * bool(get("weights_fixed") or get("fill"))
