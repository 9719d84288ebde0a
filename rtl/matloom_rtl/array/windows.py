"""The operands of the rows that sliding windows use, for one group of columns."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.arch.isa import Opcode
from matloom_rtl.ports import body_layout

__all__ = ["LINE_BITS", "SLIDE", "Windows"]

#: Bits of a vector's position in its line.
LINE_BITS = body_layout(Opcode.EXEC)["line"].width

#: How a vector enters the operands. `window`: it slides; then `shift`: it is not the first of its
#: step, so windows move; `recall`: lines before it are remembered; `pad`: what stands elsewhere.
SLIDE = data.StructLayout({"window": 1, "shift": 1, "recall": 1, "pad": 8})


class Windows(wiring.Component):
    """Hold an operand for each cell of ``WINDOW_TAPS * window_lines`` rows and `hop` columns.

    A dense vector puts its byte of the row into every column. A sliding one puts its byte of the
    *column* into the last row, what the line memories hold into the last row of the older lines,
    and everywhere else what was at the right: the registers are the windows themselves, so a
    multiplier sees a register either way, loaded in the cycle after the vector is presented.

    A line memory is written with what stands in the registers, padding and all, so a value that
    reaches the oldest line through two memories was masked in the first: `recall` is enough for
    both. It is read one cycle before the vector is presented in cycle t, and written in t + 1.
    The next read of the same position in this step is `L` vectors later, in t + L - 1 or later;
    with L of 3 and more that is after the write. Reads that meet older writes, or writes of the
    step before, are those of a first line, whose data nobody takes.

    Only what enables a write is reset. Vectors may be dense or sliding from cycle to cycle, as
    long as the vectors of a step that slides have no dense ones among them.

    Parameters
    ----------
    first_column: int
        Of the group; column c takes byte c of the vector.

    Members
    -------
    position: in
        Of the vector in its line, one cycle before the vector.
    valid, vector, slide: in
        Activations, row 0 lowest. `shift` and `recall` are 0 where `window` is.
    operands: out
        One array for each column, of an operand for each row.
    """

    def __init__(self, config: Config, first_column: int):
        self._config = config
        self._first_column = first_column
        self._lines = config.window_lines
        rows = WINDOW_TAPS * self._lines
        super().__init__(
            {
                "position": In(LINE_BITS),
                "valid": In(1),
                "vector": In(8 * config.rows),
                "slide": In(SLIDE),
                "operands": Out(data.ArrayLayout(data.ArrayLayout(signed(8), rows), config.hop)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        slide, rows = self.slide, WINDOW_TAPS * self._lines
        # What comes neither from the right nor from memory is chosen once for all columns.
        own = [Mux(slide.window, slide.pad, self.vector.word_select(row, 8)) for row in range(rows)]
        cells = [
            [
                Signal(signed(8), name=f"operand_{column}_{row}", reset_less=True)
                for row in range(rows)
            ]
            for column in range(self._config.hop)
        ]
        remembered = self._memory(m, cells) if self._lines > 1 else None
        for column, registers in enumerate(cells):
            m.d.comb += Cat(self.operands[column]).eq(Cat(registers))
            newest = self.vector.word_select(self._first_column + column, 8)
            with m.If(self.valid):
                for row, register in enumerate(registers):
                    line, tap = divmod(row, WINDOW_TAPS)
                    if tap < WINDOW_TAPS - 1:
                        m.d.sync += register.eq(Mux(slide.shift, registers[row + 1], own[row]))
                    elif line < self._lines - 1:
                        older = remembered[column][line]
                        m.d.sync += register.eq(Mux(slide.recall, older, own[row]))
                    else:
                        byte = self.vector.word_select(row, 8)
                        m.d.sync += register.eq(Mux(slide.window, newest, byte))
        return m

    def _memory(self, m: Module, cells):
        """Return what each column passed one line ago and more, the oldest line first."""
        older = self._lines - 1
        m.submodules.lines = memory = Memory(
            shape=data.ArrayLayout(data.ArrayLayout(8, older), self._config.hop),
            depth=1 << LINE_BITS,
            init=[],
            attrs={"no_rw_check": 1},
        )
        fetch, store = memory.read_port(), memory.write_port()
        present = Signal(LINE_BITS, reset_less=True)
        m.d.comb += fetch.addr.eq(self.position)
        m.d.sync += [
            present.eq(self.position),
            store.addr.eq(present),
            store.en.eq(self.valid & self.slide.window),
        ]
        for column, registers in enumerate(cells):
            for line in range(older):
                newer = registers[WINDOW_TAPS * (line + 1) + WINDOW_TAPS - 1]
                m.d.comb += store.data[column][line].eq(newer)
        return fetch.data
