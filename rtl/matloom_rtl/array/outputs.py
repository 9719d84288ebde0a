"""Selects the vectors that are outputs; finds their accumulator entries and line positions."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.array.windows import LINE_BITS
from matloom_rtl.ports import body_layout

__all__ = ["Outputs", "grid_layout", "penultimate"]

_FIELDS = ("first_output", "out_width", "out_height", "out_x_skip", "out_y_skip")


def grid_layout(config: Config) -> data.StructLayout:
    """Return the layout of a vector's attributes for `Outputs`: flags, and fields of its EXEC.

    `window`: the vector slides through a window. `first`: it begins a step. `resume`: that step
    adds to the entries of the step before. `start`: the vector begins an instruction.
    `penultimate`: last position but one of a line.
    """
    body = body_layout(Opcode.EXEC, config)
    return data.StructLayout(
        {
            **dict.fromkeys(("window", "start", "resume", "first"), 1),
            "penultimate": LINE_BITS,
            **{name: body[name].shape for name in _FIELDS},
        }
    )


def penultimate(line):
    """Return the last position but one of a line of `line` vectors, or 1 if `line` is below 3."""
    return Mux(line < 3, 1, (line - 2)[:LINE_BITS])


class Outputs(wiring.Component):
    """Find which vectors are outputs, and their accumulator entries, in three pipeline stages.

    Stage 1 counts the vectors of a line and those before the first output. Stage 2 walks the grid
    of outputs, in lines of the same length that start at the first output. Stage 3 counts entries.
    Each stage holds the state for the next vector of the same step, and restarts at a new step.
    Dense vectors are all outputs; without windows the first two stages are not built.

    Latency: one cycle per stage. Throughput: one vector per cycle.

    Members
    -------
    valid: in
        One bit per stage: the stage holds a vector.
    grid: in
        Flags of the vector in stage 1 (`grid_layout`).
    position, first_line: out
        Position in its line of the vector in stage 1, and whether that is the first line.
    output: out
        The vector in stage 2 is an output.
    acc_addr: in
        First accumulator entry of the instruction whose vector is in stage 3.
    entry: out
        Entry of the vector in stage 3, if it is an output.
    """

    def __init__(self, config: Config):
        self._has_windows, self._grid_layout = config.has_windows, grid_layout(config)
        super().__init__(
            {
                "valid": In(3),
                "grid": In(self._grid_layout),
                "position": Out(LINE_BITS),
                "first_line": Out(1),
                "output": Out(1),
                "acc_addr": In(config.acc_addr_bits),
                "entry": Out(config.acc_addr_bits),
            }
        )

    def elaborate(self, platform):
        """Return the module: one stage for lines, one for the grid of outputs, one for entries."""
        m = Module()
        second, third = (
            Signal(self._grid_layout, name=name, reset_less=True) for name in ("second", "third")
        )
        counted = Signal()
        output = Signal()
        if self._has_windows:
            self._lines(m, counted)
            self._grid(m, second, counted)
        else:
            m.d.comb += self.output.eq(1)
        m.d.sync += [second.eq(self.grid), third.eq(second), output.eq(self.output)]
        self._entries(m, third, output)
        return m

    def _lines(self, m: Module, counted):
        """Count the vectors of each line, and those that remain before the first output of a step.

        Drives `counted`, which stage 2 reads: the step's first output has been reached.
        """
        grid, enable = self.grid, self.valid[0]
        position, end = _count(m, "line", enable, grid.first, grid.penultimate)
        m.d.comb += self.position.eq(position)

        in_first_line = Signal()
        m.d.comb += self.first_line.eq(grid.first | in_first_line)
        with m.If(enable):
            m.d.sync += in_first_line.eq(self.first_line & ~end)

        before = Signal.like(grid.first_output)
        left = Signal.like(grid.first_output)
        m.d.comb += left.eq(Mux(grid.first, grid.first_output, before))
        with m.If(enable):
            m.d.sync += [counted.eq(left == 0), before.eq(left - left.any())]

    def _grid(self, m: Module, grid, counted):
        """Drive `output`: whether the vector in stage 2 is an output.

        It is one if it does not slide through a window, or if its column and its row, counted from
        the step's first output, are both within the output's size and not skipped by the stride.
        """
        enable = self.valid[1]
        # Vectors before the first output restart the first line, so they do not end it.
        after_end = Signal()
        new_line = Signal()
        m.d.comb += new_line.eq(grid.first | after_end)
        _position, end = _count(m, "grid", enable, new_line, grid.penultimate)
        x_open = _axis(m, "x", enable, 1, new_line, grid.out_width, grid.out_x_skip)
        y_open = _axis(m, "y", enable, end, grid.first, grid.out_height, grid.out_y_skip)
        with m.If(enable):
            m.d.sync += after_end.eq(~counted | end)
        m.d.comb += self.output.eq(~grid.window | (counted & x_open & y_open))

    def _entries(self, m: Module, grid, output):
        """Drive `entry`: count outputs, and return to the block's first entry at each `resume`."""
        following = Signal.like(self.entry)
        block = Signal.like(self.entry)
        with m.If(grid.start):
            m.d.comb += self.entry.eq(self.acc_addr)
        with m.Elif(grid.resume):
            m.d.comb += self.entry.eq(block)
        with m.Else():
            m.d.comb += self.entry.eq(following)
        with m.If(self.valid[2]):
            m.d.sync += following.eq(self.entry + output)
            with m.If(grid.first):
                m.d.sync += block.eq(self.entry)


def _count(m: Module, name: str, enable, restart, penultimate):
    """Return the current vector's position in its line, and whether it is the last of the line.

    `restart`: the vector begins a line. `enable`: there is a vector.
    """
    following = Signal(LINE_BITS, name=f"{name}_following")
    at_end = Signal(name=f"{name}_at_end")
    position = Signal(LINE_BITS, name=f"{name}_position")
    end = Signal(name=f"{name}_end")
    # Lines never have a single vector.
    m.d.comb += [position.eq(Mux(restart, 0, following)), end.eq(~restart & at_end)]
    with m.If(enable):
        m.d.sync += [following.eq(Mux(end, 0, position + 1)), at_end.eq(position == penultimate)]
    return position, end


def _axis(m: Module, name: str, enable, move, restart, outputs, skip):
    """Return whether the current position along an axis (x or y, in `name`) has outputs.

    `move` advances to the next position. `restart`: the current position is the first. From there
    on, every ``skip + 1``-th position has outputs, until there were `outputs` of them.
    """
    skips = Signal.like(skip, name=f"{name}_skips")
    left = Signal.like(outputs, name=f"{name}_left")
    some = Signal(name=f"{name}_some")
    is_open = Signal(name=f"{name}_open")
    skips_now = Signal.like(skip, name=f"{name}_skips_now")
    left_now = Signal.like(outputs, name=f"{name}_left_now")
    some_now = Signal(name=f"{name}_some_now")
    m.d.comb += [
        skips_now.eq(Mux(restart, 0, skips)),
        left_now.eq(Mux(restart, outputs, left)),
        some_now.eq(Mux(restart, outputs != 0, some)),
        is_open.eq((skips_now == 0) & some_now),
    ]
    with m.If(enable):
        m.d.sync += [skips.eq(skips_now), left.eq(left_now), some.eq(some_now)]
        with m.If(move):
            m.d.sync += skips.eq(Mux(skips_now == 0, skip, skips_now - 1))
            with m.If(is_open):
                m.d.sync += [left.eq(left_now - 1), some.eq(left_now != 1)]
    return is_open
