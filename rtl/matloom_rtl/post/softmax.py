"""SOFTMAX of rows of bytes, `config.softmax` elements per cycle, by the multipliers of lanes."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom.arch.softmax import BATCH
from matloom_rtl.arith.stages import reduce_in_pairs, reduction_latency
from matloom_rtl.ports import body_layout
from matloom_rtl.post.exponentials import Exponentials
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.layouts import table_row_signature
from matloom_rtl.post.reciprocals import Reciprocals

__all__ = ["Softmax"]

#: Passes over a batch: find the largest bytes, sum the exponentials, compute the results.
_LARGEST, _SUM, _RESULTS = range(3)


class Softmax(wiring.Component):
    """Compute the SOFTMAX of rows of bytes (`matloom.arch.softmax`), in three passes over each.

    The vectors of a batch of up to `BATCH` rows come three times. In each cycle `config.softmax`
    elements of a vector enter, whether they count or not. The first pass finds the largest byte of
    each row, the second adds the exponentials of the differences from it, and the third multiplies
    the exponentials by the reciprocals of their sums. `config.softmax` lanes, which are otherwise
    idle, do the multiplications.

    Latency: from the last elements of a beat in the third pass to `emerging`, `LATENCY` cycles.
    Throughput: `config.softmax` elements per cycle, but for pauses after the first pass
    (`compare_pause`) and the second (`pause`); the next batch follows without a gap. Stalls:
    elements wait for their vector, and the first of a vector for `place`. Reset discards a batch in
    progress; the table survives it.

    Members
    -------
    command: in
        Constant from `start` until the last result is out.
    start: in
        First cycle of a command.
    active: in
        The command is a SOFTMAX, so that its vectors are for this unit.
    valid, bytes, ends, taken: in, in, in, out
        The next vector, whether it ends a pass over its batch, and whether it is taken.
    place: in
        There is room for the results of a vector.
    begins: out
        The first elements of a vector of the third pass enter, so that its results take a place.
    values, multiplier, shift: out
        Value of each lane, with their common shift and multiplier. The multiplier is that of the
        values `Lane.MULTIPLIER_DELAY` cycles earlier.
    products: in
        The lanes' results, `Lane.LATENCY` cycles after the values.
    emerging, results: out
        In the cycle after `emerging`, `results` holds a beat: one byte for each lane.
    rows: stream of byte rows for the table of exponentials, in
    """

    #: How often the vectors of a batch come.
    PASSES = 3

    #: Cycles from an element to the input of its lane, and to `emerging`.
    TO_LANE = 3
    LATENCY = TO_LANE + Lane.LATENCY

    def __init__(self, config: Config):
        self._config, self._ways = config, config.softmax
        super().__init__(
            {
                "command": In(body_layout(Opcode.POST, config)),
                "start": In(1),
                "active": In(1),
                "valid": In(1),
                "bytes": In(data.ArrayLayout(8, config.columns)),
                "ends": In(1),
                "taken": Out(1),
                "place": In(1),
                "begins": Out(1),
                "values": Out(data.ArrayLayout(signed(32), self._ways)),
                "multiplier": Out(31),
                "shift": Out(signed(6)),
                "products": In(data.ArrayLayout(signed(32), self._ways)),
                "emerging": Out(1),
                "results": Out(data.ArrayLayout(8, config.lanes)),
                "rows": In(table_row_signature(config)),
            }
        )

    @staticmethod
    def compare_pause(ways: int) -> int:
        """Return the number of idle cycles between the first pass over a batch and the second."""
        return reduction_latency(ways)

    @staticmethod
    def pause(rows: int, ways: int) -> int:
        """Return the number of idle cycles between the second pass over a batch and the third."""
        return Softmax.TO_LANE + Reciprocals.cycles(rows, ways)

    def elaborate(self, platform):
        """Return the module: passes over rows, table of exponentials, and reciprocals."""
        m = Module()
        m.submodules.exponentials = exponentials = Exponentials(self._config)
        m.submodules.reciprocals = reciprocals = Reciprocals(self._ways)
        wiring.connect(m, wiring.flipped(self.rows), exponentials.rows)
        given, flags = self._walk(m, reciprocals.done)
        below = self._below(m, given, flags)
        there = flags[self.TO_LANE]
        m.d.comb += [
            exponentials.start.eq(self.start),
            *(exponentials.index[way].eq(below[way]) for way in range(self._ways)),
            reciprocals.exponentials.eq(exponentials.value),
            reciprocals.adds.eq(there.counts),
            reciprocals.last.eq(there.ends),
            *(getattr(reciprocals, name).eq(there[name]) for name in ("sums", "first", "row")),
            reciprocals.product.eq(self.products[0]),
            self.shift.eq(reciprocals.shift),
            self.multiplier.eq(reciprocals.multiplier),
        ]
        for way in range(self._ways):
            value = Mux(reciprocals.vanishes, 0, exponentials.value[way])
            if way == 0:
                value = Mux(reciprocals.busy, reciprocals.operand, value)
            m.d.comb += self.values[way].eq(value)
        self._gather(m, flags[self.LATENCY].results)
        return m

    def _walk(self, m: Module, done):
        """Take the elements of vectors, a group per cycle; return them a cycle later, with flags.

        Item n of the list of flags describes the elements that entered n cycles ago.
        """
        config, command, ways = self._config, self.command, self._ways
        steps = config.columns // ways
        index = Signal(range(max(2, steps)))
        left = Signal.like(command.oc_blocks)
        first_vector = Signal()
        row = Signal(range(BATCH))
        of_pass = Signal(range(3))
        pause = Signal()
        enters = Signal()
        row_end = left == 1
        ends = self.taken & self.ends
        m.d.comb += [
            # A vector that has entered stays valid until its last elements.
            enters.eq(self.active & ((index != 0) | (self.valid & self.place & ~pause))),
            self.taken.eq(enters & (index == steps - 1)),
            self.begins.eq(enters & (index == 0) & (of_pass == _RESULTS)),
        ]
        with m.If(enters):
            m.d.sync += index.eq(Mux(self.taken, 0, index + 1))
        with m.If(self.start | self.taken):
            renewed = self.start | row_end
            m.d.sync += [
                left.eq(Mux(renewed, command.oc_blocks, left - 1)),
                first_vector.eq(renewed),
            ]
        with m.If(self.start | ends):
            m.d.sync += row.eq(0)
        with m.Elif(self.taken & row_end):
            m.d.sync += row.eq(row + 1)
        with m.If(ends):
            m.d.sync += of_pass.eq(Mux(of_pass == _RESULTS, _LARGEST, of_pass + 1))

        flags = [Signal(self._flags_layout(), name="flags_0")]
        counts = (~row_end | (index * ways + way < command.tail) for way in range(ways))
        m.d.comb += [
            flags[0].largest.eq(enters & (of_pass == _LARGEST)),
            flags[0].sums.eq(enters & (of_pass == _SUM)),
            flags[0].results.eq(enters & (of_pass == _RESULTS)),
            flags[0].first.eq(first_vector & (index == 0)),
            flags[0].ends.eq(ends),
            flags[0].row.eq(row),
            flags[0].counts.eq(Cat(counts)),
        ]
        for cycle in range(self.LATENCY):
            later = Signal(self._flags_layout(), name=f"flags_{cycle + 1}")
            m.d.sync += later.eq(flags[-1])
            flags.append(later)
        compared = flags[self.compare_pause(ways)]
        with m.If(ends & (of_pass != _RESULTS)):
            m.d.sync += pause.eq(1)
        with m.If((compared.largest & compared.ends) | done):
            m.d.sync += pause.eq(0)
        given = Signal(data.ArrayLayout(signed(8), ways), reset_less=True)
        m.d.sync += given.eq(
            Array(self.bytes.as_value().word_select(step, 8 * ways) for step in range(steps))[index]
        )
        return given, flags

    def _flags_layout(self) -> data.StructLayout:
        """Return the layout of the flags that accompany elements through the pipeline.

        One of `largest`, `sums` and `results` names their pass, or none if no elements entered.
        `counts` is a mask of the elements that are not beyond the end of the row.
        """
        names = ("largest", "sums", "results", "first", "ends")
        return data.StructLayout(
            {**dict.fromkeys(names, 1), "row": range(BATCH), "counts": self._ways}
        )

    def _below(self, m: Module, given, flags: list) -> list:
        """Store the largest byte of each row; return how far each `given` byte is below it."""
        counting = [
            Mux(flags[1].counts[way], given[way], -128).as_signed() for way in range(self._ways)
        ]
        found = reduce_in_pairs(m, counting, lambda a, b: Mux(a > b, a, b), "largest")
        here = flags[1 + self.compare_pause(self._ways)]
        before = Signal(signed(8), reset_less=True)
        largest = Signal(signed(8))
        memory = Memory(shape=signed(8), depth=BATCH, init=[])
        m.submodules.largest = memory
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.d.comb += [
            largest.eq(Mux(here.first | (found > before), found, before)),
            write.en.eq(here.largest),
            write.addr.eq(here.row),
            write.data.eq(largest),
            read.addr.eq(flags[1].row),
        ]
        with m.If(here.largest):
            m.d.sync += before.eq(largest)
        below = []
        for way in range(self._ways):
            difference = Signal(8, name=f"below_{way}", reset_less=True)
            m.d.sync += difference.eq(read.data - given[way])
            below.append(difference)
        return below

    def _gather(self, m: Module, arrives):
        """Convert the lanes' results to signed bytes, and pack the bytes into beats."""
        beats = self._config.lanes // self._ways
        count = Signal(range(max(2, beats)))
        last = count == beats - 1
        # 256, which is one, becomes the largest byte.
        results = Cat(
            (Mux(product[8], 255, product[:8]) ^ 128)[:8]
            for product in (self.products[way] for way in range(self._ways))
        )
        with m.If(arrives):
            m.d.sync += [
                count.eq(Mux(last, 0, count + 1)),
                self.results.eq(Cat(self.results.as_value()[8 * self._ways :], results)),
            ]
        m.d.comb += self.emerging.eq(arrives & last)
