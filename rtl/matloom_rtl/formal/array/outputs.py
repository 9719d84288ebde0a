"""Proof of EXEC's outputs: which vectors are outputs, and their accumulator entries."""

from typing import Any

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal

from matloom_rtl.array.outputs import Outputs
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["output_proofs", "outputs"]

#: Number of stages of the pipeline in `Outputs`.
_STAGES = 3


class _Grids:
    """Grid attributes of the vectors in the stages of the pipeline, listed by stage.

    Assumes that the sender advances vectors in every cycle, begins an instruction with its first
    vector, and keeps the fields of vectors constant within a step.

    Members
    -------
    valid, at:
        Whether there is a vector in the stage, and its attributes.
    some, before:
        Whether a vector has left the stage, and the attributes of the last one that did.
    """

    def __init__(self, m: Module, unit: Outputs):
        shape = unit.grid.shape()
        self._names = [name for name in shape.members if name not in ("start", "resume", "first")]
        self.valid = [None, *unit.valid]
        # Stage 0 has neither.
        self.before: list[Any] = [None]
        self.at, self.some = [None, unit.grid], [None]
        for stage in range(1, _STAGES + 1):
            before = Signal(shape, name=f"before_{stage}", reset_less=True)
            some = Signal(name=f"some_{stage}")
            later = Signal(shape, name=f"later_{stage}", reset_less=True)
            with m.If(self.valid[stage]):
                m.d.sync += [before.eq(self.at[stage]), some.eq(1)]
            m.d.sync += later.eq(self.at[stage])
            self.before.append(before)
            self.some.append(some)
            self.at.append(later)
        self._assume_inputs(m, unit)
        for stage in range(2, _STAGES + 1):
            there, now, newer = self.valid[stage], self.at[stage], self.before[stage - 1]
            m.d.comb += [
                Assert(self.some[stage - 1] == (self.some[stage] | there)),
                implies(there, newer == now),
                implies(self.some[stage] & ~there, newer == self.before[stage]),
                implies(there & ~now.start, self.some[stage]),
                implies(there & ~now.first, self._equals_previous(stage)),
                implies(now.start | now.resume, now.first & ~(now.start & now.resume)),
            ]

    def _equals_previous(self, stage: int):
        """Return whether the vector in a stage has the same fields as the previous one."""
        now, before = self.at[stage], self.before[stage]
        return Cat(now[name] == before[name] for name in self._names).all()

    def _assume_inputs(self, m: Module, unit: Outputs) -> None:
        """Assume the rules for the unit's inputs: how vectors move, and where lines begin."""
        grid, there = unit.grid, unit.valid[0]
        moved = Signal(_STAGES - 1)
        m.d.sync += moved.eq(unit.valid)
        m.d.comb += [
            Assume(unit.valid[1:] == moved),
            Assume(~(grid.start | grid.resume) | (grid.first & ~(grid.start & grid.resume))),
            Assume(~there | grid.start | self.some[1]),
            Assume(~there | grid.first | self._equals_previous(1)),
            Assume(self._is_legal_line(grid)),
            implies(self.some[1], self._is_legal_line(self.before[1])),
        ]

    def _is_legal_line(self, grid):
        """Return whether a line has at least three vectors, and its length fits the field."""
        line = grid.penultimate + 2
        return (line > 2) & (line < 1 << len(grid.penultimate))


class _Count:
    """A count of earlier vectors in a stage: `now` for the current vector, `next` for the next one.

    The count starts again at 0 for a vector with `restart`.
    """

    def __init__(self, m: Module, name: str, bits: int, there, restart):
        self.next = Signal(bits, name=f"{name}_next")
        self.now = Signal(bits, name=f"{name}_now")
        m.d.comb += self.now.eq(Mux(restart, 0, self.next))
        self._m, self._there = m, there

    def set_next(self, value) -> None:
        """Set the count for the next vector, if there is a vector in the stage."""
        with self._m.If(self._there):
            self._m.d.sync += self.next.eq(value)

    def plus_one(self):
        """Return the count for the current vector plus one, saturating."""
        return Mux(self.now.all(), self.now, self.now + 1)


def outputs(unit: Outputs) -> Claim:
    """Claim which vectors are outputs, their accumulator entries, and their positions in lines."""
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    grids = _Grids(m, unit)
    if unit._has_windows:
        counted = _lines(m, whitebox, grids)
        is_output = _grid(m, whitebox, grids, counted)
    else:
        is_output = Signal(init=1)
    m.d.comb += implies(unit.valid[1], unit.output == is_output)
    _entries(m, whitebox, grids, is_output)
    m.d.comb += Cover(unit.valid[2] & grids.at[3].resume & (unit.entry == unit.acc_addr + 2))
    return Claim(module=m, ports=inputs_of(unit))


def _lines(m: Module, whitebox: Whitebox, grids: _Grids):
    """Count vectors in a step (one weight tile) and in a line; claim the position in the line.

    Returns whether the step's first output has come, or comes with the vector in stage 2.
    """
    unit, there, grid, before = whitebox.unit, grids.valid[1], grids.at[1], grids.before[1]
    bits = len(grid.first_output) + 1
    number = _Count(m, "number", bits, there, grid.first)
    place = _Count(m, "place", len(unit.position), there, grid.first)
    line = _Count(m, "line", 1, there, grid.first)
    ends = place.now == grid.penultimate + 1
    number.set_next(number.plus_one())
    place.set_next(Mux(ends, 0, place.now + 1))
    line.set_next(line.now | ends)
    counted = Signal()
    with m.If(there):
        m.d.sync += counted.eq(number.now >= grid.first_output)
    left = whitebox.register(name="before")
    m.d.comb += [
        implies(there, unit.position == place.now),
        implies(there, unit.first_line == (line.now == 0)),
        Assert(whitebox.register(name="counted") == counted),
        Assert(whitebox.register(name="line_following") == place.next),
    ]
    some = grids.some[1]
    m.d.comb += [
        implies(some, place.next < before.penultimate + 2),
        implies(
            some, whitebox.register(name="line_at_end") == (place.next == before.penultimate + 1)
        ),
        implies(some, whitebox.register(name="in_first_line") == (line.next == 0)),
        implies(some, number.next != 0),
        implies(
            some & (number.next <= before.first_output), left == before.first_output - number.next
        ),
        implies(some & (number.next > before.first_output), left == 0),
        implies(some, counted == (number.next > before.first_output)),
    ]
    return counted


