"""Walks over the vectors of a POST: byte address, accumulator entry, and where blocks end."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.ports import ACC_ADDRESS_BITS, SPAD_ADDRESS_BITS
from matloom_rtl.post.layouts import position_layout

__all__ = ["Positions"]


class Positions(wiring.Component):
    """Give one vector after another, output block outermost, then row, then column.

    `start` takes the geometry and shows the first vector in the next cycle; `advance` moves on.
    Latency: one cycle from either. Throughput: a vector a cycle. No stalls of its own. After a
    reset it shows nothing of use until `start`.

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
    position: out
        The vector at hand (`position_layout`).
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
                "position": Out(position_layout()),
                **({"pairs": In(1)} if config.has_narrow else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        address, entry = Signal(SPAD_ADDRESS_BITS), Signal(ACC_ADDRESS_BITS)
        row_start, block_start = Signal(SPAD_ADDRESS_BITS), Signal(SPAD_ADDRESS_BITS)
        base, step, target = (
            Signal(SPAD_ADDRESS_BITS),
            Signal(20),
            Signal(SPAD_ADDRESS_BITS),
        )
        column, row = self._counter(m, "column", 12), self._counter(m, "row", 12)
        block = self._counter(m, "block", 12)
        row_end, block_end = column["last"], Signal()
        m.d.comb += [
            block_end.eq(row_end & row["last"]),
            target.eq(base + step),
            self.position.address.eq(address),
            self.position.entry.eq(entry),
            self.position.block_end.eq(block_end),
            self.position.last_block.eq(block["last"]),
            self.position.end.eq(block_end & block["last"]),
        ]
        with m.If(~row_end):
            m.d.comb += [base.eq(address), step.eq(self.x_step)]
        with m.Elif(~row["last"]):
            m.d.comb += [base.eq(row_start), step.eq(self.pitch)]
        with m.Else():
            width = Const(self._columns) << self.size if self._has_sizes else self._columns
            m.d.comb += [base.eq(block_start), step.eq(width)]

        with m.If(self.advance):
            m.d.sync += [address.eq(target), entry.eq(entry + 1)]
            self._count(m, column, self.width, 1)
            self._count(m, row, self.height, row_end)
            self._count(m, block, self.blocks, block_end)
            with m.If(row_end):
                m.d.sync += row_start.eq(target)
            with m.If(block_end):
                m.d.sync += block_start.eq(target)
        with m.If(self.start):
            m.d.sync += [each.eq(self.address) for each in (address, row_start, block_start)]
            m.d.sync += entry.eq(self.entry)
            for counter, total in ((column, self.width), (row, self.height), (block, self.blocks)):
                m.d.sync += [counter["left"].eq(total - 1), counter["last"].eq(total == 1)]
        if self._pair_bits is not None:
            self._take_turns(m, entry, block_end)
        return m

    def _take_turns(self, m: Module, entry, block_end):
        """Go over the entries of a block a second time, and choose between those of the pairs."""
        paired, second, first_entry = Signal(), Signal(), Signal.like(entry)
        with m.If(self.advance & block_end & paired):
            m.d.sync += second.eq(~second)
            with m.If(second):
                m.d.sync += first_entry.eq(entry + 1)
            with m.Else():
                m.d.sync += entry.eq(first_entry)
        with m.If(self.start):
            m.d.sync += [paired.eq(self.pairs), second.eq(0), first_entry.eq(self.entry)]
        of_pair = Cat(entry[: self._pair_bits], second, entry[self._pair_bits :])
        m.d.comb += self.position.entry.eq(Mux(paired, of_pair, entry))

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
