"""Table of the exponentials that SOFTMAX adds and scales."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.softmax import EXPONENTIAL_BITS, EXPONENTIAL_BYTES, EXPONENTIALS
from matloom_rtl.post.layouts import table_row_signature

__all__ = ["Exponentials"]


class Exponentials(wiring.Component):
    """Table of 256 exponentials, filled by rows of bytes: four bytes per entry, lowest byte first.

    Each of the `config.softmax` look-ups per cycle has a block RAM of its own, with the same
    contents.

    Latency: one cycle from `index` to `value`. A row of n entries takes n + 1 cycles, after which
    its entries are visible. Contents survive a reset; row indices wrap. Stalls: only `rows.ready`.
    Reset aborts a row in progress.

    Members
    -------
    start: in
        The next row is row 0.
    rows: stream of byte rows, in
    index, value: in, out
        For each look-up a difference from the largest byte, and one cycle later its exponential in
        Q0.31, undefined while a row is written.
    """

    def __init__(self, config: Config):
        self._words = config.table_row_bytes // EXPONENTIAL_BYTES
        self._ways = config.softmax
        super().__init__(
            {
                "start": In(1),
                "rows": In(table_row_signature(config)),
                "index": In(data.ArrayLayout(range(EXPONENTIALS), self._ways)),
                "value": Out(data.ArrayLayout(EXPONENTIAL_BITS, self._ways)),
            }
        )

    def elaborate(self, platform):
        """Return the module: a memory for each look-up per cycle, all filled by rows."""
        m = Module()
        bits = 8 * EXPONENTIAL_BYTES
        at = Signal(range(EXPONENTIALS))
        left = Signal(range(self._words + 1))
        row = Signal(self.rows.payload.shape(), reset_less=True)
        writing = Signal()
        m.d.comb += [writing.eq(left != 0), self.rows.ready.eq(~writing)]
        with m.If(writing):
            m.d.sync += [at.eq(at + 1), left.eq(left - 1), row.eq(row >> bits)]
        with m.Elif(self.rows.valid):
            m.d.sync += [row.eq(self.rows.payload), left.eq(self._words)]
        with m.If(self.start):
            m.d.sync += at.eq(0)

        for way in range(self._ways):
            # Nothing is read during writes.
            memory = Memory(
                shape=EXPONENTIAL_BITS, depth=EXPONENTIALS, init=[], attrs={"no_rw_check": 1}
            )
            m.submodules[f"memory_{way}"] = memory
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.en.eq(writing),
                write.addr.eq(at),
                write.data.eq(row[:EXPONENTIAL_BITS]),
                read.addr.eq(self.index[way]),
                self.value[way].eq(read.data),
            ]
        return m
