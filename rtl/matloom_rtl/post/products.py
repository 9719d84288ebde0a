"""Products, sums or squared differences of scratchpad elements and accumulators."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.numerics import ADDEND_SHIFT, SQUARE_SHIFT

__all__ = ["Products"]

#: Width of a factor, -255 to 255: a byte minus its zero point, or the accumulator made of one.
_FACTOR_BITS = 9

#: Width of a difference that is squared.
_DIFFERENCE_BITS = 16

#: Width of a word and of its accumulator factor; and of a word minus its zero point.
_WORD_BITS = 16
_CENTRED_BITS = 17


class Products(wiring.Component):
    """Multiply each byte, minus `zero`, by the low 9 bits (signed) of an earlier sum.

    If `adds` is set (only with addends), the byte minus `zero` is shifted left by `ADDEND_SHIFT`
    and added to all 32 bits of the sum, modulo 2**32; with `keeps`, the sum is unchanged. If
    `squares` is set (only with squares), the byte minus `zero` is shifted left by `SQUARE_SHIFT`
    and subtracted from the sum, and the low 16 bits (signed) of the difference are squared by the
    same multiplier. If `words` is set (only with word products), elements have 16 bits instead of
    8, and are multiplied by the low 16 bits (signed) of the sum.

    Sums are requested together with the bytes but arrive earlier. Up to `depth` vectors of sums
    wait here, with 9 bits per column, or 32 with addends.

    Latency: two cycles from bytes to results. Throughput: one vector per cycle. Never stalls. Reset
    discards everything inside.

    Members
    -------
    zero: in
        Zero point of the elements. Constant from the first element until the last result is out.
    adds: in
        Add instead of multiplying; constant like `zero`. Only with addends.
    keeps: in
        Pass sums on unchanged; set only with `adds`, and constant like it. Only with sums of
        results.
    squares: in
        Square the difference instead; constant like `zero`, and not with `adds`. Only with squares.
    words: in
        Multiply words; constant like `zero`, and not with `adds` or `squares`. Only with word
        products.
    sums_arrived, sums: in
        A vector of sums arrives: 32 bits per column.
    bytes_arrived, bytes, ends: in
        A vector of elements arrives: 8 bits per column, or 16 with word products, to which bytes
        are sign-extended. `ends` is delayed with the vector.
    valid, values, ended: out
        A vector of results: 32 bits per column, signed; `ended` is the delayed `ends`.
    """

    #: Cycles from elements to results.
    LATENCY = 2

    def __init__(self, config: Config, depth: int):
        self._columns, self._depth = config.columns, depth
        self._addends, self._squares = config.has_addends, config.has_squares
        self._words, self._keeps = config.has_word_products, config.has_result_sums
        self._element_bits = _WORD_BITS if self._words else 8
        super().__init__(
            {
                "zero": In(signed(8)),
                **({"adds": In(1)} if config.has_addends else {}),
                **({"keeps": In(1)} if config.has_result_sums else {}),
                **({"squares": In(1)} if config.has_squares else {}),
                **({"words": In(1)} if config.has_word_products else {}),
                "sums_arrived": In(1),
                "sums": In(32 * config.columns),
                "bytes_arrived": In(1),
                "bytes": In(self._element_bits * config.columns),
                "ends": In(1),
                "valid": Out(1),
                "values": Out(32 * config.columns),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: a queue of sums, and a multiplier for each column."""
        m = Module()
        columns = self._columns
        bits = 32 if self._addends else _FACTOR_BITS
        m.submodules.waiting = waiting = SyncFIFO(width=bits * columns, depth=self._depth)
        m.d.comb += [
            waiting.w_en.eq(self.sums_arrived),
            waiting.w_data.eq(
                Cat(self.sums.word_select(index, 32)[:bits] for index in range(columns))
            ),
            waiting.r_en.eq(self.bytes_arrived),
        ]
        valid = Signal()
        ends = Signal()
        m.d.sync += [
            Cat(valid, ends).eq(Cat(self.bytes_arrived, self.ends)),
            Cat(self.valid, self.ended).eq(Cat(valid, ends)),
        ]
        for index in range(columns):
            total = waiting.r_data.word_select(index, bits)
            byte, product = self._product(m, index, total)
            value = self.values.word_select(index, 32)
            result = product
            if self._addends:
                added = self._add(m, index, total, byte)
                result = Mux(self.adds, added.as_signed(), product)
            m.d.comb += value.eq(result)
        return m

    def _product(self, m: Module, index: int, total):
        """Return a column's first factor, one cycle late, and its product, two cycles late.

        The factor is the element minus `zero`, or with `squares` the difference to be squared.
        """
        width = _DIFFERENCE_BITS if self._squares else _FACTOR_BITS
        wide = _CENTRED_BITS if self._words else width
        byte, factor, product = (
            Signal(signed(size), name=f"{name}_{index}", reset_less=True)
            for name, size in (("byte", wide), ("factor", width), ("product", 2 * width))
        )
        element = self.bytes.word_select(index, self._element_bits)
        centred = element.as_signed() - self.zero
        low = total[:_FACTOR_BITS]
        m.d.sync += [
            byte.eq(centred),
            factor.eq(low.as_signed() if self._squares else low),
            product.eq(byte * factor),
        ]
        if self._squares:
            difference = total[:_DIFFERENCE_BITS] - (centred << SQUARE_SHIFT)
            if self._words:
                difference = difference[:_DIFFERENCE_BITS].as_signed()
            with m.If(self.squares):
                m.d.sync += [byte.eq(difference), factor.eq(difference)]
        if self._words:
            with m.If(self.words):
                m.d.sync += factor.eq(total[:_WORD_BITS])
        return byte, product

    def _add(self, m: Module, index: int, total, byte):
        """Return a column's accumulator plus its element shifted left by `ADDEND_SHIFT`.

        The result is two cycles later than `total` and one later than `byte`. With `keeps`, it is
        the accumulator unchanged.
        """
        waited = Signal(32, name=f"total_{index}", reset_less=True)
        added = Signal(32, name=f"added_{index}", reset_less=True)
        shifted = Mux(self.keeps, 0, byte) if self._keeps else byte
        m.d.sync += [
            waited.eq(total),
            added.eq(Cat(waited[:ADDEND_SHIFT], waited[ADDEND_SHIFT:] + shifted)),
        ]
        return added
