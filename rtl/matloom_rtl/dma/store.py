"""STORE unit: copies the scratchpad to external memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.config import Config
from matloom.arch.csr import Fault
from matloom.arch.isa import Opcode, Region
from matloom_rtl.bus.axi import AxiWriteSignature
from matloom_rtl.dma.bursts import Bursts, beat_address_bits, burst_layout
from matloom_rtl.dma.rows import Rows
from matloom_rtl.memory.bank_select import bank_select_of
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.memory.unchecked_fifo import UncheckedFIFO
from matloom_rtl.ports import (
    SPAD_READ_LATENCY,
    CommandSignature,
    FaultSignature,
    SpadReadSignature,
    mark_bits,
)

__all__ = ["Store"]

#: Maximum number of beats from the grant of their read until the bus takes them. It exceeds the
#: latency, to allow one beat per cycle.
_BEATS = 12

#: Maximum number of instructions in progress besides those of bursts in flight: one in `Rows`, one
#: in `Bursts`, and one being reported.
_STAGES = 3


def _response_layout(config: Config) -> data.StructLayout:
    """Return the layout of a burst that awaits its response: address, `last`, timestamp."""
    return data.StructLayout({"address": 32, "last": 1, "timestamp": mark_bits(config)})


class Store(wiring.Component):
    """DMA writer: reads the scratchpad, sends write bursts, waits for the responses.

    Beat k of a row whose first byte is byte m of a beat is read from ``row address - m + k *
    bus_bytes`` and sent with strobes for the row's bytes, so nothing is shifted. Strobes wait in a
    queue of `_BEATS` from the grant of a read until the bus takes the beat: a read is requested
    only if this queue has room, so its data always has a place.

    Latency: `aw` follows an instruction by 4 cycles; a beat follows its read by
    `SPAD_READ_LATENCY` + 1; `done` follows the last response by 1. Instructions complete in order.
    Throughput: one beat per cycle and at most one row in two cycles, also across instructions, with
    at most `outstanding` bursts without response.
    Stalls: `aw` waits while `outstanding` bursts are in flight; reads wait for `w`.

    Members
    -------
    unit: CommandSignature(STORE), in
        Instructions and their completion. `busy` is set from the cycle in which an instruction is
        shown until it is done.
    region, region_base: out, in
        As in `Rows`.
    axi: AxiWriteSignature, out
        The id is 0. Beats may precede their address, unless `Config.address_first` is set.
    spad_read: SpadReadSignature, out
        Reads as wide as a beat. A halt withdraws a refused one.
    halt: in
        Issue no new address; beats still owed are sent without strobes and without reads; until
        reset.
    quiet: out
        No address is pending and no response is outstanding.
    fault: FaultSignature, out
        AXI_WRITE and the burst's address for a response with an error, one cycle after it.
    burst, beat: out
        The bus took an address, or a beat of data; for the counters.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "unit": In(CommandSignature(Opcode.STORE, config)),
                "region": Out(range(len(Region))),
                "region_base": In(32),
                "axi": Out(AxiWriteSignature(config.bus_bits)),
                "spad_read": Out(SpadReadSignature(config.bus_bytes, config.spad_banks)),
                "halt": In(1),
                "quiet": Out(1),
                "fault": Out(FaultSignature()),
                "burst": Out(1),
                "beat": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: row and burst generators, scratchpad reads, a queue of responses."""
        m = Module()
        config = self._config
        m.submodules.rows = rows = Rows(Opcode.STORE, config)
        m.submodules.bursts = bursts = Bursts(config)
        layout = burst_layout(config)
        m.submodules.queue = queue = SyncFIFO(width=layout.size, depth=config.outstanding)
        awaited = _response_layout(config)
        m.submodules.responses = responses = SyncFIFO(width=awaited.size, depth=config.outstanding)
        connect(m, flipped(self.unit.command), rows.i)
        connect(m, rows.o, bursts.i)
        m.d.comb += [rows.region_base.eq(self.region_base), self.region.eq(rows.region)]

        self._address(m, bursts.o, queue, responses)
        issued = self._read(m, data.View(layout, queue.r_data), queue)
        self._send(m, issued)
        response = data.View(awaited, responses.r_data)
        self._complete(m, response, responses)
        m.d.comb += [
            self.burst.eq(self.axi.aw.valid & self.axi.aw.ready),
            self.beat.eq(self.axi.w.valid & self.axi.w.ready),
        ]
        return m

    def _address(self, m: Module, burst, queue, responses):
        """Send bursts to the bus, to the reader and to the response queue at the same time."""
        aw = self.axi.aw
        response = data.View(_response_layout(self._config), responses.w_data)
        move = Signal()
        address = Signal.like(aw.payload, reset_less=True)
        m.d.comb += [
            burst.ready.eq(queue.w_rdy & responses.w_rdy & ~self.halt & (~aw.valid | aw.ready)),
            move.eq(burst.valid & burst.ready),
            queue.w_en.eq(move),
            queue.w_data.eq(burst.payload),
            responses.w_en.eq(move),
            *(response[name].eq(burst.payload[name]) for name in ("address", "last", "timestamp")),
            self.quiet.eq(~aw.valid & (responses.level == 0)),
            aw.payload.eq(address),
        ]
        with m.If(aw.ready):
            m.d.sync += aw.valid.eq(0)
        with m.If(move):
            m.d.sync += [
                aw.valid.eq(1),
                # The register has no reset, so its initial value is undefined.
                address.id.eq(0),
                address.addr.eq(burst.payload.address),
                address.len.eq(burst.payload.len),
            ]

    def _read(self, m: Module, burst, queue):
        """Read beats from the scratchpad while there is room; return whether a read is granted.

        After a halt, reads count as granted without being performed, and beats have no strobes.
        """
        read, width = self.spad_read, self._config.bus_bytes
        m.submodules.strobes = strobes = UncheckedFIFO(width=width + 1, depth=_BEATS)
        number = Signal(8)
        begins = Signal(init=1)
        address = Signal(beat_address_bits(self._config), reset_less=True)
        # The scratchpad's arbiter is far away.
        m.submodules.requests = requests = SkidBuffer(
            data.StructLayout(
                {
                    "address": beat_address_bits(self._config),
                    "bank_select": self._config.spad_banks,
                    "mask": width,
                    "last": 1,
                }
            ),
            registered=("bank_select",),
        )
        ask, request = requests.i, requests.o
        issued = Signal()
        take = Signal()
        final = Signal()
        # Reads whose beat is not yet on the bus, and whether there is room for one more even if
        # another is granted in this cycle.
        owed = Signal(range(_BEATS + 1))
        room = Signal(init=1)
        m.d.sync += [owed.eq(owed + issued - self.beat), room.eq(owed < _BEATS - 1)]
        m.d.comb += [
            read.valid.eq(request.valid & room & ~self.halt),
            read.address.eq(request.payload.address.as_signed()),
            read.bank_select.eq(request.payload.bank_select),
            request.ready.eq(room & (read.ready | self.halt)),
            issued.eq(request.valid & request.ready),
            take.eq(queue.r_rdy & ask.ready),
            final.eq(number == burst.len),
            queue.r_en.eq(take & final),
            ask.valid.eq(queue.r_rdy),
            ask.payload.address.eq(Mux(begins, burst.spad, address)),
            ask.payload.bank_select.eq(bank_select_of(ask.payload.address, width, self._config)),
            ask.payload.last.eq(final),
            ask.payload.mask.eq(
                Cat(
                    (~begins | (burst.first <= index)) & (~final | (burst.final >= index))
                    for index in range(width)
                )
            ),
            Cat(self.axi.w.payload.strb, self.axi.w.payload.last).eq(strobes.r_data),
            strobes.r_en.eq(self.beat),
        ]
        m.d.sync += [
            strobes.w_en.eq(issued),
            strobes.w_data.eq(
                Cat(request.payload.mask & ~self.halt.replicate(width), request.payload.last)
            ),
        ]
        with m.If(take):
            m.d.sync += [
                number.eq(Mux(final, 0, number + 1)),
                begins.eq(final),
                address.eq(ask.payload.address + width),
            ]
        return issued

    def _send(self, m: Module, issued):
        """Capture the data `SPAD_READ_LATENCY` cycles after the grant, and send it to the bus."""
        w = self.axi.w
        m.submodules.beats = beats = UncheckedFIFO(width=self._config.bus_bits, depth=_BEATS)
        arrived = arriving = issued
        for _stage in range(SPAD_READ_LATENCY):
            arrived_next = Signal()
            arriving = arrived
            m.d.sync += arrived_next.eq(arrived)
            arrived = arrived_next
        m.d.comb += [
            beats.w_en.eq(arrived),
            beats.w_data.eq(self.spad_read.data),
            beats.r_en.eq(self.beat),
            w.valid.eq(beats.r_rdy & self._may_send(m)),
            w.payload.data.eq(beats.r_data),
        ]
        # Reads in progress are known from a register; their grants would come from far away.
        m.d.sync += self.unit.progress.eq(
            arriving | self.beat | (self.axi.b.valid & self.axi.b.ready)
        )

    def _may_send(self, m: Module):
        """Return whether the next burst may send beats.

        With `Config.address_first`, the bus must have taken its address.
        """
        if not self._config.address_first:
            return 1
        addressed = Signal(range(self._config.outstanding + 1))
        ended = self.beat & self.axi.w.payload.last
        m.d.sync += addressed.eq(addressed + self.burst - ended)
        return addressed != 0

    def _complete(self, m: Module, oldest, awaited):
        """Take bus responses; report errors and completed instructions, and drive `unit.busy`.

        `awaited` is a queue with an entry for each burst without response; `oldest` is its next
        entry.
        """
        b, unit = self.axi.b, self.unit
        fire = b.valid & b.ready
        m.d.comb += [b.ready.eq(awaited.r_rdy), awaited.r_en.eq(fire)]
        m.d.sync += [
            unit.done.eq(fire & oldest.last),
            unit.done_mark.eq(oldest.timestamp),
            self.fault.valid.eq(fire & b.payload.resp[1]),
            self.fault.cause.eq(Fault.AXI_WRITE),
            self.fault.address.eq(oldest.address),
        ]
        started = unit.command.valid & unit.command.ready
        under_way = Signal(range(self._config.outstanding + _STAGES + 1))
        m.d.sync += under_way.eq(under_way + started - unit.done)
        # A command is taken with its last row.
        m.d.comb += unit.busy.eq((under_way != 0) | unit.command.valid)
