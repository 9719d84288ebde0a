"""Lemmas about the registers of EXEC's walk, for its proof."""

from itertools import pairwise

from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from amaranth.lib import data

from matloom_rtl.array.walk import loops_layout, position_layout, stages_layout
from matloom_rtl.formal.array.walk_nest import LOOPS, STEP, WalkNest, fits
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox

__all__ = ["ROW_BITS", "is_at", "lemmas"]

#: Width of a row position within the unit; larger ones are only known to be beyond the input.
ROW_BITS = 13

#: Cycles after which the start of the next step has been computed.
_SETTLED = 2


def lemmas(m: Module, whitebox: Whitebox, walk: WalkNest) -> None:
    """Assert all invariants for the induction: the walk's registers during an instruction."""
    _stored_fields(m, whitebox, walk)
    _loop_counters(m, whitebox, walk)
    settled = _claim_step_duration(m, whitebox, walk)
    _unchanged_positions(m, walk)
    _positions(m, whitebox, walk)
    _next_step_positions(m, whitebox, walk, settled)


def _stored_fields(m: Module, whitebox: Whitebox, walk: WalkNest) -> None:
    """Assert invariants for the induction: stored fields are those of `i`, which is stable."""
    unit, fields, running = whitebox.unit, walk.fields, walk.running
    waiting, begun = whitebox.register(name="waiting"), whitebox.register(name="begun")
    loops = data.View(loops_layout(walk.config), whitebox.register(name="command"))
    stages = data.View(stages_layout(walk.config), whitebox.register(name="fixed"))
    m.d.comb += [
        Assert(walk.nest.running == running),
        *(Assert(fields[name] != 0) for name in LOOPS),
        implies(waiting | begun, unit.i.valid),
        implies(begun, ~waiting & running & walk.zero(*LOOPS)),
        implies(begun, unit.i.payload.as_value() == fields.as_value()),
        *(implies(running, loops[name] == fields[name]) for name in loops.shape().members),
    ]
    # The fields of a vector are valid one cycle after it began, though another may have begun.
    for there, held in ((running & ~begun, fields), (walk.there[1], walk.vector[1].fields)):
        line = Mux(held.line < 3, 3, held.line)
        m.d.comb += implies(there, stages.penultimate + 2 == line)
        for name in stages.shape().members:
            if name != "penultimate":
                m.d.comb += implies(there, stages[name] == held[name])


def _loop_counters(m: Module, whitebox: Whitebox, walk: WalkNest) -> None:
    """Assert invariants for the induction: loop counters and flags are those of the reference."""
    nest, running = walk.nest, walk.running
    for name, loop in nest.loops.items():
        left, rest, last, nearly, single, double = (
            whitebox.register(name=f"{each}_{name}")
            for each in ("left", "rest", "last", "nearly", "single", "double")
        )
        m.d.comb += [
            implies(running, left + nest.index[name] + 1 == loop.count),
            implies(running, rest + 1 == loop.count),
            implies(running, last == (left == 0)),
            implies(running, nearly == (left == 1)),
            implies(running, single == (loop.count == 1)),
            implies(running, double == (loop.count == 2)),
        ]
    step_end, reload, step_start, first_step = (
        whitebox.register(name=name) for name in ("step_end", "reload", "step_start", "first_step")
    )
    m.d.comb += [
        implies(running, step_end == Cat(nest.last[name] for name in STEP).all()),
        implies(running, whitebox.register(name="final") == nest.end),
        Assert(reload == (~running | nest.end)),
        implies(running, whitebox.register(name="start") == walk.zero(*LOOPS)),
        implies(running, step_start == walk.zero(*STEP)),
        implies(running, first_step == walk.zero("kernel_rows", "kernel_cols", "blocks")),
    ]


