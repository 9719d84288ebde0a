"""Computes the address, padding and accumulator entry of every vector that an EXEC streams."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.array.cells import decode_flags, flags_layout
from matloom_rtl.array.outputs import Outputs, penultimate
from matloom_rtl.array.windows import LINE_BITS
from matloom_rtl.ports import access_bits, body_layout

__all__ = ["Walk", "loops_layout", "position_layout", "stages_layout", "vector_layout"]

#: Inputs have fewer than ``2**13`` rows, and `first_row` is above ``-2**13``.
_ROW_BITS = 13


def position_layout(inside: int) -> data.StructLayout:
    """Return the layout of a position along an axis: a signed number `at`, and a flag `beyond`.

    `beyond` is set once the position has reached ``2**inside``. It remains set, because steps are
    never negative.
    """
    return data.StructLayout({"beyond": 1, "at": signed(inside + 2)})


def _start_position(value):
    """Return a number as a `position_layout` that is not `beyond`.

    The number must be at least ``-2**inside``, `inside` being the parameter of the layout.
    """
    return Cat(Const(0, 1), value).as_signed()


def _advance(position, step):
    """Return a `position_layout` plus a step of less than ``2**inside`` bytes or rows."""
    moved = (position.at + step)[: len(position.at)]
    return Cat(position.beyond | (~moved[-1] & moved[-2]), moved)


def _elements_before_border(distance, rows: int):
    """Return how many of `rows` elements precede a border, `distance` after the first element.

    That is ``min(max(distance, 0), rows)``, without a comparison of the lower bits.
    """
    bits = (rows - 1).bit_length()
    near = distance[:bits]
    if rows < 1 << bits:
        near = Mux(near < rows, near, rows)
    return Mux(distance < 0, 0, Mux(distance[bits:].any(), rows, near))


def vector_layout(config: Config) -> data.StructLayout:
    """Return the layout of a vector's attributes when its read is requested.

    Elements ``low .. high - 1`` come from the scratchpad and the others are `pad`; if `row_valid`
    is 0, all are `pad`. `first`: the vector begins a step. `last`: it is the last of its
    instruction. `position`, `first_line` (valid with `window`): its position in its line, and
    whether that is the first line. `switch`: it is the first to use its weights. `last_tile` (valid
    with `switch`): its instruction has no further tiles. `output`: its sums are kept, which is the
    case for all dense vectors. `flags`: its mode flags, if several modes are built. `paired`: the
    vector is a block; `row_valid` applies to all of it, and its elements are `pad`. `window_shape`:
    shape of its window, 0 for a block. `zero_points`: `pad` is subtracted from its elements.
    """
    window = {"window": 1, "first_line": 1, "position": LINE_BITS} if config.has_windows else {}
    shape = {"window_shape": 2} if config.has_wide_windows else {}
    return data.StructLayout(
        {
            "address": signed(access_bits(config)),
            "low": range(config.rows + 1),
            "high": range(config.rows + 1),
            "row_valid": 1,
            "pad": 8,
            "switch": 1,
            "last_tile": 1,
            "entry": config.acc_addr_bits,
            "add": 1,
            "maximum": 1,
            **({"zero_points": 1} if config.zero_points else {}),
            "last": 1,
            "output": 1,
            "first": 1,
            **window,
            **shape,
            **({"paired": 1} if config.has_paired_windows else {}),
            **({"flags": flags_layout(config)} if flags_layout(config).size else {}),
        }
    )


#: Command fields that the loops read, from the cycle in which the command begins.
_LOOPS = ("oc_blocks", "kernel_rows", "kernel_cols", "blocks", "height", "width")
_LOOP_FIELDS = (
    *("oc_step", "kernel_row_step", "kernel_col_step", "x_step", "y_step", "first_row"),
    *("accumulate", "weights_fixed"),
)

#: Command fields that the stages after the loops read, from one cycle later.
_STAGE_FIELDS = (
    *("input_addr", "input_pitch", "input_rows", "input_row_bytes"),
    *("acc_addr", "pad_value", "window", "mode"),
    *("first_output", "out_width", "out_height", "out_x_skip", "out_y_skip"),
)


def _stage_fields(config: Config) -> tuple[str, ...]:
    """Return the EXEC fields that pipeline stages after the loops use, by name.

    Fields that the configuration does not have are left out.
    """
    paired = ("paired",) if config.has_paired_windows else ()
    shape = ("window_shape",) if config.has_wide_windows else ()
    knobs = tuple(name for name in ("maximum", "zero_points") if getattr(config, name))
    return (*_STAGE_FIELDS, *paired, *shape, *knobs)


def _fields_layout(fields, config: Config) -> data.StructLayout:
    """Return the layout of some EXEC fields, named by `fields`, each as wide as in the command."""
    whole = body_layout(Opcode.EXEC, config)
    return data.StructLayout({name: whole[name].shape for name in fields})


def loops_layout(config: Config) -> data.StructLayout:
    """Return the layout of the EXEC fields that the loop counters need while a command runs."""
    return _fields_layout(_LOOP_FIELDS, config)


def stages_layout(config: Config) -> data.StructLayout:
    """Return the layout of the EXEC fields that pipeline stages after the loops need.

    `penultimate` is computed from the field `line` (`outputs.penultimate`).
    """
    kept = _fields_layout(_stage_fields(config), config).members
    return data.StructLayout({**kept, "penultimate": LINE_BITS})


@dataclass(frozen=True, kw_only=True)
class _Loops:
    """Flags of the loops, and of the current vector.

    Members
    -------
    issue:
        The vector moves on to the next stage.
    paused:
        The vector is held back, and a pause moves on instead.
    moving:
        The loops move to the next vector in this cycle.
    begin:
        The loops move to the first vector of a command in this cycle.
    reload:
        The next move begins a command.
    at_last:
        For each loop, by name: the current pass is its last.
    step_end:
        The vector is the last of its step.
    final:
        The vector is the last of its command.
    """

    issue: Value
    paused: Signal
    moving: Signal
    begin: Signal
    reload: Signal
    at_last: dict[str, Signal]
    step_end: Signal
    final: Signal


class Walk(wiring.Component):
    """Walk the six loops of an EXEC, one vector per cycle.

    Loops, outermost first: output block, kernel row, kernel column, block, output row, output
    column. The next command must stay valid at `i` until it is taken. It begins with the move away
    from the last vector of the current one, so that instructions follow each other without a gap,
    and is taken one move later.

    Latency: six cycles from the command to its first vector.
    Throughput: one vector per cycle. A step (one weight tile) takes at least
    `acc_update_latency` cycles, and a command with `accumulate` starts that much later: an entry
    must be written before it is read again.
    Stalls: without `room` nothing begins. A vector that has begun, or a pause between updates of
    the same entry, arrives four cycles later and in order (`CreditQueue`).

    Members
    -------
    i: stream of `body_layout(EXEC)`, in
        Commands.
    room: in
        The receiver has room for one more vector or pause.
    start: out
        A vector or a pause begins, and uses up room.
    valid, vector: out
        A vector arrives.
    paused: out
        A pause arrives instead of a vector.
    active: out
        A command is waiting or in progress, or a vector has not yet arrived.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(body_layout(Opcode.EXEC, config))),
                "room": In(1),
                "start": Out(1),
                "valid": Out(1),
                "vector": Out(vector_layout(config)),
                "paused": Out(1),
                "active": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: the loop counters, and the pipeline that computes addresses."""
        m = Module()
        advance = Signal()
        m.d.comb += advance.eq(self.room)

        # One of three states: idle; a command waits at `i`; its loops have begun, and the fields
        # for the later stages follow with the next move.
        waiting = Signal()
        begun = Signal()
        following = self.i.payload
        m.d.comb += self.i.ready.eq(begun & advance)
        with m.If(~waiting & ~begun):
            m.d.sync += waiting.eq(self.i.valid)

        walking = Signal()
        command = Signal(loops_layout(self._config), reset_less=True)
        step = self._loops(m, following, waiting, advance, walking)
        # Commands that begin while none is waiting are never walked, so data need not depend on
        # `waiting`.
        with m.If(step.begin):
            m.d.sync += [command[name].eq(following[name]) for name in _LOOP_FIELDS]
            m.d.sync += walking.eq(waiting)
            with m.If(waiting):
                m.d.sync += [waiting.eq(0), begun.eq(1)]

        fixed = Signal(stages_layout(self._config), reset_less=True)
        with m.If(begun & advance):
            m.d.sync += [fixed[name].eq(following[name]) for name in _stage_fields(self._config)]
            m.d.sync += fixed.penultimate.eq(penultimate(following.line))
            m.d.sync += begun.eq(0)
        busy = walking | waiting | begun
        self._addresses(m, command, following, fixed, advance, busy, step)
        return m

    def _loops(self, m: Module, incoming, waiting, advance, walking) -> _Loops:
        """Count the passes of the loops, and return their flags.

        Hundreds of registers depend on whether the vector is held back and on whether a command
        begins after it, so both are computed one move ahead.
        """
        names = _LOOPS
        left = {name: Signal.like(incoming[name], name=f"left_{name}") for name in names}
        at_last = {name: Signal(name=f"last_{name}", reset_less=True) for name in names}
        # The pass before the last.
        nearly = {name: Signal(name=f"nearly_{name}", reset_less=True) for name in names}
        # Passes of a command: whether there is one, whether there are two, and their number less
        # one.
        single = {name: Signal(name=f"single_{name}", reset_less=True) for name in names}
        double = {name: Signal(name=f"double_{name}", reset_less=True) for name in names}
        rest = {name: Signal.like(left[name], name=f"rest_{name}") for name in names}

        # RAW guard (`cooling`): an accumulating command waits until the last update is readable.
        # Steps shorter than that latency (`young`) do not repeat: their last vector waits.
        latency = self._config.acc_update_latency
        cooling = Signal(range(latency + 1))
        cool = Signal(init=1)
        age = Signal(range(latency))
        young = Signal()
        stays_young = Signal()
        step_end = Signal()
        held = Signal()
        reload = Signal(init=1)
        moving = Signal()
        m.d.comb += [
            moving.eq(advance & ~held),
            stays_young.eq(young & (age + 1 < latency - 1)),
        ]
        with m.If(advance & walking):
            with m.If(~cool):
                m.d.sync += [cooling.eq(cooling - 1), cool.eq(cooling == 1)]
            with m.Elif(~held & step_end):
                m.d.sync += [age.eq(0), young.eq(1)]
            with m.Elif(young):
                m.d.sync += [age.eq(age + 1), young.eq(stays_young)]

        begin = Signal()
        m.d.comb += begin.eq(moving & reload)
        # One subtractor for loops that begin and loops that continue. A register selects between
        # them; movement only enables the register of the difference.
        less = {
            name: (Mux(reload, incoming[name], left[name]) - 1)[: len(left[name])] for name in names
        }
        carry = Const(1)
        for name in reversed(names):
            if name == "blocks":
                # The same, from a register.
                carry = step_end
            with m.If(moving & carry):
                with m.If(at_last[name]):
                    m.d.sync += [
                        left[name].eq(rest[name]),
                        at_last[name].eq(single[name]),
                        nearly[name].eq(double[name]),
                    ]
                with m.Else():
                    m.d.sync += [
                        left[name].eq(less[name]),
                        at_last[name].eq(nearly[name]),
                        nearly[name].eq(left[name] == 2),
                    ]
            carry = carry & at_last[name]
        ends = self._next_vector_ends(names, incoming, single, nearly, at_last, reload)
        final = Signal()
        with m.If(moving):
            m.d.sync += [final.eq(ends["oc_blocks"]), step_end.eq(ends["height"])]
            m.d.sync += reload.eq(ends["oc_blocks"] | (reload & ~waiting))
        with m.If(advance):
            with m.If(held & ~cool):
                m.d.sync += held.eq((cooling != 1) | (step_end & young))
            with m.Elif(held):
                m.d.sync += held.eq(stays_young)
            with m.Elif(reload):
                m.d.sync += held.eq(waiting & (incoming.accumulate | ends["height"]))
            with m.Else():
                m.d.sync += held.eq(ends["height"] & (step_end | stays_young))

        with m.If(begin):
            for name in names:
                one, two = incoming[name] == 1, incoming[name] == 2
                m.d.sync += [
                    *(each.eq(less[name]) for each in (left[name], rest[name])),
                    *(each.eq(one) for each in (at_last[name], single[name])),
                    *(each.eq(two) for each in (nearly[name], double[name])),
                ]
            m.d.sync += [
                age.eq(0),
                young.eq(1),
                cooling.eq(latency),
                cool.eq(~incoming.accumulate),
            ]
        return _Loops(
            issue=walking & ~held,
            paused=held,
            moving=moving,
            begin=begin,
            reload=reload,
            at_last=at_last,
            step_end=step_end,
            final=final,
        )

    def _next_vector_ends(self, names, incoming, single, nearly, at_last, reload) -> dict:
        """Return, by name, whether the next vector ends loop ``oc_blocks``, and whether ``height``.

        A vector ends a loop if that loop and all loops inside it are in their last pass. So either
        these loops have one pass each, or the current vector is in the last pass but one of one of
        them, with all loops outside that one in their last pass and all inside it having a single
        pass.

        Parameters
        ----------
        names:
            Names of the loops, outermost first.
        incoming:
            Fields of the next command, which apply if `reload` is set.
        single, nearly, at_last:
            For each loop, by name: it has one pass; it is in its last pass but one, or in its last.
        """
        only = {name: incoming[name] == 1 for name in names}
        ends = {}
        for outermost in ("oc_blocks", "height"):
            loops = names[names.index(outermost) :]
            cases = []
            for index, name in enumerate(loops):
                outside = [at_last[outer] for outer in loops[:index]]
                inside = [single[inner] for inner in loops[index + 1 :]]
                cases.append(Cat(nearly[name], *outside, *inside).all())
            # Loops that end begin again.
            cases.append(Cat(each[name] for each in (at_last, single) for name in loops).all())
            ends[outermost] = Mux(reload, Cat(only[name] for name in loops).all(), Cat(cases).any())
        return ends

    def _addresses(self, m: Module, command, incoming, fixed, advance, busy, step):
        """Compute attributes and address of each vector; `step` is the state of the loops."""
        byte, row = self._positions(m, command, incoming, step)
        first_step, step_start, start = self._starts(m, step)

        s1 = Signal(vector_layout(self._config))
        names = ("switch", "last_tile", "add", "last", "first", "start")
        known = Signal(data.StructLayout(dict.fromkeys(names, 1)), reset_less=True)
        s1_valid = Signal()
        pauses = [Signal(name=f"paused{stage}") for stage in (1, 2, 3)]
        s1_byte = Signal.like(byte, reset_less=True)
        s1_row = Signal.like(row, reset_less=True)
        m.d.comb += self.start.eq(advance & (step.issue | step.paused))
        m.d.sync += [
            s1_valid.eq(advance & step.issue),
            Cat(*pauses, self.paused).eq(Cat(advance & step.paused, *pauses)),
            s1_byte.eq(byte),
            s1_row.eq(row),
            known.switch.eq(step_start & (start | ~command.weights_fixed)),
            known.last_tile.eq(
                command.weights_fixed | Cat(step.at_last[name] for name in _LOOPS[:4]).all()
            ),
            known.add.eq(~first_step | command.accumulate),
            known.last.eq(step.final),
            known.first.eq(step_start),
            known.start.eq(start),
        ]
        m.d.comb += [
            s1.pad.eq(fixed.pad_value),
            s1.entry.eq(fixed.acc_addr),
            *(s1[name].eq(known[name]) for name in ("switch", "last_tile", "add", "last", "first")),
        ]
        if self._config.maximum:
            m.d.comb += s1.maximum.eq(fixed.maximum)
        if self._config.zero_points:
            m.d.comb += s1.zero_points.eq(fixed.zero_points & ~fixed.window)
        if self._config.has_windows:
            m.d.comb += s1.window.eq(fixed.window)
        paired = fixed.window & fixed.paired if self._config.has_paired_windows else 0
        if self._config.has_paired_windows:
            m.d.comb += s1.paired.eq(paired)
        if self._config.has_wide_windows:
            m.d.comb += s1.window_shape.eq(Mux(paired, 0, fixed.window_shape))
        for name, flag in decode_flags(fixed.mode, self._config).items():
            m.d.comb += s1.flags[name].eq(flag)
        m.submodules.outputs = outputs = Outputs(self._config)
        resume = Signal(reset_less=True)
        m.d.sync += resume.eq(step_start & ~first_step)
        grid, members = outputs.grid, fixed.shape().members
        m.d.comb += [
            *(grid[name].eq(fixed[name]) for name in grid.shape().members if name in members),
            *(grid[name].eq(known[name]) for name in ("first", "start")),
            grid.resume.eq(resume),
        ]
        self._bounds(m, busy, s1, s1_valid, s1_byte, s1_row, fixed, outputs)

    def _positions(self, m: Module, command, incoming, step):
        """Return the positions of the current vector: its first byte in its row, and its row.

        The start of the next step is computed while the current one streams, through two registers
        in series, because no step is shorter than `acc_update_latency` cycles.
        """
        last = step.at_last
        along_row = position_layout(self._config.spad_addr_bits)
        byte_oc, byte_col, byte_block, byte = (
            Signal(along_row, name=f"byte_{name}", reset_less=True)
            for name in ("oc", "col", "block", "x")
        )
        next_oc, next_col, next_block, next_byte = (
            Signal(along_row, name=f"next_{name}", reset_less=True)
            for name in ("oc", "col", "block", "x")
        )
        row_kernel, row, next_kernel, next_row = (
            Signal(position_layout(_ROW_BITS), name=name, reset_less=True)
            for name in ("row_kernel", "row", "next_kernel", "next_row")
        )
        m.d.sync += [
            next_oc.eq(_advance(byte_oc, command.oc_step)),
            next_col.eq(_advance(byte_col, command.kernel_col_step)),
            next_block.eq(_advance(byte_block, self._config.rows)),
            next_kernel.eq(_advance(row_kernel, command.kernel_row_step)),
        ]
        with m.If(~last["blocks"]):
            m.d.sync += [next_byte.eq(next_block), next_row.eq(row_kernel)]
        with m.Elif(~last["kernel_cols"]):
            m.d.sync += [next_byte.eq(next_col), next_row.eq(row_kernel)]
        with m.Elif(~last["kernel_rows"]):
            m.d.sync += [next_byte.eq(byte_oc), next_row.eq(next_kernel)]
        with m.Else():
            m.d.sync += [next_byte.eq(next_oc), next_row.eq(_start_position(command.first_row))]

        taps_end = last["blocks"] & last["kernel_cols"]
        with m.If(step.moving):
            with m.If(step.reload):
                m.d.sync += [
                    each.eq(_start_position(incoming.first_byte))
                    for each in (byte, byte_block, byte_col, byte_oc)
                ]
                m.d.sync += [
                    each.eq(_start_position(incoming.first_row)) for each in (row, row_kernel)
                ]
            with m.Elif(step.step_end):
                m.d.sync += [byte.eq(next_byte), byte_block.eq(next_byte), row.eq(next_row)]
                with m.If(last["blocks"]):
                    m.d.sync += byte_col.eq(next_byte)
                with m.If(taps_end):
                    m.d.sync += row_kernel.eq(next_row)
                with m.If(taps_end & last["kernel_rows"]):
                    m.d.sync += byte_oc.eq(next_byte)
            with m.Elif(last["width"]):
                m.d.sync += [byte.eq(byte_block), row.eq(_advance(row, command.y_step))]
            with m.Else():
                m.d.sync += byte.eq(_advance(byte, command.x_step))
        return byte, row

    def _starts(self, m: Module, step):
        """Return flags: the step is the first of an output block; a step begins; a command begins.

        A step is the use of one weight tile.
        """
        last, step_end = step.at_last, step.step_end
        first_step = Signal()
        step_start = Signal()
        start = Signal()
        block_end = Cat(last[name] for name in ("blocks", "kernel_cols", "kernel_rows")).all()
        with m.If(step.moving):
            m.d.sync += [start.eq(step.reload), step_start.eq(step.reload | step_end)]
            with m.If(step.reload | step_end):
                m.d.sync += first_step.eq(step.reload | block_end)
        return first_step, step_start, start

    def _bounds(self, m: Module, busy, s1, s1_valid, s1_byte, s1_row, fixed, outputs):
        """Compute the address of a vector and clip it to its row, in three stages."""
        rows = self._config.rows
        layout = vector_layout(self._config)
        s2, s3, s4 = (Signal(layout, name=f"s{stage}", reset_less=True) for stage in (2, 3, 4))
        valid2 = Signal()
        valid3 = Signal()
        valid4 = Signal()

        row_bits = Signal(12, reset_less=True)
        pitch2 = Signal.like(fixed.input_pitch)
        inside = ~s1_row.beyond & (s1_row.at >= 0) & (s1_row.at < fixed.input_rows)
        room2 = Signal(signed(len(s1_byte.at) + 1), reset_less=True)
        under2 = Signal.like(room2, reset_less=True)
        beyond2 = Signal(reset_less=True)
        base2, product3, base3 = (
            Signal(access_bits(self._config), name=name, reset_less=True)
            for name in ("base2", "product3", "base3")
        )
        m.d.sync += [
            s2.eq(s1),
            valid2.eq(s1_valid),
            s2.row_valid.eq(inside),
            row_bits.eq(s1_row.at[:12]),
            pitch2.eq(fixed.input_pitch),
            base2.eq(fixed.input_addr + s1_byte.at),
            room2.eq(fixed.input_row_bytes - s1_byte.at),
            under2.eq(-s1_byte.at),
            beyond2.eq(s1_byte.beyond),
        ]
        m.d.sync += [
            s3.eq(s2),
            valid3.eq(valid2),
            product3.eq(row_bits * pitch2),
            base3.eq(base2),
            s3.low.eq(_elements_before_border(under2, rows)),
            s3.high.eq(Mux(beyond2, 0, _elements_before_border(room2, rows))),
        ]
        if self._config.has_paired_windows:
            whole = (under2 <= 0) & (room2 >= self._config.paired_bytes) & ~beyond2
            with m.If(s2.paired):
                m.d.sync += [s3.row_valid.eq(s2.row_valid & whole), s3.high.eq(0)]
        m.d.sync += [s4.eq(s3), valid4.eq(valid3), s4.address.eq(base3 + product3)]
        m.d.sync += [
            s3.output.eq(outputs.output),
            s4.entry.eq(outputs.entry),
        ]
        if self._config.has_windows:
            m.d.sync += [
                s2.position.eq(outputs.position),
                s2.first_line.eq(outputs.first_line),
            ]
        m.d.comb += [
            outputs.valid.eq(Cat(s1_valid, valid2, valid3)),
            outputs.acc_addr.eq(s3.entry),
            self.valid.eq(valid4),
            self.vector.eq(s4),
            self.active.eq(busy | s1_valid | valid2 | valid3 | valid4),
        ]
