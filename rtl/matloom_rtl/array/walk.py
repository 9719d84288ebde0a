"""Addresses, padding and accumulator entries of every vector that an EXEC streams."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.array.cells import decode_flags, flags_layout
from matloom_rtl.array.outputs import GRID, Outputs, penultimate
from matloom_rtl.array.windows import LINE_BITS
from matloom_rtl.ports import ACC_ADDRESS_BITS, ACC_UPDATE_LATENCY, SPAD_ADDRESS_BITS, body_layout

__all__ = ["Walk", "vector_layout"]

#: Wide enough that no legal sum of steps wraps: 2**21 + 2 * 2**28 + 2**24 + 2**18 < 2**30.
_BYTE_BITS = 31

#: Likewise for rows: 2**13 + 4095 * 255 + 255 * 255 < 2**21.
_ROW_BITS = 22


def vector_layout(config: Config) -> data.StructLayout:
    """Return what is known of a vector when its read is requested.

    Elements ``low .. high - 1`` come from the scratchpad, the others, and all where `row_valid`
    is 0, are `pad`. `first` begins a step; with `window`, `position` and `first_line` tell the
    place in the lines. Only the sums of an `output` are kept; dense vectors are outputs all.
    `flags` are those of the mode, where several are built.
    """
    return data.StructLayout(
        {
            "address": SPAD_ADDRESS_BITS,
            "low": range(config.rows + 1),
            "high": range(config.rows + 1),
            "row_valid": 1,
            "pad": 8,
            "switch": 1,
            "entry": ACC_ADDRESS_BITS,
            "add": 1,
            "maximum": 1,
            "last": 1,
            "mark": 8,
            "window": 1,
            "output": 1,
            "first": 1,
            "first_line": 1,
            "position": LINE_BITS,
            **({"flags": flags_layout(config)} if flags_layout(config).size else {}),
        }
    )


class Walk(wiring.Component):
    """Walk the six loops of an EXEC, one vector a cycle.

    Loops, outermost first: output block, kernel row, kernel column, block, output row, output
    column. The next command is taken in the cycle of the last vector, so that instructions follow
    each other without a gap. Entries are counted beside the later stages (`Outputs`): until there
    `entry` is the instruction's first.

    Latency: 5 cycles from the command to its first vector. Throughput: one vector a cycle, but a
    step (one weight tile) takes `ACC_UPDATE_LATENCY` cycles at least, and a command with
    `accumulate` starts that much later, because an entry must be written before it is read again.
    Stalled output: everything holds, empty places included, so gaps between vectors never close:
    `o.ready` moves all, and must not wait for `o.valid`.

    Members
    -------
    i: stream of `body_layout(EXEC)`, in
    o: stream of `vector_layout`, out
    active: out
        A command is under way or a vector is on its way to `o`.
    paused: out
        The empty place at `o` is one that keeps updates of an entry apart.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(body_layout(Opcode.EXEC))),
                "o": Out(stream.Signature(vector_layout(config))),
                "active": Out(1),
                "paused": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        advance = Signal()
        m.d.comb += advance.eq(self.o.ready)

        walking = Signal()
        command = Signal(body_layout(Opcode.EXEC), reset_less=True)
        step = self._loops(m, command, advance, walking)
        self._addresses(m, command, advance, walking, step)

        # What is taken while nothing is valid is never walked: data need not know of `valid`.
        m.d.comb += self.i.ready.eq(step["moving"] & step["reload"])
        with m.If(self.i.ready):
            m.d.sync += [walking.eq(self.i.valid), command.eq(self.i.payload)]
        return m

    def _loops(self, m: Module, command, advance, walking) -> dict:
        """Count the loops; return the registers of the vector at hand and its flags."""
        incoming = self.i.payload
        names = ("oc_blocks", "kernel_rows", "kernel_cols", "blocks", "height", "width")
        left = {name: Signal(12, name=f"left_{name}", reset_less=True) for name in names}
        at_last = {name: Signal(name=f"last_{name}", reset_less=True) for name in names}

        # Flags in registers: what holds a vector back is at the root of every move.
        cooling, cool = Signal(range(ACC_UPDATE_LATENCY + 1)), Signal(init=1)
        age, young = Signal(range(ACC_UPDATE_LATENCY)), Signal()
        step_end = Signal()
        hold, issue = Signal(), Signal()
        m.d.comb += [
            # A step that is too short repeats nothing: its last vector waits instead.
            hold.eq(~cool | (step_end & young)),
            issue.eq(walking & ~hold),
        ]
        with m.If(advance & walking):
            with m.If(~cool):
                m.d.sync += [cooling.eq(cooling - 1), cool.eq(cooling == 1)]
            with m.Elif(issue & step_end):
                m.d.sync += [age.eq(0), young.eq(1)]
            with m.Elif(young):
                m.d.sync += [age.eq(age + 1), young.eq(age + 1 < ACC_UPDATE_LATENCY - 1)]

        # Whether to move hangs on all that stalls; where to, on registers alone.
        moving, reload = Signal(), Signal()
        m.d.comb += moving.eq(advance & (~walking | ~hold))
        carry = Const(1)
        for name in reversed(names):
            if name == "blocks":
                # The same, from a register.
                carry = step_end
            with m.If(moving & carry):
                with m.If(at_last[name]):
                    m.d.sync += [
                        left[name].eq(command[name] - 1),
                        at_last[name].eq(command[name] == 1),
                    ]
                with m.Else():
                    m.d.sync += [
                        left[name].eq(left[name] - 1),
                        at_last[name].eq(left[name] == 1),
                    ]
            carry = carry & at_last[name]
        ends = self._ends(m, names, left, at_last, reload)
        final = Signal()
        m.d.comb += reload.eq(~walking | final)
        with m.If(moving):
            m.d.sync += [final.eq(ends["oc_blocks"]), step_end.eq(ends["height"])]

        with m.If(moving & reload):
            for name in names:
                m.d.sync += [
                    left[name].eq(incoming[name] - 1),
                    at_last[name].eq(incoming[name] == 1),
                ]
            m.d.sync += [
                age.eq(0),
                young.eq(1),
                cooling.eq(ACC_UPDATE_LATENCY),
                cool.eq(~incoming.accumulate),
            ]
        return {
            "issue": issue,
            "paused": walking & hold,
            "moving": moving,
            "reload": reload,
            "at_last": at_last,
            "step_end": step_end,
            "final": final,
        }

    def _ends(self, m: Module, names, left, at_last, reload) -> dict:
        """Return for some loops whether the next vector ends it and all loops inside.

        It does if it is the only one; and if the vector at hand is one from the end of some loop,
        all loops inside of that pass but once, and all outside are at their end.
        """
        incoming = self.i.payload
        single = {name: Signal(name=f"single_{name}", reset_less=True) for name in names}
        only = {name: incoming[name] == 1 for name in names}
        with m.If(self.i.ready):
            m.d.sync += [single[name].eq(only[name]) for name in names]
        ends = {}
        for outermost in ("oc_blocks", "height"):
            loops = names[names.index(outermost) :]
            cases = []
            for index, name in enumerate(loops):
                outside = [at_last[outer] for outer in loops[:index]]
                inside = [single[inner] for inner in loops[index + 1 :]]
                cases.append(Cat(~at_last[name] & (left[name] == 1), *outside, *inside).all())
            # After the end of these loops they begin again.
            cases.append(Cat(each[name] for each in (at_last, single) for name in loops).all())
            ends[outermost] = Mux(reload, Cat(only[name] for name in loops).all(), Cat(cases).any())
        return ends

    def _addresses(self, m: Module, command, advance, walking, step):
        byte, row = self._positions(m, command, step)
        first_step, step_start, start = self._starts(m, step)

        issue = step["issue"]
        s1 = Signal(vector_layout(self._config), reset_less=True)
        s1_valid = Signal()
        pauses = [Signal(name=f"paused{stage}") for stage in (1, 2, 3)]
        s1_byte = Signal(signed(_BYTE_BITS), reset_less=True)
        s1_row = Signal(signed(_ROW_BITS), reset_less=True)
        s1_geometry = Signal(
            data.StructLayout({"input_addr": 24, "pitch": 20, "rows": 12, "row_bytes": 20}),
            reset_less=True,
        )
        with m.If(advance):
            m.d.sync += [
                s1_valid.eq(issue),
                Cat(*pauses, self.paused).eq(Cat(step["paused"], *pauses)),
                s1_byte.eq(byte),
                s1_row.eq(row),
                s1.pad.eq(command.pad_value),
                s1.switch.eq(step_start & (start | ~command.weights_fixed)),
                s1.entry.eq(command.acc_addr),
                s1.add.eq(~first_step | command.accumulate),
                s1.maximum.eq(command.maximum),
                s1.last.eq(step["final"]),
                s1.mark.eq(command.mark),
                s1.first.eq(step_start),
                s1_geometry.input_addr.eq(command.input_addr),
                s1_geometry.pitch.eq(command.input_pitch),
                s1_geometry.rows.eq(command.input_rows),
                s1_geometry.row_bytes.eq(command.input_row_bytes),
            ]
        if self._config.has_windows:
            with m.If(advance):
                m.d.sync += s1.window.eq(command.window)
        for name, flag in decode_flags(command.mode, self._config).items():
            with m.If(advance):
                m.d.sync += s1.flags[name].eq(flag)
        m.submodules.outputs = outputs = Outputs(self._config)
        flags = {"first": step_start, "resume": step_start & ~first_step, "start": start}
        self._grid(m, command, advance, outputs, flags)
        self._bounds(m, advance, walking, s1, s1_valid, s1_byte, s1_row, s1_geometry, outputs)

    def _grid(self, m: Module, command, advance, outputs, flags):
        """Show the grid of outputs of the vector in the first stage."""
        fields = {name: command[name] for name, _ in GRID if name in command.shape().members}
        fields |= flags | {"penultimate": penultimate(command.line)}
        grid = Signal(GRID, reset_less=True)
        with m.If(advance):
            m.d.sync += [grid[name].eq(value) for name, value in fields.items()]
        m.d.comb += [outputs.advance.eq(advance), outputs.grid.eq(grid)]

    def _positions(self, m: Module, command, step):
        """Keep byte-in-row and row of the vector at hand.

        Where the next step begins is worked out while this one streams, in two registers one behind
        the other: no step is shorter than `ACC_UPDATE_LATENCY` cycles.
        """
        incoming, last = self.i.payload, step["at_last"]
        rows = self._config.rows
        byte_oc, byte_col, byte_block, byte = (
            Signal(signed(_BYTE_BITS), name=f"byte_{name}", reset_less=True)
            for name in ("oc", "col", "block", "x")
        )
        next_oc, next_col, next_block, next_byte = (
            Signal(signed(_BYTE_BITS), name=f"next_{name}", reset_less=True)
            for name in ("oc", "col", "block", "x")
        )
        row_kernel, row, next_kernel, next_row = (
            Signal(signed(_ROW_BITS), name=name, reset_less=True)
            for name in ("row_kernel", "row", "next_kernel", "next_row")
        )
        m.d.sync += [
            next_oc.eq(byte_oc + command.oc_step),
            next_col.eq(byte_col + command.kernel_col_step),
            next_block.eq(byte_block + rows),
            next_kernel.eq(row_kernel + command.kernel_row_step),
        ]
        with m.If(~last["blocks"]):
            m.d.sync += [next_byte.eq(next_block), next_row.eq(row_kernel)]
        with m.Elif(~last["kernel_cols"]):
            m.d.sync += [next_byte.eq(next_col), next_row.eq(row_kernel)]
        with m.Elif(~last["kernel_rows"]):
            m.d.sync += [next_byte.eq(byte_oc), next_row.eq(next_kernel)]
        with m.Else():
            m.d.sync += [next_byte.eq(next_oc), next_row.eq(command.first_row)]

        taps_end = last["blocks"] & last["kernel_cols"]
        with m.If(step["moving"]):
            with m.If(step["reload"]):
                m.d.sync += [
                    each.eq(incoming.first_byte) for each in (byte, byte_block, byte_col, byte_oc)
                ]
                m.d.sync += [row.eq(incoming.first_row), row_kernel.eq(incoming.first_row)]
            with m.Elif(step["step_end"]):
                m.d.sync += [byte.eq(next_byte), byte_block.eq(next_byte), row.eq(next_row)]
                with m.If(last["blocks"]):
                    m.d.sync += byte_col.eq(next_byte)
                with m.If(taps_end):
                    m.d.sync += row_kernel.eq(next_row)
                with m.If(taps_end & last["kernel_rows"]):
                    m.d.sync += byte_oc.eq(next_byte)
            with m.Elif(last["width"]):
                m.d.sync += [byte.eq(byte_block), row.eq(row + command.y_step)]
            with m.Else():
                m.d.sync += byte.eq(byte + command.x_step)
        return byte, row

    def _starts(self, m: Module, step):
        """Keep whether this is the first step of its output block, and what the vector begins."""
        last, step_end = step["at_last"], step["step_end"]
        first_step, step_start, start = Signal(), Signal(), Signal()
        block_end = Cat(last[name] for name in ("blocks", "kernel_cols", "kernel_rows")).all()
        with m.If(step["moving"]):
            m.d.sync += [start.eq(step["reload"]), step_start.eq(step["reload"] | step_end)]
            with m.If(step["reload"] | step_end):
                m.d.sync += first_step.eq(step["reload"] | block_end)
        return first_step, step_start, start

    def _bounds(
        self, m: Module, advance, walking, s1, s1_valid, s1_byte, s1_row, geometry, outputs
    ):
        """Multiply the row, add the base, and cut the vector to the row: three stages."""
        rows = self._config.rows
        layout = vector_layout(self._config)
        s2, s3, s4 = (Signal(layout, name=f"s{stage}", reset_less=True) for stage in (2, 3, 4))
        valid2, valid3, valid4 = Signal(), Signal(), Signal()

        row_bits, pitch2 = Signal(12, reset_less=True), Signal(20, reset_less=True)
        room2 = Signal(signed(_BYTE_BITS + 1), reset_less=True)
        under2 = Signal(signed(_BYTE_BITS), reset_less=True)
        base2, product3, base3 = (
            Signal(24, name=name, reset_less=True) for name in ("base2", "product3", "base3")
        )
        with m.If(advance):
            m.d.sync += [
                s2.eq(s1),
                valid2.eq(s1_valid),
                s2.row_valid.eq((s1_row >= 0) & (s1_row < geometry.rows)),
                row_bits.eq(s1_row[:12]),
                pitch2.eq(geometry.pitch),
                base2.eq(geometry.input_addr + s1_byte),
                room2.eq(geometry.row_bytes - s1_byte),
                under2.eq(s1_byte),
            ]
            m.d.sync += [
                s3.eq(s2),
                valid3.eq(valid2),
                product3.eq(row_bits * pitch2),
                base3.eq(base2),
                s3.low.eq(Mux(under2 >= 0, 0, Mux(under2 <= -rows, rows, -under2))),
                s3.high.eq(Mux(room2 >= rows, rows, Mux(room2 <= 0, 0, room2))),
            ]
            m.d.sync += [s4.eq(s3), valid4.eq(valid3), s4.address.eq(base3 + product3)]
            m.d.sync += [
                s2.position.eq(outputs.position),
                s2.first_line.eq(outputs.first_line),
                s3.output.eq(outputs.output),
                s4.entry.eq(outputs.entry),
            ]
        m.d.comb += [
            outputs.valid.eq(Cat(s1_valid, valid2, valid3)),
            outputs.acc_addr.eq(s3.entry),
            self.o.valid.eq(valid4),
            self.o.payload.eq(s4),
            self.active.eq(walking | s1_valid | valid2 | valid3 | valid4),
        ]
