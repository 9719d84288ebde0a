"""Partial writes to an SDRAM without byte masks: completes beats with data read from memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom_rtl.bus.axi import Address, AxiReadSignature, AxiWriteSignature, ReadBeat, WriteBeat
from matloom_rtl.memory.stream_register import StreamRegister
from matloom_rtl.memory.unchecked_fifo import UncheckedFIFO
from matloom_rtl.sdram.unanswered import COMPARED_BITS, Unanswered

__all__ = ["BURSTS", "Merge"]

#: Maximum number of write bursts in flight.
BURSTS = 8

#: Write beats in the queue: enough to cover the latency of a read without stalling.
_BEATS = 64

#: Maximum number of reads in flight that this unit issued itself.
_READS = 8

#: Maximum number of read bursts in flight to memory, including those of this unit.
_ASKED = 16

#: Beats of the longest burst, and size of the read queue, which holds two such bursts.
_LONGEST = 256
_ROOM = 2 * _LONGEST


class Merge(wiring.Component):
    """Complete partial write beats with data from memory; pass all other beats and bursts on.

    For boards that do not connect the SDRAM's byte masks. A write beat with all strobes set passes
    unchanged. Any other beat is partial: it enters a queue, and the same address is read from
    memory at once (`_accept_beats`). At the head of the queue, data from memory replaces the bytes
    without strobes (`_complete_beats`). So several reads can be in flight, and only the first of a
    sequence of rows costs the latency of a read. All strobes are set in beats sent to memory.

    **Ordering.** The read for a partial beat must see earlier writes to the same beat, and must not
    see later ones. Later ones are behind the beat in the queue. If an older burst without a
    response contains the beat (`Unanswered`), the read waits for that response. So a row waits for
    another one only if both share a beat. Bytes without strobes are written back unchanged, so
    concurrent reads of them are not affected. Responses are passed on as they come, so a read that
    is issued after a response sees the write, if this holds for memory. Memory must return reads in
    address order, and respond to writes in order, as `SdramController` does.

    **Freedom from deadlock.** This unit accepts every beat and response from memory immediately. It
    sends a read to memory, its own or the initiator's, only when it has room for all beats of the
    read, and a write burst only when it has room for the response. So the read for a partial beat
    and older writes complete even if the initiator accepts no read data and no responses. If the
    unit and the initiator both have reads pending, their reads alternate, so that neither starves.

    Latency: to memory 1 cycle for a read address, 2 for a write address, 4 for a beat; from memory
    3 for a beat, 1 for a response. Throughput: one beat per cycle in both directions, and at most
    one write burst in two cycles; a partial beat delays the next by 2 cycles, or longer while
    memory does not accept the read's address. Stalls: each channel may stall. A beat is accepted
    after its burst's address. No output depends combinationally on an input, except the `ready` of
    an address and memory's `ready`. Reset discards everything in flight.

    Parameters
    ----------
    bus_bits:
        Width of the bus.

    Members
    -------
    axi_read, axi_write: AxiReadSignature(bus_bits), AxiWriteSignature(bus_bits), in
        Initiator.
    memory_read, memory_write: AxiReadSignature(bus_bits), AxiWriteSignature(bus_bits), out
        Memory; all strobes are 1. The unit's own reads have id 0.
    """

    def __init__(self, bus_bits: int):
        self._bits = bus_bits
        self._index_bits = (bus_bits // 8 - 1).bit_length()
        read, write = AxiReadSignature(bus_bits), AxiWriteSignature(bus_bits)
        super().__init__(
            {
                "axi_read": In(read),
                "axi_write": In(write),
                "memory_read": Out(read),
                "memory_write": Out(write),
            }
        )

    def elaborate(self, platform):
        """Return the module: queues of write beats and of data read for them, and the channels."""
        m = Module()
        m.submodules.unanswered = unanswered = Unanswered(BURSTS)
        m.submodules.queue = queue = SyncFIFOBuffered(
            width=WriteBeat(self._bits).size, depth=_BEATS
        )
        m.submodules.found = found = UncheckedFIFO(width=self._bits, depth=_READS)
        may_begin = self._respond(m, unanswered)
        # A beat must be read: its address, while its burst is the newest.
        wanted = Signal()
        place = Signal(32 - self._index_bits)
        granted = Signal()
        self._accept_beats(m, unanswered, queue, (may_begin, wanted, place, granted))
        merged = self._complete_beats(m, queue, found)
        m.d.comb += granted.eq(self._send_read_addresses(m, unanswered, wanted, place, merged))
        self._receive(m, found)
        return m

    def _respond(self, m: Module, unanswered):
        """Pass on responses; return whether another burst may begin."""
        come, b = self.memory_write.b, self.axi_write.b
        m.submodules.responses = responses = SyncFIFO(
            width=len(come.payload.as_value()), depth=BURSTS
        )
        under_way = Signal(range(BURSTS + 1))
        m.d.comb += [
            come.ready.eq(1),
            unanswered.answered.eq(come.valid),
            responses.w_en.eq(come.valid),
            responses.w_data.eq(come.payload),
            b.valid.eq(responses.r_rdy),
            b.payload.eq(responses.r_data),
            responses.r_en.eq(b.ready),
        ]
        m.d.sync += under_way.eq(under_way + unanswered.begin - (b.valid & b.ready))
        return under_way != BURSTS

    def _accept_beats(self, m: Module, unanswered, queue, signals):
        """Accept write addresses and beats; after a partial beat, wait until its read is sent."""
        may_begin, wanted, place, granted = signals
        aw, w, out = self.axi_write.aw, self.axi_write.w, self.memory_write.aw
        waits = Signal()
        waiting = Signal(Address, reset_less=True)
        shown = Signal(Address, reset_less=True)
        active = Signal()
        left = Signal(8, reset_less=True)
        current = Signal.like(place, reset_less=True)
        go = Signal()
        lacks = Signal()
        ends = Signal()
        begins = Signal()
        m.d.comb += [
            aw.ready.eq(~waits),
            out.payload.eq(shown),
            w.ready.eq(active & queue.w_rdy & ~wanted),
            queue.w_en.eq(go),
            queue.w_data.eq(w.payload),
            go.eq(w.valid & w.ready),
            lacks.eq(go & ~w.payload.strb.all()),
            ends.eq(go & (left == 0)),
            # The burst of a beat to be read remains the newest.
            begins.eq(
                waits & may_begin & ~wanted & ~lacks & (~active | ends) & (~out.valid | out.ready)
            ),
            unanswered.begin.eq(begins),
            unanswered.start.eq(waiting.addr[self._index_bits :]),
            unanswered.len.eq(waiting.len),
        ]
        with m.If(aw.ready):
            m.d.sync += [waits.eq(aw.valid), waiting.eq(aw.payload)]
        with m.If(out.ready):
            m.d.sync += out.valid.eq(0)
        with m.If(go):
            m.d.sync += [active.eq(~ends), left.eq(left - 1), current.eq(current + 1)]
        with m.If(begins):
            m.d.sync += [waits.eq(0), out.valid.eq(1), shown.eq(waiting), active.eq(1)]
            m.d.sync += [left.eq(waiting.len), current.eq(waiting.addr[self._index_bits :])]
        with m.If(granted):
            m.d.sync += wanted.eq(0)
        with m.If(lacks):
            m.d.sync += [wanted.eq(1), place.eq(current)]

    def _send_read_addresses(self, m: Module, unanswered, wanted, place, merged):
        """Send read addresses to memory: the initiator's, and those of partial beats.

        Returns whether the address of a partial beat is accepted in this cycle. A queue keeps the
        owner of each read, in order, for `_receive`.
        """
        ar, r = self.axi_read.ar, self.axi_read.r
        m.submodules.asked = asked = SyncFIFO(width=1, depth=_ASKED)
        m.submodules.addresses = addresses = StreamRegister(Address)
        connect(m, addresses.o, flipped(self.memory_read.ar))
        # Once no older burst holds the beat this stays true, as none begins meanwhile.
        settled = Signal()
        own = Signal()
        recent = Signal()
        may = Signal()
        owed = Signal(range(_READS + 1))
        promised = Signal(range(_ROOM + 1))
        passed = Signal()
        freed = Signal()
        taken = Signal()
        m.d.comb += [
            unanswered.place.eq(place[:COMPARED_BITS]),
            may.eq(addresses.i.ready & asked.w_rdy),
            own.eq(settled & wanted & ~recent & (owed != _READS)),
            ar.ready.eq(may & ~own & (promised < _LONGEST)),
            passed.eq(ar.valid & ar.ready),
            taken.eq(own & may),
            addresses.i.valid.eq(asked.w_en),
            addresses.i.payload.eq(ar.payload),
            asked.w_en.eq(passed | taken),
            asked.w_data.eq(own),
        ]
        with m.If(own):
            m.d.comb += addresses.i.payload.eq(Cat(Const(0, 1 + self._index_bits), place))
        with m.If(may):
            m.d.sync += recent.eq(own)
        m.d.sync += [
            settled.eq(wanted & ~unanswered.held),
            owed.eq(owed + taken - merged),
            # Freed places are counted one cycle late, for a shorter path.
            freed.eq(r.valid & r.ready),
            promised.eq(promised + Mux(passed, ar.payload.len + 1, 0) - freed),
        ]
        return taken

    def _receive(self, m: Module, found):
        """Pass data from memory to the owner of the read: the initiator, or the queue `found`."""
        come, asked = self.memory_read.r, m.submodules.asked
        m.submodules.beats = beats = SyncFIFOBuffered(width=ReadBeat(self._bits).size, depth=_ROOM)
        # Block RAM output is slow: a register separates it from the rest.
        m.submodules.shown = shown = StreamRegister(ReadBeat(self._bits))
        connect(m, shown.o, flipped(self.axi_read.r))
        m.d.comb += [
            come.ready.eq(1),
            asked.r_en.eq(come.valid & come.payload.last),
            found.w_en.eq(come.valid & asked.r_data),
            found.w_data.eq(come.payload.data),
            beats.w_en.eq(come.valid & ~asked.r_data),
            beats.w_data.eq(come.payload),
            shown.i.payload.eq(beats.r_data),
            shown.i.valid.eq(beats.r_rdy),
            beats.r_en.eq(shown.i.ready),
        ]

    def _complete_beats(self, m: Module, queue, found):
        """Send write beats from `queue` to memory; complete partial ones with bytes from `found`.

        Both are FIFOs; `found` has the words that memory holds at the addresses of partial beats.
        Returns whether a partial beat is completed in this cycle.
        """
        layout = WriteBeat(self._bits)
        m.submodules.head = head = StreamRegister(layout)
        m.submodules.whole = whole = StreamRegister(
            data.StructLayout({"data": self._bits, "last": 1})
        )
        beat, out = head.o.payload, self.memory_write.w
        lacks = Signal()
        merged = Signal()
        m.d.comb += [
            head.i.payload.eq(queue.r_data),
            head.i.valid.eq(queue.r_rdy),
            queue.r_en.eq(head.i.ready),
            lacks.eq(~beat.strb.all()),
            whole.i.valid.eq(head.o.valid & (~lacks | found.r_rdy)),
            head.o.ready.eq(whole.i.ready & (~lacks | found.r_rdy)),
            merged.eq(whole.i.valid & whole.i.ready & lacks),
            found.r_en.eq(merged),
            whole.i.payload.last.eq(beat.last),
            out.valid.eq(whole.o.valid),
            whole.o.ready.eq(out.ready),
            out.payload.data.eq(whole.o.payload.data),
            out.payload.last.eq(whole.o.payload.last),
            out.payload.strb.eq(-1),
        ]
        for index in range(self._bits // 8):
            place = slice(8 * index, 8 * index + 8)
            byte = Mux(beat.strb[index], beat.data[place], found.r_data[place])
            m.d.comb += whole.i.payload.data[place].eq(byte)
        return merged
