"""Proof of sliding windows: each row's operand, by the line and position of its tap."""

from itertools import accumulate

from amaranth.hdl import Assume, Cat, Cover, Module, Mux, Signal

from matloom_rtl.array.windows import LINE_BITS, Windows
from matloom_rtl.formal.parts.arbitrary import Arbitrary
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["is_of_bytes", "windows", "windows_proofs"]

#: Minimum number of vectors in a line: its memory is read this many vectors after it was written.
_SHORTEST = 3

#: Depth of the induction: a line memory is read two cycles before the operands are seen.
_DEPTH = 4


class _Step:
    """Vectors of one weight tile (a step) in a sliding window, and assumptions about them.

    Steps on blocks of 2 x 2 positions are excluded.

    Members
    -------
    slides:
        A vector of such a step is presented.
    first:
        The presented vector is the first of its step.
    number:
        Index of the window shape of the presented vector.
    here:
        The presented vector is at the chosen position of its line.
    under_way:
        A step has begun.
    shape:
        Index of the window shape of the step.
    recalls:
        The next vector is not in the first line of the step.
    seen:
        An earlier vector of the step was at the chosen position.
    bytes:
        For each column, its bytes in the last three vectors at the chosen position, the latest
        first; padding if there were fewer.
    length:
        Number of vectors in a line, an input of the claim, used from a step's first vector on.
    """

    def __init__(self, m: Module, unit: Windows, chosen: Arbitrary):
        self._unit, self._chosen = unit, chosen
        self.slides = Signal()
        self.first = Signal()
        self.here = Signal()
        self.seen = Signal()
        self.under_way = Signal()
        self.recalls = Signal()
        self.number = Signal(range(4))
        self.shape = Signal.like(self.number)
        self.length = Signal(LINE_BITS + 1, name="length")
        self._line = Signal(LINE_BITS + 1)
        self._next = Signal(LINE_BITS)
        self._at = Signal(LINE_BITS)
        columns = range(unit._config.broadcast_group)
        self.bytes = [[Signal(8, name=f"seen_{n}_{ago}") for ago in range(3)] for n in columns]
        self._flags(m)
        self._follow(m)
        self._remember(m)

    def _flags(self, m: Module) -> None:
        """Decode the flags of a vector; assume that a dense vector has none."""
        unit, slide = self._unit, self._unit.slide
        paired = slide.paired if unit._paired else 0
        shapes = Cat(slide.shapes) if unit._wide else slide.window
        m.d.comb += [
            self.slides.eq(unit.valid & slide.window & ~paired),
            self.first.eq(self.slides & ~slide.shift),
            self._at.eq(Mux(slide.shift, self._next, 0)),
            self.here.eq(self.slides & (self._at == self._chosen.number)),
            Assume(slide.window | ~Cat(slide.shift, slide.recall, paired, shapes).any()),
            Assume(~slide.window | is_of_bytes(unit.vector, unit._bits)),
        ]
        if unit._wide:
            count = range(len(shapes))
            m.d.comb += [
                self.number.eq(sum(Mux(shapes[number], number, 0) for number in count)),
                Assume(~slide.window | Cat(shapes == 1 << number for number in count).any()),
            ]

    def _follow(self, m: Module) -> None:
        """Follow positions of a step's vectors; assume that its shape and padding are constant."""
        unit, slide = self._unit, self._unit.slide
        pad = Signal(8)
        before = Signal(LINE_BITS, reset_less=True)
        line = Signal.like(self._line)
        ends = Signal()
        same = (self.number == self.shape) & (slide.pad == pad) & (slide.recall == self.recalls)
        m.d.sync += before.eq(unit.position)
        m.d.comb += [
            line.eq(Mux(self.first, self.length, self._line)),
            ends.eq(self._at + 1 == line),
            Assume((self.length >= _SHORTEST) & (self.length <= 1 << LINE_BITS)),
            Assume(~(self.slides & slide.shift) | (self.under_way & same)),
            Assume(~self.first | ~slide.recall),
            Assume(~self.slides | (before == self._at)),
            # Lemmas.
            implies(self.under_way, (self._line >= _SHORTEST) & (self._line <= 1 << LINE_BITS)),
            implies(self.under_way, self._next < self._line),
        ]
        with m.If(unit.valid):
            m.d.sync += self.under_way.eq(self.slides)
        with m.If(self.slides):
            m.d.sync += [
                *(self._line.eq(line), self.shape.eq(self.number), pad.eq(slide.pad)),
                self._next.eq(Mux(ends, 0, self._at + 1)),
                self.recalls.eq((slide.shift & self.recalls) | ends),
            ]

    def _remember(self, m: Module) -> None:
        """Store the bytes of each column at the chosen position."""
        unit, slide, place = self._unit, self._unit.slide, self._chosen.number
        again = self.seen & slide.shift
        with m.If(self.first):
            m.d.sync += self.seen.eq(0)
        with m.If(self.here):
            m.d.sync += self.seen.eq(1)
            for column, seen in enumerate(self.bytes):
                m.d.sync += [
                    seen[0].eq(unit.vector.word_select(unit._first_column + column, unit._bits)),
                    *(seen[ago + 1].eq(Mux(again, seen[ago], slide.pad)) for ago in range(2)),
                ]
        # Lemma: a step has visited the positions that its first line has reached, and all after
        # that line.
        visited = (place < self._line) & (self.recalls | (place < self._next))
        m.d.comb += implies(self.under_way, self.seen == visited)