def _grid(m: Module, whitebox: Whitebox, grids: _Grids, counted):
    """Count outputs in a line, and lines with outputs; return whether stage 2 has an output."""
    unit, there, grid, before = whitebox.unit, grids.valid[2], grids.at[2], grids.before[2]
    # The last vector in stage 2 was not before the first output.
    begun = Signal()
    with m.If(there):
        m.d.sync += begun.eq(counted)
    restarts = grid.first | ~begun
    place = _Count(m, "column", len(unit.position), there, restarts)
    ends = place.now == grid.penultimate + 1
    place.set_next(Mux(ends, 0, place.now + 1))
    is_open = []
    for name, restart, moves in (("x", restarts | (place.now == 0), 1), ("y", restarts, ends)):
        size, skip = (getattr(grid, f"out_{each}") for each in _fields_of_axis(name))
        found = _Count(m, f"{name}_found", len(size) + 1, there, restart)
        skipped = _Count(m, f"{name}_skipped", len(skip), there, restart)
        turns = moves & (skipped.now == skip)
        found.set_next(Mux(turns, found.plus_one(), found.now))
        skipped.set_next(Mux(turns, 0, skipped.now + moves))
        is_open.append((skipped.now == 0) & (found.now < size))
        _axis_lemmas(m, whitebox, name, (found, skipped), grids, begun)
    some = grids.some[2]
    m.d.comb += [
        implies(some, whitebox.register(name="after_end") == (~begun | (place.next == 0))),
        # Once vectors have reached the first output, they stay past it within a step.
        implies(there & ~grid.first & begun, counted),
        implies(some & ~there, begun == counted),
        implies(some, place.next < before.penultimate + 2),
        implies(
            some & begun & (place.next != 0), whitebox.register(name="grid_following") == place.next
        ),
        implies(
            some & begun & (place.next != 0),
            whitebox.register(name="grid_at_end") == (place.next == before.penultimate + 1),
        ),
    ]
    return ~grid.window | (counted & Cat(is_open).all())


def _fields_of_axis(name: str) -> tuple[str, str]:
    """Return the fields, less ``out_``, with the outputs and the skipped positions of an axis."""
    return ("width", "x_skip") if name == "x" else ("height", "y_skip")


def _axis_lemmas(m: Module, whitebox: Whitebox, name: str, counts, grids: _Grids, begun) -> None:
    """Assert invariants for the induction: counts of outputs and of skipped positions.

    `name` is the axis, x or y.

    They are right for the next vector. If it begins a line, those of x are not relevant.
    """
    (found, skipped), before = counts, grids.before[2]
    size, skip = (getattr(before, f"out_{each}") for each in _fields_of_axis(name))
    skips, left, some_left = (
        whitebox.register(name=f"{name}_{n}") for n in ("skips", "left", "some")
    )
    passed = found.next + (skipped.next != 0)
    last = whitebox.register(name="after_end")
    there = grids.some[2] & (~last if name == "x" else 1)
    m.d.comb += [
        implies(there & begun, skips == Mux(skipped.next == 0, 0, skip + 1 - skipped.next)),
        implies(there & begun, left == Mux(passed < size, size - passed, 0)),
        implies(there & begun, skipped.next <= skip),
        implies(there & ~begun & (name == "y"), (skips == 0) & (left == size)),
        implies(there, some_left == (left != 0)),
    ]


def _entries(m: Module, whitebox: Whitebox, grids: _Grids, is_output) -> None:
    """Claim that a channel block's outputs have consecutive entries, the same in each step.

    A step is the vectors that one weight tile multiplies.
    """
    unit, there, grid = whitebox.unit, grids.valid[3], grids.at[3]
    following = Signal.like(unit.entry)
    of_block = Signal.like(unit.entry)
    now = Signal.like(unit.entry)
    written = Signal(reset_less=True)
    m.d.sync += written.eq(is_output)
    m.d.comb += now.eq(Mux(grid.start, unit.acc_addr, Mux(grid.resume, of_block, following)))
    with m.If(there):
        m.d.sync += following.eq(now + written)
        with m.If(grid.first):
            m.d.sync += of_block.eq(now)
    some = grids.some[3]
    m.d.comb += [
        implies(there, unit.entry == now),
        implies(there, whitebox.register(name="output") == written),
        implies(some, whitebox.register(name="following") == following),
        implies(some, whitebox.register(name="block") == of_block),
        Assert(whitebox.register(name="second") == grids.at[2].as_value()),
        Assert(whitebox.register(name="third") == grids.at[3].as_value()),
    ]


def output_proofs(units: list) -> list[Proof]:
    """Return a proof for each `Outputs` among a chip's units."""
    return [
        Proof(
            kind="addresses",
            unit="Outputs",
            statement="outputs are the vectors from the first output on that are not skipped and "
            "are within the sizes, line by line; their entries are consecutive in every block, "
            "and the same in each of its steps",
            build=lambda unit=unit: outputs(unit),
            depth=2,
            cover_depth=30,
        )
        for unit in units
        if isinstance(unit, Outputs)
    ]
