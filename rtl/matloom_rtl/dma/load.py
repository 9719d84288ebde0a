"""LOAD unit: copies external memory, or a constant byte, to the scratchpad."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom.arch.isa import Opcode, Region
from matloom_rtl.bus.axi import AxiReadSignature
from matloom_rtl.dma.bursts import Bursts, beat_address_bits, burst_layout
from matloom_rtl.dma.rows import Rows, reads_constants
from matloom_rtl.dma.spread import Spread, piece_layout
from matloom_rtl.memory.bank_select import bank_select_of
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.memory.stream_register import StreamRegister
from matloom_rtl.ports import (
    LOADS_AHEAD,
    SPAD_WRITE_LATENCY,
    CommandSignature,
    FaultSignature,
    SpadWriteSignature,
)

__all__ = ["Load"]

#: Maximum number of bursts in the pipeline besides those in flight: a row, a burst, pieces, two
#: writes, and the latency of a write.
_STAGES = 5 + SPAD_WRITE_LATENCY


class Load(wiring.Component):
    """DMA reader: issues read bursts, and writes their beats unaligned under a mask.

    Addresses run ahead of data, across rows, planes and instructions; a queue of `outstanding`
    bursts records the destination of their beats. Beat k of a row whose first byte is byte m of a
    beat is written to ``row address - m + k * bus_bytes`` under a mask of the row's bytes, so
    nothing is shifted. A fill is a burst that generates its own beats. Only beats of spread rows go
    through `Spread`.

    Latency: `ar` follows an instruction by 4 cycles; a write follows its beat by 1, or 2 in a
    spread row; `done` comes `SPAD_WRITE_LATENCY` after the grant of the last write, when that is
    visible. Instructions complete in order.
    Throughput: one beat per cycle, at most one row in two cycles. A beat of a spread row takes
    1 << spread cycles, less for bytes beyond the row's end. At most `outstanding` bursts are in
    flight per memory latency, which limits short rows only.
    Stalls: `r.ready` falls with a refused write; `ar` waits for room in the queue.

    Members
    -------
    unit: CommandSignature(LOAD), in
        Instructions and their completion. `busy` is set from the cycle in which an instruction is
        shown until it is done.
    region, region_base: out, in
        As in `Rows`.
    axi: AxiReadSignature, out
        The id is 0; `SharedReadPort` replaces it.
    spad_write: SpadWriteSignature, out
        Writes as wide as a beat. A halt withdraws a refused one.
    halt: in
        Issue no new address and drop incoming data, until reset.
    quiet: out
        No address is pending and no burst is in flight.
    constants: out
        The current burst reads constants, or if nothing is in progress, the instruction shown does.
    fault: FaultSignature, out
        AXI_READ and the burst's address for each beat with an error, one cycle after the beat.
    fault_ahead: out
        With a fault: number of instructions before the faulty one that were not done before this
        cycle.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "unit": In(CommandSignature(Opcode.LOAD, config)),
                "region": Out(range(len(Region))),
                "region_base": In(32),
                "axi": Out(AxiReadSignature(config.bus_bits)),
                "spad_write": Out(SpadWriteSignature(config.bus_bytes, config.spad_banks)),
                "halt": In(1),
                "quiet": Out(1),
                "constants": Out(1),
                "fault": Out(FaultSignature()),
                "fault_ahead": Out(range(LOADS_AHEAD + 1)),
            }
        )

    def elaborate(self, platform):
        """Return the module: row and burst generators, a queue of bursts, and scratchpad writes."""
        m = Module()
        config = self._config
        m.submodules.rows = rows = Rows(Opcode.LOAD, config)
        m.submodules.bursts = bursts = Bursts(config)
        layout = burst_layout(config)
        m.submodules.queue = queue = SyncFIFO(width=layout.size, depth=config.outstanding)
        # The head of the queue is registered, because much logic depends on it.
        m.submodules.head = head = StreamRegister(layout)
        connect(m, flipped(self.unit.command), rows.i)
        connect(m, rows.o, bursts.i)
        m.d.comb += [
            rows.region_base.eq(self.region_base),
            self.region.eq(rows.region),
            head.i.valid.eq(queue.r_rdy),
            head.i.payload.eq(queue.r_data),
            queue.r_en.eq(head.i.ready),
        ]

        self._address(m, bursts.o, queue, head.o)
        granted_last = self._data(m, head.o)
        under_way = self._complete(m, granted_last)
        self._drive_constants(m, head.o, under_way | rows.o.valid)
        return m

    def _address(self, m: Module, burst, queue, head):
        """Send bursts to the bus and to the queue at the same time."""
        ar = self.axi.ar
        move = Signal()
        address = Signal.like(ar.payload, reset_less=True)
        queued = Signal(range(self._config.outstanding + 1))
        m.d.sync += queued.eq(queued + move - (head.valid & head.ready))
        m.d.comb += [
            burst.ready.eq(
                (queued != self._config.outstanding) & ~self.halt & (burst.payload.fill | ~ar.valid)
            ),
            move.eq(burst.valid & burst.ready),
            queue.w_en.eq(move),
            queue.w_data.eq(burst.payload),
            self.quiet.eq(~ar.valid & (queued == 0)),
            ar.payload.eq(address),
        ]
        with m.If(ar.ready):
            m.d.sync += ar.valid.eq(0)
        with m.If(move & ~burst.payload.fill):
            m.d.sync += [
                ar.valid.eq(1),
                address.addr.eq(burst.payload.address),
                address.len.eq(burst.payload.len),
            ]

    def _data(self, m: Module, head):
        """Convert the bus's read data into writes to the scratchpad.

        `head` is the oldest LOAD whose data are still to come. Return whether the last write of an
        instruction is granted, and its timestamp.
        """
        beats, write = self.axi.r, self.spad_write
        config, piece = self._config, piece_layout(self._config)
        # The scratchpad's arbiter is far away.
        m.submodules.writes = writes = SkidBuffer(
            data.StructLayout({**piece.members, "bank_select": config.spad_banks}),
            registered=("bank_select",),
        )
        m.d.comb += [
            writes.i.payload.bank_select.eq(
                bank_select_of(writes.i.payload.address, config.bus_bytes, config)
            ),
        ]
        o = writes.o
        m.d.comb += [
            write.valid.eq(o.valid & ~self.halt),
            write.address.eq(o.payload.address.as_signed()),
            write.bank_select.eq(o.payload.bank_select),
            write.mask.eq(o.payload.mask),
            o.ready.eq(write.ready | self.halt),
        ]
        # One cycle after the grant, when the buffer already shows the next write.
        granted = Signal.like(o.payload.data, reset_less=True)
        m.d.sync += granted.eq(o.payload.data)
        m.d.comb += write.data.eq(granted)
        take, ended = self._beat(m, head, writes.i)
        # Instructions whose beats have all arrived and that are not done.
        ahead = Signal.like(self.fault_ahead)
        m.d.sync += [
            ahead.eq(ahead + ended - self.unit.done),
            self.fault_ahead.eq(ahead - self.unit.done),
            self.fault.valid.eq(beats.valid & beats.ready & beats.payload.resp[1]),
            self.fault.cause.eq(Fault.AXI_READ),
            self.fault.address.eq(head.payload.address),
        ]
        m.d.sync += self.unit.progress.eq(take | (write.valid & write.ready))
        return write.valid & write.ready & o.payload.last, o.payload.timestamp

    def _beat(self, m: Module, head, i):
        """Offer a write for each beat, or for its pieces.

        Return whether a beat is taken, and whether it is an instruction's last.
        """
        beats, burst, width = self.axi.r, head.payload, self._config.bus_bytes
        number = Signal(8)
        begins = Signal(init=1)
        address = Signal(beat_address_bits(self._config), reset_less=True)
        shown = Signal()
        room = Signal()
        take = Signal()
        final = Signal()
        if self._config.element_stride:
            beat, free, offer = self._pieces(m, burst, i, shown, begins, final)
        else:
            beat, free, offer = i.payload, i.ready, [i.valid.eq(shown & ~self.halt)]
        m.d.comb += [
            room.eq(free),
            beats.ready.eq(head.valid & ~burst.fill & room),
            shown.eq(head.valid & (burst.fill | beats.valid)),
            take.eq(shown & room),
            final.eq(number == burst.len),
            head.ready.eq(take & final),
            beat.address.eq(Mux(begins, burst.spad, address)),
            beat.data.eq(Mux(burst.fill, burst.fill_value.replicate(width), beats.payload.data)),
            beat.mask.eq(
                Cat(
                    (~begins | (burst.first <= index)) & (~final | (burst.final >= index))
                    for index in range(width)
                )
            ),
            beat.last.eq(burst.last & final),
            beat.timestamp.eq(burst.timestamp),
            *offer,
        ]
        with m.If(take):
            m.d.sync += [
                number.eq(Mux(final, 0, number + 1)),
                begins.eq(final),
                address.eq(beat.address + width),
            ]
        return take, take & beat.last

    def _pieces(self, m: Module, burst, i, shown, begins, final):
        """Add `Spread`, which splits beats of spread rows into several writes, the pieces.

        Returns the payload of the beat for the caller to drive, a flag that a beat may be taken,
        and a list of connections.

        Parameters
        ----------
        burst:
            The burst of the beat.
        i:
            Stream of writes, to which beats and pieces go.
        shown, begins, final:
            There is a beat; it is the first of its burst; it is the last.
        """
        m.submodules.spread = spread = Spread(self._config)
        beat, piece = spread.i.payload, spread.o.payload
        spreads = burst.spread.any()
        # Pieces have priority over beats, and wait for nothing that beats do not wait for.
        free = i.ready & ~(spread.o.valid & ~(spreads & spread.i.ready))
        return (
            beat,
            free,
            [
                beat.begin.eq(burst.begin & begins),
                beat.spread.eq(burst.spread),
                beat.top.eq(Mux(final, burst.final, self._config.bus_bytes - 1)),
                spread.i.valid.eq(shown & spreads & i.ready),
                spread.o.ready.eq(i.ready),
                i.valid.eq((spread.o.valid | (shown & ~spreads)) & ~self.halt),
                *(
                    i.payload[name].eq(Mux(spread.o.valid, piece[name], beat[name]))
                    for name in piece.shape().members
                ),
            ],
        )

    def _complete(self, m: Module, granted_last):
        """Report completions when the last write is visible; return whether any are pending.

        `granted_last` is a pair: the grant of an instruction's last write, and its timestamp.
        """
        done, timestamp = granted_last
        for _stage in range(SPAD_WRITE_LATENCY):
            done_next = Signal()
            mark_next = Signal.like(timestamp, reset_less=True)
            m.d.sync += [done_next.eq(done), mark_next.eq(timestamp)]
            done, timestamp = done_next, mark_next
        command = self.unit.command
        started = command.valid & command.ready
        under_way = Signal(range(self._config.outstanding + _STAGES + 1))
        m.d.sync += under_way.eq(under_way + started - done)
        m.d.comb += [
            self.unit.done.eq(done),
            self.unit.done_mark.eq(timestamp),
            # A command is taken with its last row.
            self.unit.busy.eq((under_way != 0) | command.valid),
        ]
        return under_way != 0

    def _drive_constants(self, m: Module, head, holds):
        """Drive `constants`, which keeps its value between bursts while `holds` is set."""
        command = self.unit.command.payload
        with m.If(head.valid):
            m.d.sync += self.constants.eq(head.payload.constant)
        with m.Elif(~holds):
            m.d.sync += self.constants.eq(reads_constants(command))