def is_of_bytes(vector, bits: int):
    """Return whether each operand of a vector, `bits` wide, is a sign-extended byte."""
    operands = (vector.word_select(row, bits) for row in range(len(vector) // bits))
    return Cat(each.as_signed() == each[:8].as_signed() for each in operands).all()


def windows(unit: Windows) -> Claim:
    """Claim the operands in the cycle after a vector, dense or sliding.

    By decisions 0002 and 0031, the tap of a row is some lines and positions back, and the row shows
    the byte of the vector there, or padding if its step has no such vector. This is claimed in two
    parts: the last row of each line shows the byte at the same position of an earlier line, and
    every other row shows the byte that the row to its right showed one vector ago. Lines are
    compared at an arbitrary position.
    """
    m = Module()
    config, whitebox = unit._config, Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    chosen = Arbitrary(m, 1 << LINE_BITS)
    step = _Step(m, unit, chosen)
    dense, slid, here, moved = (Signal(name=n) for n in ("dense", "slid", "stood_here", "moved"))
    vector = Signal.like(unit.vector)
    pad = Signal(8)
    m.d.sync += [
        *(dense.eq(unit.valid & ~unit.slide.window), slid.eq(step.slides), here.eq(step.here)),
        *(moved.eq(unit.slide.shift), vector.eq(unit.vector), pad.eq(unit.slide.pad)),
    ]
    for column, operands in enumerate(unit.operands):
        rows = [operands[row] for row in range(config.window_rows)]
        before = Signal(unit._bits * len(rows), name=f"operands_{column}")
        m.d.sync += before.eq(Cat(rows))
        for row, value in enumerate(rows):
            own = vector.word_select(row, unit._bits).as_signed()
            beside = before.word_select(min(row + 1, len(rows) - 1), unit._bits)
            right = Mux(moved, beside.as_signed(), pad.as_signed())
            m.d.comb += implies(dense, value == own)
            for shape, lines in enumerate(config.window_shapes):
                slides = slid & (step.shape == shape)
                ends = [last - 1 for last in accumulate(lines)]
                if row in ends:
                    byte = step.bytes[column][len(lines) - 1 - ends.index(row)].as_signed()
                    m.d.comb += implies(slides & here, value == byte)
                else:
                    m.d.comb += implies(slides, value == (right if row < ends[-1] else own))
    if config.window_lines > 1:
        _memory(m, whitebox, chosen, step, slid, here)
    last = len(config.window_shapes) - 1
    m.d.comb += Cover(slid & here & moved & step.recalls & (step.shape == last))
    return Claim(module=m, ports=(*inputs_of(unit), step.length, chosen.number))


def _memory(m: Module, whitebox: Whitebox, chosen: Arbitrary, step: _Step, slid, here) -> None:
    """Assert invariants for the induction: contents of line memories at the chosen position."""
    unit, config = whitebox.unit, whitebox.unit._config
    older = config.window_lines - 1
    held = whitebox.peek("lines", chosen.number)
    places = len(held) // (8 * config.broadcast_group)
    if unit._paired:
        m.d.comb += implies(slid, ~whitebox.register(name="paired"))
    if unit._wide:
        m.d.comb += implies(slid, whitebox.register(name="wide") == (step.shape != 0))
    for ago in range(older):
        # In windows of fewer lines, the older places are never read.
        shapes = [number for number, of in enumerate(config.window_shapes) if len(of) > ago + 1]
        told = Cat(step.shape == number for number in shapes).any()
        for column, seen in enumerate(step.bytes):
            place = held.word_select(column * places + older - 1 - ago, 8)
            m.d.comb += implies(step.under_way & step.seen & ~here & told, place == seen[ago])


def windows_proofs(units: list) -> list[Proof]:
    """Return a proof for each group of a chip's columns that has sliding windows."""
    return [
        Proof(
            kind="addresses",
            unit=f"Windows, {unit._config.broadcast_group} columns from {unit._first_column}",
            statement="each row of a window shows the byte that its tap's lines and positions lie "
            "back, or padding where the step has none, for every shape and any length of line, and "
            "its own byte of a dense vector; blocks of 2 x 2 positions are left out",
            build=lambda unit=unit: windows(unit),
            depth=_DEPTH,
            cover_depth=10,
        )
        for unit in units
        if isinstance(unit, Windows)
    ]