def _claim_step_duration(m: Module, whitebox: Whitebox, walk: WalkNest) -> Signal:
    """Claim that a step (one weight tile) outlasts an accumulator update; return its cycles.

    An accumulating instruction starts at least that long after the previous one. Only cycles with
    room count. Returns the cycles since the current step began, saturating above `_SETTLED`.
    """
    unit, running = whitebox.unit, walk.running
    latency = walk.config.acc_update_latency
    cooling, age, young, step_end, held = (
        whitebox.register(name=name) for name in ("cooling", "age", "young", "step_end", "held")
    )
    cool, first = whitebox.register(name="cool"), walk.zero(*LOOPS)
    settled = Signal(range(_SETTLED + 2))
    pauses = Signal(range(latency + 1))
    spent = Signal(range(latency + 1))
    turns = walk.moves & Cat(walk.nest.last[name] for name in STEP).all()
    with m.If(walk.begins | turns):
        m.d.sync += [settled.eq(0), spent.eq(0), pauses.eq(0)]
    with m.Else():
        m.d.sync += settled.eq(settled + (settled <= _SETTLED))
        with m.If(walk.running & unit.room):
            m.d.sync += spent.eq(spent + (spent < latency))
            m.d.sync += pauses.eq(pauses + (held & (pauses < latency)))
    waits = walk.fields.accumulate & first
    m.d.comb += [
        implies(turns, spent >= latency - 1),
        implies(waits & walk.moves, pauses >= latency),
        Assert(held == (running & (~cool | (step_end & young)))),
        implies(running, young == (age < latency - 1)),
        implies(running, age < latency),
        implies(running & ~cool, waits & (age == 0) & (cooling != 0)),
        implies(running & ~cool, (pauses + cooling == latency) & (spent == pauses)),
        implies(running & cool & waits, pauses >= latency),
        implies(running, spent >= age),
        implies(running, settled >= Mux(age > _SETTLED, _SETTLED, age)),
    ]
    return settled


def _unchanged_positions(m: Module, walk: WalkNest) -> None:
    """Assert invariants for the induction: positions in loops that do not change them.

    They equal the position of the loop around.

    A place is one of the positions that the walk computes, such as a row. Assumes that no place
    wraps around, which `walk_reach` proves.
    """
    m.d.comb += walk.nest.lemmas()
    for place, values in walk.nest.at.items():
        for outer, name in pairwise(LOOPS):
            if place not in LOOPS[name]:
                m.d.comb += implies(walk.running, values[name] == values[outer])
        first = walk.fields[f"first_{place}"]
        if place not in LOOPS["oc_blocks"]:
            m.d.comb += implies(walk.running, values["oc_blocks"] == first)
        m.d.comb += [Assume(fits(value)) for value in values.values()]


def is_at(position, place, bits: int):
    """Return whether a position, as the walk stores it, is the number `place`.

    Places from two to the power of `bits` on are only marked as beyond the input.
    """
    at = data.View(position_layout(bits), position)
    beyond = place >= 1 << bits
    return (at.beyond == beyond) & (beyond | (at.at == place))


def _positions(m: Module, whitebox: Whitebox, walk: WalkNest) -> None:
    """Assert invariants for the induction: stored positions are those of the reference."""
    at, running, bits = walk.nest.at, walk.running, walk.config.spad_addr_bits
    bytes_at = {"x": "width", "block": "blocks", "col": "kernel_cols", "oc": "oc_blocks"}
    rows_at = {"row": "width", "row_kernel": "kernel_rows"}
    for name, loop in bytes_at.items():
        register = whitebox.register(name=f"byte_{name}")
        m.d.comb += implies(running, is_at(register, at["byte"][loop], bits))
    for name, loop in rows_at.items():
        m.d.comb += implies(running, is_at(whitebox.register(name=name), at["row"][loop], ROW_BITS))


def _next_step_positions(m: Module, whitebox: Whitebox, walk: WalkNest, settled: Signal) -> None:
    """Assert invariants for the induction: the next step's position, as it is computed."""
    nest, running, config = walk.nest, walk.running, walk.config
    at, last, fields, bits = nest.at, nest.last, walk.fields, config.spad_addr_bits
    oc, col, block, kernel, byte, row = (
        whitebox.register(name=f"next_{name}")
        for name in ("oc", "col", "block", "kernel", "x", "row")
    )
    to_oc = at["byte"]["oc_blocks"] + fields.oc_step
    to_col = at["byte"]["kernel_cols"] + fields.kernel_col_step
    to_block = at["byte"]["blocks"] + config.rows
    to_kernel = at["row"]["kernel_rows"] + fields.kernel_row_step
    one, two = running & (settled >= 1), running & (settled >= _SETTLED)
    tap, first_row = at["row"]["kernel_rows"], fields.first_row
    m.d.comb += [
        *(
            implies(one, is_at(register, place, bits))
            for register, place in ((oc, to_oc), (col, to_col), (block, to_block))
        ),
        implies(one, is_at(kernel, to_kernel, ROW_BITS)),
    ]
    cases = (
        (~last["blocks"], to_block, tap),
        (~last["kernel_cols"], to_col, tap),
        (~last["kernel_rows"], at["byte"]["oc_blocks"], to_kernel),
        (1, to_oc, first_row),
    )
    there = two
    for case, to_byte, to_row in cases:
        m.d.comb += implies(there & case, is_at(byte, to_byte, bits))
        m.d.comb += implies(there & case, is_at(row, to_row, ROW_BITS))
        there = there & ~case
