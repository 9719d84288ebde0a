"""Reference for the order of SOFTMAX's elements: passes over batches of rows, vector by vector."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal

from matloom.arch.softmax import BATCH
from matloom_rtl.post.softmax import Softmax

__all__ = ["RowOrder"]


class RowOrder:
    """The order of elements in three passes over each batch of rows, written as a program.

    Members
    -------
    index, vector, row, number:
        Index of the next group of elements in its vector, of the vector in its row, of the row in
        its batch, and of the pass.
    waits:
        No vector enters, because the largest bytes or the reciprocals are not available yet.
    left:
        Remaining cycles until the largest bytes are available; 0 if they are.
    since:
        Cycles since reciprocals were done, saturating.
    enters, taken:
        Whether a group of elements enters, and whether it is the last of its vector.
    row_end, ends:
        Whether the vector is the last of its row; whether a pass ends in this cycle.
    now, given:
        Flags of the elements that enter, and their bytes.
    """

    def __init__(self, m: Module, unit: Softmax, done):
        ways, command = unit._ways, unit.command
        steps = len(unit.bytes) // ways
        self.index = Signal(range(steps + 1))
        self.vector = Signal.like(command.oc_blocks)
        self.row = Signal(range(BATCH))
        self.number = Signal(range(4))
        self.waits = Signal()
        self.since = Signal(3, init=7)
        left = Signal(range(8))
        self.enters = unit.active & ((self.index != 0) | (unit.valid & unit.place & ~self.waits))
        self.taken = self.enters & (self.index == steps - 1)
        row_end = (self.vector + 1)[: len(self.vector)] == command.oc_blocks
        ends = self.taken & unit.ends
        counts = (~row_end | (self.index * ways + way < command.tail) for way in range(ways))
        self.now = Signal(unit._flags_layout())
        m.d.comb += [
            *(
                getattr(self.now, name).eq(self.enters & (self.number == number))
                for number, name in enumerate(("largest", "sums", "results"))
            ),
            self.now.first.eq((self.vector == 0) & (self.index == 0)),
            self.now.ends.eq(ends),
            self.now.row.eq(self.row),
            self.now.counts.eq(Cat(counts)),
        ]
        groups = (unit.bytes.as_value().word_select(n, 8 * ways) for n in range(steps))
        self.given = Array(groups)[self.index]
        m.d.sync += self.since.eq(Mux(done, 1, self.since + ~self.since.all()))
        with m.If(self.enters):
            m.d.sync += self.index.eq(Mux(self.taken, 0, self.index + 1))
        with m.If(unit.start):
            m.d.sync += [self.vector.eq(0), self.row.eq(0)]
        with m.Elif(ends):
            m.d.sync += [self.vector.eq(0), self.row.eq(0)]
            m.d.sync += self.number.eq(Mux(self.number == 2, 0, self.number + 1))
        with m.Elif(self.taken):
            m.d.sync += self.vector.eq(Mux(row_end, 0, self.vector + 1))
            m.d.sync += self.row.eq(self.row + row_end)
        pause = unit.compare_pause(ways)
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.If((left == 1) | done):
            m.d.sync += self.waits.eq(0)
        with m.If(ends & (self.number == 1)):
            m.d.sync += self.waits.eq(1)
        if pause:
            with m.If(ends & (self.number == 0)):
                m.d.sync += [self.waits.eq(1), left.eq(pause)]
        self.left, self.row_end, self.ends = left, row_end, ends
        self.left_vectors = (command.oc_blocks - self.vector)[: len(self.vector)]
        self.busy = Cat(self.index, self.vector, self.row, self.number).any() | self.enters
