"""Reference for EXEC's walk: the loops of an instruction, and the vectors that they start."""

from amaranth.hdl import Assume, Cat, Const, Module, Signal, signed
from amaranth.lib import data

from matloom.arch.isa import Opcode
from matloom_rtl.array.walk import Walk
from matloom_rtl.formal.parts.loop_nest import Loop, Nest
from matloom_rtl.formal.parts.whitebox import Whitebox
from matloom_rtl.ports import body_layout

__all__ = ["LOOPS", "POSITION_BITS", "STAGES", "STEP", "WalkNest", "fits"]

#: Loops, outermost first, by the field with their number of iterations. For each, the field with
#: the step that an iteration adds to a place, in bytes or rows; `rows` is that of the array.
LOOPS: dict[str, dict[str, str]] = {
    "oc_blocks": {"byte": "oc_step"},
    "kernel_rows": {"row": "kernel_row_step"},
    "kernel_cols": {"byte": "kernel_col_step"},
    "blocks": {"byte": "rows"},
    "height": {"row": "y_step"},
    "width": {"byte": "x_step"},
}

#: The loops within a step, during which the weights are one tile.
STEP = ("height", "width")

#: Cycles from the start of a vector until it leaves `Walk`.
STAGES = 4

#: Width of each place, a position in the input: enough for all steps of all loops.
POSITION_BITS = {"byte": 34, "row": 24}


def fits(place):
    """Return a bit that is set if adding a loop step to a signed place cannot overflow."""
    return (place[-2] == place[-1]) & (place >= -(1 << 22))


class WalkNest:
    """The current instruction, its loops, and the vectors that began and have not left `Walk`.

    Of the walk's registers, only those are used that tell when an instruction or a vector begins.

    Members
    -------
    fields:
        Fields of the current instruction.
    nest:
        The instruction's loops, with the places `byte` and `row` in the input.
    running:
        Whether the loops are running.
    begins:
        An instruction begins.
    moves:
        A vector begins.
    vector, there, paused:
        Listed by cycles, from 0 to `STAGES`: the vector that began that many cycles ago, whether a
        vector began, and whether the walk paused.
    """

    def __init__(self, m: Module, unit: Walk, whitebox: Whitebox):
        self.config, incoming = unit._config, unit.i.payload
        layout = body_layout(Opcode.EXEC, self.config)
        waiting, reload, held = (
            whitebox.register(name=name) for name in ("waiting", "reload", "held")
        )
        self.fields = Signal(layout, init=dict.fromkeys(LOOPS, 1), reset_less=True)
        self.begins = Signal()
        self.moves = Signal()
        self.running = whitebox.register(name="walking")
        m.d.comb += [
            self.begins.eq(unit.room & ~held & reload & waiting),
            self.moves.eq(unit.room & ~held & self.running),
            *(Assume(~unit.i.valid | (incoming[name] != 0)) for name in LOOPS),
            Assume(~unit.i.valid | (incoming.input_row_bytes <= self.config.spad_bytes)),
        ]
        with m.If(self.begins):
            m.d.sync += self.fields.eq(incoming)
        firsts = {"byte": incoming.first_byte, "row": incoming.first_row}
        self.nest = Nest(
            m,
            {name: Loop(self.fields[name], **self.steps(name)) for name in LOOPS},
            {place: (signed(bits), firsts[place]) for place, bits in POSITION_BITS.items()},
            begin=self.begins,
            move=self.moves,
        )
        self._follow(m, unit.room & held)

    def steps(self, loop: str) -> dict:
        """Return, for each position in the input, how far an iteration of a loop moves it."""
        return {
            place: Const(self.config.rows) if name == "rows" else self.fields[name]
            for place, name in LOOPS[loop].items()
        }

    def zero(self, *names: str):
        """Return whether the loops `names` are all in their first iterations."""
        return Cat(self.nest.index[name] == 0 for name in names).all()

    def marks(self) -> dict:
        """Return the flags that the instruction set defines for the current vector, by name."""
        tile_last = Cat(self.nest.last[name] for name in LOOPS if name not in STEP).all()
        first, first_step = self.zero(*STEP), self.zero("kernel_rows", "kernel_cols", "blocks")
        start = first & first_step & self.zero("oc_blocks")
        return {
            "first": first,
            "start": start,
            "resume": first & ~first_step,
            "switch": first & (start | ~self.fields.weights_fixed),
            "last_tile": self.fields.weights_fixed | tile_last,
            "add": ~first_step | self.fields.accumulate,
            "last": self.nest.end,
            "tap": ~self.zero("kernel_rows"),
        }

    def _follow(self, m: Module, pauses) -> None:
        """Follow vectors, and the `pauses` of the walk, through the stages."""
        marks = self.marks()
        layout = data.StructLayout(
            {
                **{place: signed(bits) for place, bits in POSITION_BITS.items()},
                **dict.fromkeys(marks, 1),
                "fields": self.fields.shape(),
            }
        )
        self.vector = [Signal(layout, name="vector_0")]
        self.there, self.paused = [self.moves], [pauses]
        m.d.comb += [
            *(self.vector[0][place].eq(self.nest.place(place)) for place in POSITION_BITS),
            *(self.vector[0][name].eq(mark) for name, mark in marks.items()),
            self.vector[0].fields.eq(self.fields),
        ]
        for stage in range(1, STAGES + 1):
            vector = Signal(layout, name=f"vector_{stage}", reset_less=True)
            there = Signal(name=f"there_{stage}")
            paused = Signal(name=f"pause_{stage}")
            m.d.sync += [
                *(vector.eq(self.vector[-1]), there.eq(self.there[-1])),
                paused.eq(self.paused[-1]),
            ]
            for kept, each in zip(
                (self.vector, self.there, self.paused), (vector, there, paused), strict=True
            ):
                kept.append(each)
