"""Products or sums of scratchpad bytes and accumulators, one vector after another."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.numerics import ADDEND_SHIFT

__all__ = ["Products"]

#: A byte without its zero point, or what POST puts into accumulators of it: -255 .. 255.
_FACTOR_BITS = 9


class Products(wiring.Component):
    """Multiply each byte less `zero` by the low 9 bits, signed, of a sum that came before it.

    Where the configuration has addends and `adds` is set, the byte less `zero` is added instead,
    shifted left by `ADDEND_SHIFT`, to all 32 bits of the sum; the carry beyond them is lost.
    Sums are read when bytes are asked for, and come back earlier: up to `depth` of them wait, of
    9 bits, or whole where there are addends.

    Latency: two cycles from bytes to results. Throughput: a vector a cycle. No stalls. A reset
    forgets what waits and what is under way.

    Members
    -------
    zero: in
        Constant while bytes come, and until their results have.
    adds: in
        The same; where there are addends.
    sums_arrived, sums: in
        32 bits a column.
    bytes_arrived, bytes, ends: in
        8 bits a column; `ends` goes with them.
    valid, values, ended: out
        32 bits a column, signed; `ended` came as `ends`.
    """

    #: Cycles from bytes to products.
    LATENCY = 2

    def __init__(self, config: Config, depth: int):
        self._columns, self._depth = config.columns, depth
        self._addends = config.has_addends
        super().__init__(
            {
                "zero": In(signed(8)),
                **({"adds": In(1)} if config.has_addends else {}),
                "sums_arrived": In(1),
                "sums": In(32 * config.columns),
                "bytes_arrived": In(1),
                "bytes": In(8 * config.columns),
                "ends": In(1),
                "valid": Out(1),
                "values": Out(32 * config.columns),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform):
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
            byte, factor, product = (
                Signal(signed(size), name=f"{name}_{index}", reset_less=True)
                for name, size in (
                    ("byte", _FACTOR_BITS),
                    ("factor", _FACTOR_BITS),
                    ("product", 2 * _FACTOR_BITS),
                )
            )
            m.d.sync += [
                byte.eq(self.bytes.word_select(index, 8).as_signed() - self.zero),
                factor.eq(total[:_FACTOR_BITS]),
                product.eq(byte * factor),
            ]
            value = self.values.word_select(index, 32)
            result = product
            if self._addends:
                added = self._add(m, index, total, byte)
                result = Mux(self.adds, added.as_signed(), product)
            m.d.comb += value.eq(result)
        return m

    def _add(self, m: Module, index: int, total, byte):
        """Return the sum of a column and its byte, two cycles after both came."""
        waited = Signal(32, name=f"total_{index}", reset_less=True)
        added = Signal(32, name=f"added_{index}", reset_less=True)
        m.d.sync += [
            waited.eq(total),
            added.eq(Cat(waited[:ADDEND_SHIFT], waited[ADDEND_SHIFT:] + byte)),
        ]
        return added
