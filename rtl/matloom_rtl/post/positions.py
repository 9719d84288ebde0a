"""Generator of the positions of a POST: scratchpad addresses, accumulator entries, block ends."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom.arch.softmax import BATCH
from matloom_rtl.memory.bank_select import bank_select_of
from matloom_rtl.ports import body_layout
from matloom_rtl.post.layouts import position_layout

__all__ = ["Positions"]


class Positions(wiring.Component):
    """Generate the positions of a POST's vectors: by output block, then row, then column.

    With `whole_rows`, the order is by row, then block, and `last_block` is set for the last block
    of each row. Each batch of `BATCH` rows comes `passes` times; `block_end` is set for its last
    vector each time.

    `start` loads the geometry and shows the first position in the next cycle; `advance` moves to
    the next. Latency: one cycle from either. Throughput: one vector per cycle. Never stalls. Output
    after a reset is undefined until `start`.

    Parameters
    ----------
    passes: int
        How often each batch of `whole_rows` comes.
    pools: bool
        Whether positions can be `pooled`.

    Members
    -------
    pairs: in
        `entry` counts pairs of accumulator entries, `Config.pair_distance` apart: one block uses
        the first entry of each pair, the next block the second. Loaded at `start`. Only with narrow
        modes.
    start, advance: in
    address, entry, pitch, x_step, width, height, blocks: in
        Geometry, loaded at `start`.
    pooled: in
        Each position stands for 2 x 2 accumulator entries, in rows of ``2 * width`` entries, and is
        shown four times, once with each of them. `block_end` and `end` are set only with the
        fourth. Constant like `whole_rows`. Only with `pools`.
    whole_rows: in
        Constant from `start` until the last position. Only with `config.softmax`.
    size: in
        Binary logarithm of the element size in bytes. Only with multi-byte elements.
    position: out
        The current vector (`position_layout`).
    """

    def __init__(self, config: Config, passes: int = 1, pools: bool = False):
        self._config, self._columns, self._passes = config, config.columns, passes
        self._pools = pools
        self._pair_bits = config.pair_distance.bit_length() - 1 if config.has_narrow else None
        self._has_sizes = config.element_size_bits > 0
        self._at = position_layout(config)
        fields = body_layout(Opcode.POST, config)
        same = ("x_step", "width", "height", "pairs")
        names = {"pitch": "source_pitch", "blocks": "oc_blocks"} | {name: name for name in same}
        geometry = {
            name: In(fields[field].shape)
            for name, field in names.items()
            if field in fields.members
        }
        super().__init__(
            {
                **({"size": In(config.element_size_bits)} if self._has_sizes else {}),
                **({"whole_rows": In(1)} if config.softmax else {}),
                **({"pooled": In(1)} if pools else {}),
                "start": In(1),
                "advance": In(1),
                "address": In(self._at["address"].shape),
                "entry": In(self._at["entry"].shape),
                **geometry,
                "position": Out(self._at),
            }
        )

    def elaborate(self, platform):
        """Return the module: the loop counters, and the address and entry of each position."""
        m = Module()
        address, row_start, block_start, base, target = (
            Signal.like(self.address, name=name)
            for name in ("address", "row_start", "block_start", "base", "target")
        )
        entry = Signal.like(self.entry)
        step = Signal(max(len(self.pitch), len(self.x_step)))
        column = self._counter(m, "column", len(self.width))
        row = self._counter(m, "row", len(self.height))
        block = self._counter(m, "block", len(self.blocks))
        row_end = column["last"]
        repeats, batch_end, back = self._batches(m, row_end, row)
        block_end = Signal()
        width, blocks, x_step = self._nest()
        moves, of_block_end = self.advance, row_end & row["last"] & ~repeats
        if self._pools:
            last_entry, entry_step = self._step_in_block(m, row_end)
            moves, of_block_end = self.advance & last_entry, of_block_end & last_entry
        bank_select = Signal.like(self.position.bank_select)
        m.d.comb += [
            block_end.eq(of_block_end),
            target.eq(base + step),
            self.position.address.eq(address),
            self.position.bank_select.eq(bank_select),
            self.position.entry.eq(entry),
            self.position.block_end.eq(self._ends(block_end, row_end & batch_end)),
            self.position.last_block.eq(self._last_block(row_end, block["last"])),
            self.position.end.eq(block_end & block["last"]),
        ]
        with m.If(~row_end):
            m.d.comb += [base.eq(address), step.eq(x_step)]
        with m.Elif(~row["last"] | repeats):
            first = Mux(back, block_start, row_start) if self._config.softmax else row_start
            m.d.comb += [base.eq(first), step.eq(Mux(back, 0, self.pitch))]
        with m.Else():
            of_block = Const(self._columns) << self.size if self._has_sizes else self._columns
            m.d.comb += [base.eq(block_start), step.eq(of_block)]

        with m.If(moves):
            m.d.sync += [
                address.eq(target),
                bank_select.eq(self._bank_select(target)),
                entry.eq(entry + 1),
            ]
            with m.If(row_end):
                m.d.sync += row_start.eq(target)
            with m.If(self._ends(block_end, row_end & batch_end)):
                m.d.sync += block_start.eq(target)
        if self._pools:
            with m.If(self.advance):
                m.d.sync += entry.eq(entry + entry_step)
        with m.If(self.start):
            m.d.sync += [each.eq(self.address) for each in (address, row_start, block_start)]
            m.d.sync += [entry.eq(self.entry), bank_select.eq(self._bank_select(self.address))]
        self._count(m, column, width, moves)
        self._count(m, row, self.height, moves, row_end & ~repeats)
        self._count(m, block, blocks, moves, block_end)
        if self._pair_bits is not None:
            self._drive_entry(m, entry, block_end)
        return m

    def _step_in_block(self, m: Module, row_end):
        """Return whether an entry is the last of its position, and the step to the next entry.

        Without `pooled`, each position has one entry.
        """
        quarter = Signal(2)
        # From the second entry of a row of blocks to the first of the row below.
        below = Signal(len(self.width) + 1)
        m.d.sync += below.eq(Cat(Const(1, 1), self.width - 1))
        with m.If(self.advance & self.pooled):
            m.d.sync += quarter.eq(quarter + 1)
        with m.If(self.start):
            m.d.sync += quarter.eq(0)
        last = quarter == 3
        step = Signal(signed(len(below) + 1))
        m.d.comb += step.eq(1)
        with m.If(quarter == 1):
            m.d.comb += step.eq(below)
        with m.Elif(last & ~row_end):
            m.d.comb += step.eq(-below)
        return last | ~self.pooled, step

    def _nest(self):
        """Return the number of positions in a row, that of blocks, and the step within a row.

        With `whole_rows`, a row consists of the blocks, and there is one block in all.
        """
        if not self._config.softmax:
            return self.width, self.blocks, self.x_step
        whole = self.whole_rows
        return (
            Mux(whole, self.blocks, self.width),
            Mux(whole, 1, self.blocks),
            Mux(whole, self._columns, self.x_step),
        )

    def _last_block(self, row_end, last):
        """Return whether the position is in the last block, for whole rows that of its row."""
        return Mux(self.whole_rows, row_end, last) if self._config.softmax else last

    def _ends(self, block_end, batch_end):
        """Return whether the walk ends: after the last block, or for whole rows the last batch."""
        return Mux(self.whole_rows, batch_end, block_end) if self._config.softmax else block_end

    def _batches(self, m: Module, row_end, row: dict):
        """Return whether a row comes again, whether it ends its batch, and whether both hold.

        If both hold, the first row of the same batch follows.
        """
        if not self._config.softmax:
            return Const(0), Const(0), Const(0)
        of_batch = Signal(range(BATCH))
        number = Signal(range(max(2, self._passes)))
        repeats = self.whole_rows & (number != self._passes - 1)
        # Rows are counted in the last pass alone.
        last = Mux(repeats, row["left"] == of_batch, row["last"])
        batch_end = last | (of_batch == BATCH - 1)
        with m.If(self.advance & row_end):
            m.d.sync += of_batch.eq(Mux(batch_end, 0, of_batch + 1))
            with m.If(batch_end):
                m.d.sync += number.eq(Mux(repeats, number + 1, 0))
        with m.If(self.start):
            m.d.sync += [of_batch.eq(0), number.eq(0)]
        return repeats, batch_end, repeats & batch_end

    def _bank_select(self, address):
        """Return a bit for each bank, set if a vector at an address touches the bank."""
        return bank_select_of(address, self._columns, self._config)

    def _drive_entry(self, m: Module, entry, block_end):
        """Drive the accumulator entry of `position`.

        With `pairs`, two consecutive blocks use the same pairs of entries: the first block uses the
        first entry of each pair, the second block the second. `block_end` marks the last position
        of a block.
        """
        paired = Signal()
        second = Signal()
        first_entry = Signal.like(entry)
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
        """Return the signals of a loop counter: `left`, iterations after this one, and `last`."""
        return {"left": Signal(bits, name=f"{name}_left"), "last": Signal(name=f"{name}_last")}

    def _count(self, m: Module, counter: dict, total, moves, when=1):
        """Count down from `total` when `moves` and `when` are set; reload at the start and the end.

        A single subtractor does both: the selection of its operand goes into its carry cells.
        """
        before, left = Mux(self.start | counter["last"], total, counter["left"]), counter["left"]
        following = Signal.like(left, name=f"following_{left.name}")
        m.d.comb += following.eq(before - 1)
        with m.If(self.start | (moves & when)):
            m.d.sync += [left.eq(following), counter["last"].eq(following == 0)]
