"""Weight-stationary array: takes a vector of activations, returns a sum for each column."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.array.cells import Cells, delay, flags_layout, operand_bits, replicate
from matloom_rtl.array.float_columns import FloatColumns
from matloom_rtl.array.windows import LINE_BITS, Windows, slide_layout

__all__ = ["Array"]


class Array(wiring.Component):
    """Weight-stationary systolic array: multiplies each vector by the matrix of active weights.

    Accepts a vector of `rows` bytes in any cycle. Its `columns` sums leave exactly `latency`
    cycles later, with its tag. There is no backpressure and nothing ever stalls.

    Every cell has an active and a shadow weight. A row of weights presented in cycle t is in the
    shadow registers for a vector with `switch` presented in cycle t + 1 or later; a switch in
    cycle t itself activates the previous contents of the shadow registers.

    Activations, switches and weights pass from one broadcast group to the next through one
    register, so group g runs g cycles behind group 0 and sees the same order of events; the sums
    of earlier groups wait for the last group. A cell has two weight registers and a multiplier
    with registers before and after it. The products of a column are added in a binary tree with
    a register at each level.

    The mode decides how cells interpret bytes (`Cells`). A narrow mode produces two sums for each
    column. Floating-point modes have separate cells (`FloatColumns`); the faster kind is delayed
    so that the latency is the same in all modes.

    A vector is either dense, with each byte broadcast to all columns, or slides through windows
    (docs/decisions, 0002). `Windows` replaces the operand registers of its rows, for both kinds
    of vectors and with the same timing.

    Each vector of a paired window comes with a block of `paired_bytes` on `weight_data`, while
    `weight_writes` and `weight_narrow` are 0.

    Only `o_valid` and the controls of weight movement are reset: vectors and tiles presented
    before a reset are lost.

    Parameters
    ----------
    tag: ShapeLike
        Shape of the tag that travels with each vector.

    Members
    -------
    valid, vector, switch, tag: in
        Activations, row 0 lowest: bytes, or with `Config.zero_points` numbers of nine bits.
        `switch` marks the first vector that uses the shadow weights, and is set only together with
        `valid`.
    flags: in
        Mode flags of the vector (`flags_layout`). Only if several modes are built.
    slide, position: in
        How the vector enters the windows, and its position in the line. `position` comes one
        cycle before the vector.
    weight_writes, weight_data: in
        Weights for the group of `weight_rows` rows whose bit is set (at most one), row by row,
        column 0 lowest.
    weight_transposed: in
        The weights are for a group of `weight_rows` columns instead, column by column, row 0
        lowest. Only with `Config.transposed_weights`.
    weight_narrow: in
        Each byte holds two weights. Only with narrow modes.
    weight_format: in
        Format of floating-point weights, an index into `Config.float_modes`. Only with
        floating-point modes.
    o_valid, o_tag, o_sums: out
        Sums, signed, column 0 lowest; fp32 patterns in a floating-point mode.
    o_seconds: out
        Second sums of a narrow mode. Only with narrow modes.
    next_tag: out
        `o_tag` of the next cycle.
    """

    def __init__(self, config: Config, tag):
        self._config = config
        self._cells = cells = Cells(config)
        narrow = {
            "weight_narrow": In(1),
            "o_seconds": Out(data.ArrayLayout(signed(cells.second_bits), config.columns)),
        }
        floating = {"weight_format": In(range(len(config.float_modes)))}
        sum_bits = 32 if config.has_float else cells.sum_bits
        super().__init__(
            {
                "valid": In(1),
                "vector": In(operand_bits(config) * config.rows),
                "switch": In(1),
                "slide": In(slide_layout(config)),
                "position": In(LINE_BITS),
                "tag": In(tag),
                "weight_writes": In(config.tile_load_cycles),
                "weight_data": In(operand_bits(config) * config.weight_bytes),
                "o_valid": Out(1),
                "o_tag": Out(tag),
                "next_tag": Out(tag),
                "o_sums": Out(data.ArrayLayout(signed(sum_bits), config.columns)),
                **({"flags": In(flags_layout(config))} if flags_layout(config).size else {}),
                **({"weight_transposed": In(1)} if config.transposed_weights else {}),
                **(narrow if config.has_narrow else {}),
                **(floating if config.has_float else {}),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a vector to its sums."""
        floats = FloatColumns.latency_of(self._config) if self._config.has_float else 0
        return max(self._own_latency, floats)

    @property
    def _own_latency(self) -> int:
        """Cycles from a vector to the integer sums of all columns."""
        return 1 + self._cells.latency + self._last_group

    @property
    def _last_group(self) -> int:
        """Index of the last broadcast group; groups receive a vector one cycle after another."""
        return self._config.columns // self._config.broadcast_group - 1

    def elaborate(self, platform):
        """Return the module: the registers and arithmetic of all columns, by broadcast group."""
        m = Module()
        config, cells = self._config, self._cells
        valid, switch = self.valid, self.switch
        flags = self.flags if flags_layout(config).size else None
        weight_narrow = self.weight_narrow if config.has_narrow else None
        words = flags.words if config.has_words else None
        bits = operand_bits(config)
        vector = [cells.operand(each, flags) for each in _slices(self.vector, bits)]
        writes = list(self.weight_writes)
        transposed = self.weight_transposed if config.transposed_weights else None
        weights = [cells.weight(each, weight_narrow) for each in _slices(self.weight_data, bits)]
        slide, position = self.slide, self.position
        last_flags = self._last_flags(m)
        floats, floating = self._floats(m) if config.has_float else (None, None)

        for group in range(self._last_group + 1):
            activations = [
                Signal(signed(bits), name=f"activation_{group}_{row}", reset_less=True)
                for row in range(config.rows)
            ]
            # Operands change only with valid vectors, so that idle multipliers do not toggle.
            with m.If(valid):
                m.d.sync += [held.eq(byte) for held, byte in zip(activations, vector, strict=True)]
            windows = self._windows(m, group, valid, vector, slide, position, weights)
            held_words = None
            if config.has_words:
                held_words = Signal(name=f"words_{group}", reset_less=True)
                with m.If(valid):
                    m.d.sync += held_words.eq(words)
            for index in range(config.broadcast_group):
                column = group * config.broadcast_group + index
                active = self._weights(m, column, (writes, transposed), weights, switch)
                operands = [*windows[index], *activations[len(windows[index]) :]]
                products = cells.products(m, column, operands, active, held_words)
                totals = cells.totals(m, column, products)
                for _group in range(group, self._last_group):
                    totals = [delay(m, total) for total in totals]
                first, *second = cells.sums(m, column, totals, last_flags)
                if config.has_float:
                    for _cycle in range(self._own_latency, self.latency):
                        first = delay(m, first)
                    first = Mux(floating[column], floats[column], first)
                m.d.comb += self.o_sums[column].eq(first)
                m.d.comb += [self.o_seconds[column].eq(total) for total in second]
            if group < self._last_group:
                valid, switch = delay(m, valid, reset=True), delay(m, switch, reset=True)
                vector, slide, position = activations, delay(m, slide), delay(m, position)
                words = held_words
                writes = [delay(m, write, reset=True) for write in writes]
                weights = [
                    delay(m, byte) if self._is_byte_needed_after(index, group) else None
                    for index, byte in enumerate(weights)
                ]
                if transposed is not None:
                    transposed = delay(m, transposed)
        self._delay_tag(m)
        return m

    def _is_byte_needed_after(self, index: int, group: int) -> bool:
        """Return whether a column after a broadcast group needs the weight byte `index`."""
        config = self._config
        beyond = index % config.columns >= (group + 1) * config.broadcast_group
        return beyond or bool(config.transposed_weights)

    def _windows(self, m: Module, group: int, valid, vector, slide, position, weights):
        """Add the `Windows` of a broadcast group; return a list of its operands for each column.

        Without sliding windows, the lists are empty. The bytes of a 2 x 2 block (paired windows)
        arrive in `weights`.
        """
        config = self._config
        rows = config.window_rows
        if not rows:
            return [[]] * config.broadcast_group
        windows = Windows(config, group * config.broadcast_group)
        m.submodules[f"windows_{group}"] = windows
        m.d.comb += [
            windows.valid.eq(valid),
            windows.vector.eq(Cat(vector)),
            windows.slide.eq(slide),
            windows.position.eq(position),
        ]
        if config.has_paired_windows:
            first, beyond = group * config.broadcast_group, (group + 1) * config.broadcast_group
            m.d.comb += windows.block.eq(
                Cat(
                    weights[row * config.columns + column][:8]
                    for row in range(config.weight_rows)
                    for column in range(first, beyond)
                )
            )
        return [
            [windows.operands[index][row] for row in range(rows)]
            for index in range(config.broadcast_group)
        ]

    def _weights(self, m: Module, column: int, writes, weights, switch):
        """Return the active weights of a column, and load its shadow weights.

        `writes` is a pair: a list of write enables, one per group, and the flag that groups are
        columns instead of rows, or None if they are always rows. `weights` has the arriving
        weights, and `switch` makes the shadow weights active.
        """
        config, bits = self._config, self._cells.weight_bits
        (writes, transposed), actives = writes, []
        for row in range(config.rows):
            group, index = divmod(row, config.weight_rows)
            shadow = Signal(signed(bits), name=f"shadow_{column}_{row}", reset_less=True)
            active = Signal(signed(bits), name=f"active_{column}_{row}", reset_less=True)
            write, weight = writes[group], weights[index * config.columns + column]
            if transposed is not None:
                group, index = divmod(column, config.weight_rows)
                write = Mux(transposed, writes[group], write)
                weight = Mux(transposed, weights[index * config.rows + row], weight)
            with m.If(write):
                m.d.sync += shadow.eq(weight)
            with m.If(switch):
                m.d.sync += active.eq(shadow)
            actives.append(active)
        return actives

    def _floats(self, m: Module):
        """Return the columns' fp32 sums, and for each column a flag that selects its fp32 sum.

        The flag is set if the vector whose sums leave now is in a floating-point mode.
        """
        config = self._config
        m.submodules.floats = floats = FloatColumns(config)
        names = ("valid", "vector", "switch", "weight_writes", "weight_data")
        m.d.comb += [getattr(floats, name).eq(getattr(self, name)) for name in names]
        m.d.comb += floats.weight_format.eq(self.weight_format)
        if len(config.float_modes) > 1:
            m.d.comb += floats.format.eq(self.flags.format)
        sums, floating = list(floats.o_sums), self.flags.floating
        for _cycle in range(FloatColumns.latency_of(config), self.latency):
            sums = [delay(m, each) for each in sums]
        for _cycle in range(self.latency - 1):
            floating = delay(m, floating)
        floating = replicate(m, floating, config.columns, name="floating")
        return [each.as_signed() for each in sums], floating

    def _last_flags(self, m: Module):
        """Return the mode flags of the vector in each stage of `Cells.sums`."""
        if not flags_layout(self._config).size:
            return []
        stages = [self.flags]
        for _cycle in range(self._own_latency - 1):
            stages.append(delay(m, stages[-1]))
        return stages[-self._cells.sums_latency :]

    def _delay_tag(self, m: Module):
        """Drive `o_valid`, `o_tag` and `next_tag`: `valid` and `tag`, delayed by the latency."""
        valid, tag = self.valid, self.tag
        for _cycle in range(self.latency - 1):
            valid, tag = delay(m, valid, reset=True), delay(m, tag)
        m.d.comb += self.next_tag.eq(tag)
        m.d.sync += [self.o_valid.eq(valid), self.o_tag.eq(tag)]


def _slices(value, bits: int) -> list:
    """Return a value as a list of parts of `bits` bits each, lowest first."""
    return [value.word_select(index, bits) for index in range(len(value) // bits)]
