"""Walks over the vectors of a POST: byte address, accumulator entry, and where blocks end."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.ports import ACC_ADDRESS_BITS, SPAD_ADDRESS_BITS

__all__ = ["Positions"]


class Positions(wiring.Component):
    """Give one vector after another, output block outermost, then row, then column.

    `start` takes the geometry and shows the first vector in the next cycle; `advance` moves on.

    Members
    -------
    pairs: in
        Entries are numbers of pairs, of which blocks take the first and the second in turn; taken
        at `start`, where narrow modes are built.
    start, advance: in
    address, entry, pitch, x_step, width, height, blocks: in
        Geometry, taken at `start`.
    size: in
        Logarithm of the bytes of an element; where there are others than bytes.
    at_address, at_entry: out
        The vector at hand.
    block_end, end: out
        It is the last of its block, of all.
    last_block: out
        It belongs to the last block.
    """

    def __init__(self, config: Config):
        self._columns = config.columns
        self._pair_bits = config.pair_distance.bit_length() - 1 if config.has_narrow else None
        self._has_sizes = config.element_size_bits > 0
        super().__init__(
            {
                **({"size": In(config.element_size_bits)} if self._has_sizes else {}),
                "start": In(1),
                "advance": In(1),
                "address": In(SPAD_ADDRESS_BITS),
                "entry": In(ACC_ADDRESS_BITS),
                "pitch": In(20),
                "x_step": In(16),
                "width": In(12),
                "height": In(12),
                "blocks": In(12),
                "at_address": Out(SPAD_ADDRESS_BITS),
                "at_entry": Out(ACC_ADDRESS_BITS),
                "block_end": Out(1),
                "end": Out(1),
                "last_block": Out(1),
                **({"pairs": In(1)} if config.has_narrow else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        row_start, block_start = Signal(SPAD_ADDRESS_BITS), Signal(SPAD_ADDRESS_BITS)
        base, step, target = (
            Signal(SPAD_ADDRESS_BITS),
            Signal(20),
            Signal(SPAD_ADDRESS_BITS),
        )
        column, row = self._counter(m, "column", 12), self._counter(m, "row", 12)
        block = self._counter(m, "block", 12)
        row_end = column["last"]
        m.d.comb += [
            self.block_end.eq(row_end & row["last"]),
            self.last_block.eq(block["last"]),
            self.end.eq(self.block_end & self.last_block),
            target.eq(base + step),
        ]
        with m.If(~row_end):
            m.d.comb += [base.eq(self.at_address), step.eq(self.x_step)]
        with m.Elif(~row["last"]):
            m.d.comb += [base.eq(row_start), step.eq(self.pitch)]
        with m.Else():
            width = Const(self._columns) << self.size if self._has_sizes else self._columns
            m.d.comb += [base.eq(block_start), step.eq(width)]

        entry = self.at_entry
        if self._pair_bits is not None:
            entry = Signal(ACC_ADDRESS_BITS)
        with m.If(self.advance):
            m.d.sync += [self.at_address.eq(target), entry.eq(entry + 1)]
            self._count(m, column, self.width, 1)
            self._count(m, row, self.height, row_end)
            self._count(m, block, self.blocks, self.block_end)
            with m.If(row_end):
                m.d.sync += row_start.eq(target)
            with m.If(self.block_end):
                m.d.sync += block_start.eq(target)
        with m.If(self.start):
            m.d.sync += [
                each.eq(self.address) for each in (self.at_address, row_start, block_start)
            ]
            m.d.sync += entry.eq(self.entry)
            for counter, total in ((column, self.width), (row, self.height), (block, self.blocks)):
                m.d.sync += [counter["left"].eq(total - 1), counter["last"].eq(total == 1)]
        if self._pair_bits is not None:
            self._take_turns(m, entry)
        return m

    def _take_turns(self, m: Module, entry):
        """Go over the entries of a block a second time, and choose between those of the pairs."""
        paired, second, first_entry = Signal(), Signal(), Signal.like(entry)
        with m.If(self.advance & self.block_end & paired):
            m.d.sync += second.eq(~second)
            with m.If(second):
                m.d.sync += first_entry.eq(entry + 1)
            with m.Else():
                m.d.sync += entry.eq(first_entry)
        with m.If(self.start):
            m.d.sync += [paired.eq(self.pairs), second.eq(0), first_entry.eq(self.entry)]
        of_pair = Cat(entry[: self._pair_bits], second, entry[self._pair_bits :])
        m.d.comb += self.at_entry.eq(Mux(paired, of_pair, entry))

    def _counter(self, m: Module, name: str, bits: int) -> dict:
        return {"left": Signal(bits, name=f"{name}_left"), "last": Signal(name=f"{name}_last")}

    def _count(self, m: Module, counter: dict, total, when):
        """Count down, and begin again behind the last."""
        with m.If(when):
            with m.If(counter["last"]):
                m.d.sync += [counter["left"].eq(total - 1), counter["last"].eq(total == 1)]
            with m.Else():
                m.d.sync += [
                    counter["left"].eq(counter["left"] - 1),
                    counter["last"].eq(counter["left"] == 1),
                ]
