"""Floating-point columns of the array: a vector of numbers in, an fp32 sum per column out."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.floats import FLOAT_FORMATS
from matloom_rtl.arith.add import FloatAdd
from matloom_rtl.arith.multiply import FloatMultiply
from matloom_rtl.arith.unpack import OPERAND, Unpack
from matloom_rtl.array.cells import delay, replicate

__all__ = ["FloatColumns"]


class FloatColumns(wiring.Component):
    """Multiply the first `float_rows` numbers of a vector by the weights of each column, and add.

    Products are rounded to fp32 (`floats.multiply`) and added in a balanced binary tree of
    `FloatAdd`, low indices first: with four, ``(p0 + p1) + (p2 + p3)``.

    Latency: `latency_of` the configuration, from a vector to its sums. Throughput: one vector per
    cycle.

    Numbers are packed in the vector, lowest byte first. The weight of element k is in rows 2k and
    2k + 1, or in row 2k alone if it has one byte. Weights, `switch` and groups of columns are timed
    as in `Array`, but `Unpack.LATENCY` cycles later.

    Members
    -------
    valid, vector, switch, weight_writes, weight_data: in
        As in `Array`.
    format, weight_format: in
        Formats of the vector and of the weights, as indices into `Config.float_modes`.
    o_sums: out
        fp32 patterns, column 0 lowest.
    """

    def __init__(self, config: Config):
        self._config = config
        self._sizes = [FLOAT_FORMATS[name].bytes for name in config.float_modes]
        super().__init__(
            {
                "valid": In(1),
                "vector": In(8 * config.rows),
                "switch": In(1),
                "format": In(range(len(self._sizes))),
                "weight_writes": In(config.tile_load_cycles),
                "weight_data": In(8 * config.weight_rows * config.columns),
                "weight_format": In(range(len(self._sizes))),
                "o_sums": Out(data.ArrayLayout(32, config.columns)),
            }
        )

    @staticmethod
    def latency_of(config: Config) -> int:
        """Return the cycles from a vector to its sums."""
        levels = config.float_rows.bit_length() - 1
        product = Unpack.LATENCY + 1 + FloatMultiply.latency_of(config.float_modes)
        return product + levels * FloatAdd.LATENCY + config.columns // config.broadcast_group - 1

    def elaborate(self, platform):
        """Return the module: decoders of vectors and weights, multipliers, and adder trees."""
        m = Module()
        config = self._config
        vector = [
            self._unpack(m, f"operand_{element}", self._element(element), self.format)
            for element in range(config.float_rows)
        ]
        writes, weights = self._incoming(m)
        valid, switch = self.valid, self.valid & self.switch
        for _cycle in range(Unpack.LATENCY - 1):
            valid, switch = delay(m, valid, reset=True), delay(m, switch, reset=True)

        last_group = config.columns // config.broadcast_group - 1
        for group in range(last_group + 1):
            valid = delay(m, valid, reset=True)
            switches = replicate(
                m, switch, config.broadcast_group, name=f"switch_{group}", reset=True
            )
            switch = switches[0]
            operands = [
                Signal(OPERAND, name=f"operand_{group}_{element}", reset_less=True)
                for element in range(config.float_rows)
            ]
            with m.If(valid):
                m.d.sync += [held.eq(given) for held, given in zip(operands, vector, strict=True)]
            for place, switched in enumerate(switches):
                column = group * config.broadcast_group + place
                active = self._weights(m, column, writes, weights[column], switched)
                total = self._sum(m, column, operands, active)
                for _group in range(group, last_group):
                    total = delay(m, total)
                m.d.comb += self.o_sums[column].eq(total)
            if group < last_group:
                vector, writes = operands, [delay(m, write, reset=True) for write in writes]
                weights = [
                    [delay(m, weight) for weight in column]
                    if index >= (group + 1) * config.broadcast_group
                    else None
                    for index, column in enumerate(weights)
                ]
        return m

    def _element(self, element: int):
        """Return the bytes of an element of the vector, whose size depends on `format`."""
        single, double = (self.vector.word_select(element, 8 * size) for size in (1, 2))
        singles = [index for index, size in enumerate(self._sizes) if size == 1]
        if not singles:
            return double
        if len(singles) == len(self._sizes):
            return single
        return Mux(Cat(self.format == index for index in singles).any(), single, double)

    def _unpack(self, m: Module, name: str, bits, number_format):
        """Add an `Unpack` that decodes bit patterns of a number format; return its output."""
        m.submodules[name] = unpack = Unpack(self._config.float_modes)
        m.d.comb += [unpack.bits.eq(bits), unpack.format.eq(number_format)]
        return unpack.o

    def _incoming(self, m: Module):
        """Return the write enables of groups of rows, and the unpacked weights of each column.

        Only groups that hold elements are returned. Both are delayed by `Unpack.LATENCY` cycles.
        """
        config = self._config
        pairs = config.weight_rows // 2
        writes = list(self.weight_writes[: -(-config.float_rows // pairs)])
        for _cycle in range(Unpack.LATENCY):
            writes = [delay(m, write, reset=True) for write in writes]
        weights = []
        for column in range(config.columns):
            low_high = [
                self.weight_data.word_select(row * config.columns + column, 8)
                for row in range(config.weight_rows)
            ]
            weights.append(
                [
                    self._unpack(
                        m,
                        f"weight_{column}_{pair}",
                        Cat(low_high[2 * pair : 2 * pair + 2]),
                        self.weight_format,
                    )
                    for pair in range(min(pairs, config.float_rows))
                ]
            )
        return writes, weights

    def _weights(self, m: Module, column: int, writes, weights, switch):
        """Return the active weights of a column."""
        actives = []
        for element in range(self._config.float_rows):
            group, pair = divmod(element, self._config.weight_rows // 2)
            shadow, active = (
                Signal(OPERAND, name=f"{name}_{column}_{element}", reset_less=True)
                for name in ("shadow", "active")
            )
            with m.If(writes[group]):
                m.d.sync += shadow.eq(weights[pair])
            with m.If(switch):
                m.d.sync += active.eq(shadow)
            actives.append(active)
        return actives

    def _sum(self, m: Module, column: int, operands, weights):
        """Return the sum of a column's products."""
        terms = []
        for element, (operand, weight) in enumerate(zip(operands, weights, strict=True)):
            multiply = FloatMultiply(self._config.float_modes)
            m.submodules[f"multiply_{column}_{element}"] = multiply
            m.d.comb += [multiply.a.eq(operand), multiply.b.eq(weight)]
            terms.append(multiply.o)
        while len(terms) > 1:
            sums = []
            for index in range(0, len(terms), 2):
                m.submodules[f"add_{column}_{len(terms)}_{index}"] = add = FloatAdd()
                m.d.comb += [add.a.eq(terms[index]), add.b.eq(terms[index + 1])]
                sums.append(add.o)
            terms = sums
        return terms[0]
