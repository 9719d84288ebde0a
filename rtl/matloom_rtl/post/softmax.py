"""SOFTMAX of rows of bytes, one element after another, by a lane's multipliers."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.ports import body_layout
from matloom_rtl.post.exponentials import Exponentials
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.layouts import table_row_signature
from matloom_rtl.post.reciprocal import Reciprocal

__all__ = ["Softmax"]

#: Passes over a row: for its largest byte, for the sum of the exponentials, for the results.
_LARGEST, _SUM, _RESULTS = range(3)

#: What goes with an element: the pass in which it counts, and whether it is the first or last.
_FLAGS = data.StructLayout({"largest": 1, "adds": 1, "results": 1, "first": 1, "last": 1})


class Softmax(wiring.Component):
    """Compute the SOFTMAX of rows of bytes (`matloom.arch.softmax`), in three passes over each.

    The vectors of a row come three times. Each element of a vector takes a cycle, whether it counts
    or not. The first pass finds the largest byte of the row, the second adds the exponentials of
    differences from it, the third multiplies them by the reciprocal of their sum. A lane, which has
    nothing else to do, multiplies.

    Latency: from an element of the third pass to its result, `LATENCY` cycles. Throughput: one
    element per cycle; `PAUSE` cycles between the second and the third pass; the next row follows
    without a gap. Stalls: an element waits for its vector, and the first of a vector for `place`.
    Reset discards a row in progress; the table survives it.

    Members
    -------
    command: in
        Constant from `start` until the last result is out.
    start: in
        First cycle of a command.
    active: in
        Vectors are those of a SOFTMAX.
    valid, bytes, taken: in, in, out
        The next vector, and that it is taken.
    place: in
        There is room for the results of a vector.
    begins: out
        The first element of a vector enters whose results are to come.
    value, multiplier, shift: out
        What the lane multiplies; the multiplier stays until it is due.
    product: in
        The lane's result, `Lane.LATENCY` cycles later.
    emerging, results: out
        In the next cycle `results` are those of a beat, one byte for each lane.
    rows: stream of byte rows for the table of exponentials, in
    """

    #: How often the vectors of a row come.
    PASSES = 3

    #: Cycles from an element to the lane, and to the cycle before its result.
    TO_LANE = 3
    LATENCY = TO_LANE + Lane.LATENCY

    #: Cycles between the second and the third pass over a row.
    PAUSE = TO_LANE + Reciprocal.CYCLES

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "command": In(body_layout(Opcode.POST, config)),
                "start": In(1),
                "active": In(1),
                "valid": In(1),
                "bytes": In(data.ArrayLayout(8, config.columns)),
                "taken": Out(1),
                "place": In(1),
                "begins": Out(1),
                "value": Out(signed(32)),
                "multiplier": Out(31),
                "shift": Out(signed(6)),
                "product": In(signed(32)),
                "emerging": Out(1),
                "results": Out(data.ArrayLayout(8, config.lanes)),
                "rows": In(table_row_signature(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.exponentials = exponentials = Exponentials(self._config)
        m.submodules.reciprocal = reciprocal = Reciprocal()
        wiring.connect(m, wiring.flipped(self.rows), exponentials.rows)
        byte, flags = self._walk(m, reciprocal.done)
        m.d.comb += [
            exponentials.start.eq(self.start),
            exponentials.index.eq(self._below(m, byte, flags[1])),
            reciprocal.exponential.eq(exponentials.value),
            *(getattr(reciprocal, name).eq(flags[3][name]) for name in ("adds", "first", "last")),
            reciprocal.product.eq(self.product),
            self.value.eq(
                Mux(
                    reciprocal.busy,
                    reciprocal.operand,
                    Mux(reciprocal.vanishes, 0, exponentials.value),
                )
            ),
            self.shift.eq(Mux(reciprocal.busy, 0, reciprocal.shift)),
            self.multiplier.eq(reciprocal.multiplier),
        ]
        self._gather(m, flags[self.LATENCY].results)
        return m

    def _walk(self, m: Module, done):
        """Let elements enter; return the byte of the last one, and the flags of earlier ones."""
        config, command = self._config, self.command
        index = Signal(range(config.columns))
        left = Signal.like(command.oc_blocks)
        first_vector = Signal()
        of_pass = Signal(range(3))
        pause = Signal()
        enters = Signal()
        row_end = left == 1
        m.d.comb += [
            # A vector that has entered stays valid until its last element.
            enters.eq(self.active & ((index != 0) | (self.valid & self.place & ~pause))),
            self.taken.eq(enters & (index == config.columns - 1)),
            self.begins.eq(enters & (index == 0) & (of_pass == _RESULTS)),
        ]
        ends = self.taken & row_end
        with m.If(enters):
            m.d.sync += index.eq(Mux(self.taken, 0, index + 1))
        with m.If(self.start | self.taken):
            renewed = self.start | row_end
            m.d.sync += [
                left.eq(Mux(renewed, command.oc_blocks, left - 1)),
                first_vector.eq(renewed),
            ]
        with m.If(ends):
            m.d.sync += of_pass.eq(Mux(of_pass == _RESULTS, _LARGEST, of_pass + 1))
        with m.If((ends & (of_pass == _SUM)) | done):
            m.d.sync += pause.eq(~done)

        counts = enters & (~row_end | (index < command.tail))
        flags = [Signal(_FLAGS, name="flags_0")]
        m.d.comb += [
            flags[0].largest.eq(counts & (of_pass == _LARGEST)),
            flags[0].adds.eq(counts & (of_pass == _SUM)),
            flags[0].results.eq(enters & (of_pass == _RESULTS)),
            flags[0].first.eq(first_vector & (index == 0)),
            flags[0].last.eq(ends & (of_pass == _SUM)),
        ]
        for cycle in range(self.LATENCY):
            later = Signal(_FLAGS, name=f"flags_{cycle + 1}")
            m.d.sync += later.eq(flags[-1])
            flags.append(later)
        byte = Signal(signed(8), reset_less=True)
        m.d.sync += byte.eq(Array(self.bytes)[index])
        return byte, flags

    def _below(self, m: Module, byte, flags):
        """Keep the largest byte; return how far a byte lies below it, one cycle later."""
        largest = Signal(signed(8), reset_less=True)
        below = Signal(8, reset_less=True)
        with m.If(flags.largest & (flags.first | (byte > largest))):
            m.d.sync += largest.eq(byte)
        m.d.sync += below.eq(largest - byte)
        return below

    def _gather(self, m: Module, arrives):
        """Make bytes of the lane's results, and beats of these."""
        lanes = self._config.lanes
        count = Signal(range(max(2, lanes)))
        last = count == lanes - 1
        # 256, which is one, becomes the largest byte.
        byte = Mux(self.product[8], 255, self.product[:8]) ^ 128
        with m.If(arrives):
            m.d.sync += [
                count.eq(Mux(last, 0, count + 1)),
                self.results.eq(Cat(self.results.as_value()[8:], byte[:8])),
            ]
        m.d.comb += self.emerging.eq(arrives & last)
