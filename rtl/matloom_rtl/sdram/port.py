"""AXI side of the controller: buffers data so that a chunk at the pins never waits for the bus."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.sdram.chunks import Chunks
from matloom_rtl.sdram.pins import ControllerPlan

__all__ = ["Port"]

#: Chunks of data that fit into the buffer of each direction. More than three are needed, because
#: one is at the pins, one follows it, and one is on the bus.
_CHUNKS = 4

#: Cycles of data for which a direction may keep the pins while the other waits, unless a chunk is
#: longer.
_RUN = 128

#: Responses that may wait for the bus.
_RESPONSES = 8


class Port(wiring.Component):
    """Arbitrate between reads and writes, and buffer their data.

    A read chunk is issued when the queue to the bus has room for all its beats, a write chunk when
    all its beats have arrived and there is room for its response. So the pins never wait for the
    bus, reads never wait for a slow writer, nor writes for a slow reader. If both are possible, the
    direction changes after `_RUN` cycles of data, or after one chunk if that is longer. Chunks are
    served in the order in which they are issued, so a read whose address follows the response of a
    write sees that write.

    Latency: 3 cycles to `chunks`, 3 from `read_data`. Throughput: one beat per cycle in each
    direction, one chunk in three cycles.

    Members
    -------
    axi_read, axi_write: in
        The bus; `w.last` is ignored.
    chunks: stream of chunks, out
        Chunks to serve, in this order.
    write_data, take: beat of data and strobes out, in
        The next beat of the write chunks, in order; removed by `take`.
    read_data, give: beat of data, id and last, in
        A beat of the read chunks, in order; valid with `give`.
    written, written_id: in
        The last beat of a write burst is taken; id of the burst.
    """

    def __init__(self, plan: ControllerPlan):
        self._plan = plan
        bits = plan.bus_bits
        super().__init__(
            {
                "axi_read": In(AxiReadSignature(bits)),
                "axi_write": In(AxiWriteSignature(bits)),
                "chunks": Out(stream.Signature(plan.chunk_layout)),
                "write_data": Out(data.StructLayout({"data": bits, "strb": bits // 8})),
                "take": In(1),
                "read_data": In(data.StructLayout({"data": bits, "id": 1, "last": 1})),
                "give": In(1),
                "written": In(1),
                "written_id": In(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: the chunks of reads and writes, their arbitration, and data queues."""
        m = Module()
        m.submodules.reads = reads = Chunks(self._plan, write=False)
        m.submodules.writes = writes = Chunks(self._plan, write=True)
        connect(m, flipped(self.axi_read.ar), reads.i)
        connect(m, flipped(self.axi_write.aw), writes.i)
        taken = Signal()
        may_read = reads.o.valid & self._read(m)
        may_write = writes.o.valid & self._write(m, writes.o)
        self._choose(m, (reads.o, may_read), (writes.o, may_write), taken)
        return m

    def _choose(self, m: Module, reads, writes, taken):
        """Move a chunk of `reads` or `writes` to the register of `chunks`; drive `taken` then."""
        (read, may_read), (write, may_write) = reads, writes
        plan = self._plan
        chunk = Signal.like(self.chunks.payload, reset_less=True)
        # A direction keeps the pins for some columns, to amortise the turnaround.
        longest = max(1, _RUN // (plan.chunk_beats * plan.burst))
        run = Signal(range(longest + 1))
        turn = Signal()
        choice = Signal()
        recent = Signal()
        m.d.comb += [
            self.chunks.payload.eq(chunk),
            turn.eq(Mux(run == longest, ~chunk.write, chunk.write)),
            choice.eq(Mux(may_read & may_write, turn, may_write)),
            taken.eq(~self.chunks.valid & ~recent & (may_read | may_write)),
            read.ready.eq(taken & ~choice),
            write.ready.eq(taken & choice),
        ]
        # The counts include a chunk from the second cycle after it.
        m.d.sync += recent.eq(self.chunks.valid)
        with m.If(self.chunks.ready):
            m.d.sync += self.chunks.valid.eq(0)
        with m.If(taken):
            m.d.sync += [
                self.chunks.valid.eq(1),
                chunk.eq(Mux(choice, write.payload, read.payload)),
                run.eq(Mux((choice != chunk.write) | (run == longest), 1, run + 1)),
            ]

    def _taken_chunk(self, m: Module, *, write: int):
        """Return whether a chunk was taken in the previous cycle, and its number of beats, else 0.

        `write` selects the direction: 1 for write chunks, 0 for read chunks.
        """
        chunk = self.chunks
        new = Signal()
        beats = Signal(range(self._plan.chunk_beats + 1))
        shown = Signal()
        m.d.sync += shown.eq(chunk.valid)
        m.d.comb += new.eq(chunk.valid & ~shown & (chunk.payload.write == write))
        with m.If(new):
            m.d.comb += beats.eq(chunk.payload.count + 1)
        return new, beats

    def _read(self, m: Module):
        """Buffer read data; return whether there is room for another chunk."""
        depth = _CHUNKS * self._plan.chunk_beats
        m.submodules.read_queue = queue = SyncFIFOBuffered(
            width=self._plan.bus_bits + 2, depth=depth
        )
        # Block RAM is slow and far away, and so is the receiver.
        m.submodules.read_register = register = _output_registers(self.axi_read.r.payload.shape())
        connect(m, register.o, flipped(self.axi_read.r))
        beat, came = register.i.payload, self.read_data
        promised = Signal(range(depth + 1))
        room = Signal()
        freed = Signal()
        m.d.comb += [
            queue.w_data.eq(Cat(came.data, came.id, came.last)),
            queue.w_en.eq(self.give),
            Cat(beat.data, beat.id, beat.last).eq(queue.r_data),
            register.i.valid.eq(queue.r_rdy),
            queue.r_en.eq(register.i.ready),
        ]
        _new, beats = self._taken_chunk(m, write=0)
        m.d.sync += [
            # Freed places are counted one cycle late, for a shorter path.
            freed.eq(queue.r_rdy & queue.r_en),
            promised.eq(promised + beats - freed),
            room.eq(promised <= depth - self._plan.chunk_beats),
        ]
        return room

    def _write(self, m: Module, chunk):
        """Buffer write data and responses; return whether the next chunk may be issued."""
        depth = _CHUNKS * self._plan.chunk_beats
        w, b = self.axi_write.w, self.axi_write.b
        m.submodules.write_queue = queue = SyncFIFOBuffered(
            width=self.write_data.shape().size, depth=depth
        )
        m.submodules.write_register = register = _output_registers(self.write_data.shape())
        m.submodules.responses = responses = SyncFIFO(width=1, depth=_RESPONSES)
        m.d.comb += [
            queue.w_data.eq(Cat(w.payload.data, w.payload.strb)),
            queue.w_en.eq(w.valid),
            w.ready.eq(queue.w_rdy),
            register.i.payload.eq(queue.r_data),
            register.i.valid.eq(queue.r_rdy),
            queue.r_en.eq(register.i.ready),
            self.write_data.eq(register.o.payload),
            register.o.ready.eq(self.take),
            responses.w_data.eq(self.written_id),
            responses.w_en.eq(self.written),
            b.valid.eq(responses.r_rdy),
            b.payload.id.eq(responses.r_data),
            responses.r_en.eq(b.ready),
        ]
        came = Signal(range(depth + 2))
        owed = Signal(range(_RESPONSES + 1))
        may = Signal()
        more = Signal()
        freed = Signal()
        new, beats = self._taken_chunk(m, write=1)
        m.d.sync += [
            # Both are counted one cycle late, for a shorter path.
            more.eq(w.valid & w.ready),
            freed.eq(b.valid & b.ready),
            came.eq(came + more - beats),
            owed.eq(owed + (new & self.chunks.payload.last) - freed),
            may.eq(chunk.valid & (came > chunk.payload.count) & (owed != _RESPONSES)),
        ]
        return may


def _output_registers(layout: data.StructLayout) -> SkidBuffer:
    """Return a `SkidBuffer` with all fields in registers, for the output of a block RAM."""
    return SkidBuffer(layout, registered=tuple(name for name, _field in layout))
