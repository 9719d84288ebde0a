"""Writer of post-processing: sends results to the scratchpad or the accumulators."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Destination, Opcode, RowFunction, Table
from matloom_rtl.arith.stages import register
from matloom_rtl.memory.bank_select import bank_select_of
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.ports import (
    AccUpdateSignature,
    SpadWriteSignature,
    body_layout,
)
from matloom_rtl.post.lanes import PLACES
from matloom_rtl.post.layouts import position_layout, table_row_signature
from matloom_rtl.post.numbers import count_parts, numbers_layout

__all__ = ["Writer"]


#: Columns that share a read pointer.
_GROUP = 4


class Writer(wiring.Component):
    """Queue results until the memories accept them.

    Results are never refused, because the lanes accept a vector only if one of the `PLACES` is
    free. The beats of a vector are collected in a memory, from which the oldest vector goes to its
    destination, the current position.

    Latency: one cycle from the last beat to the request, or two at the scratchpad of an engine with
    multi-byte elements; the data follows the grant by one cycle. Throughput: one result per cycle,
    or one write per cycle for multi-byte elements. Stalls: requests hold until granted. Reset
    discards results and requests.

    Members
    -------
    command, numbers: in
        The command and its number formats (`Numbers`), constant from the first result until
        `waiting` falls after the last one.
    emerges, results: in
        One-hot: the beat of a vector whose results arrive; 32 bits per lane.
    position: in
        Destination of the oldest result (`position_layout`).
    advance: out
        A result leaves the queue in this cycle; show the next position.
    finished: out
        The result that leaves is the last of the command.
    waiting: out
        There are results whose writes are not yet granted.
    rows: stream of byte rows for a table, out
        Results that fill a table. Only with `config.fills_tables`.
    acc, spad: AccUpdateSignature, SpadWriteSignature, out
    """

    def __init__(self, config: Config):
        self._config = config
        self._beats = config.columns // config.lanes
        super().__init__(
            {
                "command": In(body_layout(Opcode.POST, config)),
                "numbers": In(numbers_layout(config)),
                "emerges": In(self._beats),
                "results": In(data.ArrayLayout(32, config.lanes)),
                "position": In(position_layout(config)),
                "advance": Out(1),
                "finished": Out(1),
                "waiting": Out(1),
                **({"rows": Out(table_row_signature(config))} if config.fills_tables else {}),
                "acc": Out(AccUpdateSignature(config)),
                "spad": Out(SpadWriteSignature(config.columns, config.spad_banks)),
            }
        )

    def elaborate(self, platform):
        """Return the module: a queue of results, and their writes to one of three destinations."""
        m = Module()
        config, command = self._config, self.command
        level = Signal(range(PLACES + 1))
        present = Signal()
        arrives = self.emerges[-1]
        taken = Signal()
        m.d.sync += [
            level.eq(level + arrives - taken),
            present.eq(arrives | (level > taken)),
        ]
        # These options need results one cycle before they leave.
        early = bool(config.fills_tables or config.element_size_bits)
        leaves = Signal()
        m.d.sync += leaves.eq(taken)
        values = Cat(self._keep(m, arrives, taken if early else leaves))
        leaving = register(m, values, "leaving") if early else values
        mask = Cat(
            ~self.position.last_block | (index < command.tail) for index in range(config.columns)
        )
        to_spad = command.destination == Destination.SPAD
        writes = present & to_spad
        if config.fills_tables:
            fills = to_spad & self._fills()
            writes = writes & ~fills
            m.d.comb += [
                self.rows.valid.eq(present & fills),
                self.rows.payload.eq(_narrowed(values, 8, config.table_row_bytes)),
            ]
        bytes_taken, bytes_wait = self._write_bytes(m, writes, (values, leaving), mask)
        if config.fills_tables:
            bytes_taken = Mux(fills, self.rows.ready, bytes_taken)
            # The last row is written when the next would be taken.
            bytes_wait |= fills & ~self.rows.ready
        m.d.comb += [
            self.acc.valid.eq(present & ~to_spad),
            self.acc.address.eq(self.position.entry),
            self.acc.add.eq(command.destination == Destination.ACC_ADD),
            self.acc.data.eq(leaving),
            self.acc.mask.eq(mask),
            taken.eq(present & Mux(to_spad, bytes_taken, self.acc.ready)),
            self.advance.eq(taken),
            self.finished.eq(taken & self.position.end),
            self.waiting.eq(present | bytes_wait),
        ]
        if config.has_float:
            m.d.comb += self.acc.floating.eq(self.numbers.floating)
        return m

    def _fills(self):
        """Return whether the command's results fill a table."""
        config, command = self._config, self.command
        fills = command.table == Table.FILL if config.tables else Const(0)
        if config.has_channel_tables:
            fills |= command.table == Table.FILL_EACH
        return fills | (command.softmax == RowFunction.FILL) if config.softmax else fills

    def _keep(self, m: Module, arrives, leaves):
        """Write beats into memories, one per column; return the values of the oldest vector.

        In the cycle after `leaves`, the values are those of the next vector. `arrives` is set with
        the last beat of a vector.
        """
        write_at = Signal(range(PLACES))
        m.d.sync += write_at.eq(write_at + arrives)
        oldest = []
        for column in range(self._config.columns):
            if column % _GROUP == 0:
                # One pointer for all would be far from most of the memories.
                read_at = Signal(range(PLACES), name=f"read_at_{column}", attrs={"keep": 1})
                m.d.sync += read_at.eq(read_at + leaves)
            beat, lane = divmod(column, self._config.lanes)
            memory = Memory(shape=32, depth=PLACES, init=[])
            m.submodules[f"results_{column}"] = memory
            write, read = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.emerges[beat]),
                write.addr.eq(write_at),
                write.data.eq(self.results[lane]),
                read.addr.eq(read_at),
            ]
            oldest.append(read.data)
        return oldest

    def _write_bytes(self, m: Module, writes, values, mask):
        """Write results to the scratchpad while `writes` is set.

        Return whether the oldest vector leaves, if `writes` is set, and whether a request waits
        for its grant. `values` is a pair: the vector to write, and the vector whose write was
        granted in the previous cycle.
        """
        config, spad, (values, leaving) = self._config, self.spad, values
        address, columns = self.position.address, config.columns
        if not config.element_size_bits:
            m.d.comb += [
                spad.valid.eq(writes),
                spad.address.eq(address),
                spad.bank_select.eq(self.position.bank_select),
                spad.data.eq(_narrowed(leaving, 8, columns)),
                spad.mask.eq(mask),
            ]
            return spad.ready, 0
        # Computed in parts, each known a cycle before the arbiter sees it.
        request = {"address": len(address), "bank_select": config.spad_banks}
        layout = data.StructLayout({**request, "data": 8 * columns, "mask": columns})
        m.submodules.parts = parts = SkidBuffer(layout, registered=tuple(request))
        ask, shown = parts.i, parts.o
        part, last = count_parts(m, self.numbers.size, ask.valid & ask.ready, "written")
        part_address = Signal.like(address)
        m.d.comb += [
            part_address.eq(address + part * columns),
            ask.valid.eq(writes),
            ask.payload.address.eq(part_address),
            ask.payload.bank_select.eq(bank_select_of(part_address, columns, config)),
            spad.valid.eq(shown.valid),
            shown.ready.eq(spad.ready),
            spad.data.eq(register(m, shown.payload.data, "data")),
            *(getattr(spad, name).eq(shown.payload[name]) for name in (*request, "mask")),
        ]
        with m.Switch(self.numbers.size):
            for size in range(config.element_size_bits + 1):
                with m.Case(size):
                    packed = _narrowed(values, 8 << size, columns)
                    masks = Cat(bit.replicate(1 << size) for bit in mask)
                    m.d.comb += [
                        ask.payload.data.eq(packed.word_select(part, 8 * columns)),
                        ask.payload.mask.eq(masks.word_select(part, columns)),
                    ]
        return ask.ready & last, shown.valid


def _narrowed(words, bits: int, count: int):
    """Return the low `bits` of each of the first `count` 32-bit words, concatenated."""
    return Cat(words.word_select(index, 32)[:bits] for index in range(count))
