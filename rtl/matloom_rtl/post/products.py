"""Products of scratchpad bytes and accumulators, one vector after another."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config

__all__ = ["Products"]

#: A byte without its zero point, or what POST puts into accumulators of it: -255 .. 255.
_FACTOR_BITS = 9


class Products(wiring.Component):
    """Multiply each byte less `zero` by the low 9 bits, signed, of a sum that came before it.

    Sums are read when bytes are asked for, and come back earlier: up to `depth` of them wait.

    Latency: two cycles from bytes to products. Throughput: a vector a cycle. No stalls.

    Members
    -------
    zero: in
        Constant while bytes come.
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
        super().__init__(
            {
                "zero": In(signed(8)),
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
        m.submodules.waiting = waiting = SyncFIFO(width=_FACTOR_BITS * columns, depth=self._depth)
        m.d.comb += [
            waiting.w_en.eq(self.sums_arrived),
            waiting.w_data.eq(
                Cat(self.sums.word_select(index, 32)[:_FACTOR_BITS] for index in range(columns))
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
            byte, factor, product = (
                Signal(signed(bits), name=f"{name}_{index}", reset_less=True)
                for name, bits in (
                    ("byte", _FACTOR_BITS),
                    ("factor", _FACTOR_BITS),
                    ("product", 2 * _FACTOR_BITS),
                )
            )
            m.d.sync += [
                byte.eq(self.bytes.word_select(index, 8).as_signed() - self.zero),
                factor.eq(waiting.r_data.word_select(index, _FACTOR_BITS)),
                product.eq(byte * factor),
            ]
            m.d.comb += self.values.word_select(index, 32).eq(product)
        return m
