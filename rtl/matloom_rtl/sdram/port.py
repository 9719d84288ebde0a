"""The AXI side: holds data, and lets a chunk go on only when nothing on the bus can hold it up."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.sdram.chunks import Chunks
from matloom_rtl.sdram.pins import Plan

__all__ = ["Port"]

#: Chunks of data that each direction holds: one at the pins, one behind it, and one on the bus.
_CHUNKS = 4

#: Responses that may wait for the bus.
_RESPONSES = 8


class Port(wiring.Component):
    """Order reads and writes, and promise their data.

    A read chunk goes on when all of its beats have a place in the queue to the bus, a write chunk
    when all of its beats have come and its response has a place. So what is below never waits for
    the bus, reads never wait for a slow writer, nor writes for a slow reader. Reads and writes
    take turns where both may go. A read whose address came after the response of a write sees it:
    all chunks are served in the order in which they go.

    Here a clock could be crossed: `chunks`, `write_data`, `read_data` and `written` are all that
    passes, each in order and with its place promised.

    Latency: 2 cycles to `chunks`, 2 from `read_data`. Throughput: a beat a cycle each way, a chunk
    in two cycles.

    Members
    -------
    axi_read, axi_write: in
        The bus; `w.last` is not looked at.
    chunks: stream of chunks, out
    write_data, take: beat of data and strobes out, in
        The next beat of the chunks under way, in order; `take` takes it.
    read_data, give: beat of data, id and last, in
        `give` brings one.
    written, written_id: in
        The last beat of a burst has been taken.
    """

    def __init__(self, plan: Plan):
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
        m = Module()
        m.submodules.reads = reads = Chunks(self._plan, write=False)
        m.submodules.writes = writes = Chunks(self._plan, write=True)
        connect(m, flipped(self.axi_read.ar), reads.i)
        connect(m, flipped(self.axi_write.aw), writes.i)
        taken = Signal()
        may_read = self._read(m, reads.o, taken)
        may_write = self._write(m, writes.o, taken)
        self._choose(m, (reads.o, may_read), (writes.o, may_write), taken)
        return m

    def _choose(self, m: Module, reads, writes, taken):
        """Move one chunk to the register of `chunks`, every other cycle at most."""
        (read, may_read), (write, may_write) = reads, writes
        chunk = Signal.like(self.chunks.payload, reset_less=True)
        turn, choice = Signal(), Signal()
        m.d.comb += [
            self.chunks.payload.eq(chunk),
            choice.eq(Mux(may_read & may_write, turn, may_write)),
            taken.eq(~self.chunks.valid & (may_read | may_write)),
            read.ready.eq(taken & ~choice),
            write.ready.eq(taken & choice),
        ]
        with m.If(self.chunks.ready):
            m.d.sync += self.chunks.valid.eq(0)
        with m.If(taken):
            m.d.sync += [
                self.chunks.valid.eq(1),
                chunk.eq(Mux(choice, write.payload, read.payload)),
                turn.eq(~choice),
            ]

    def _read(self, m: Module, chunk, taken):
        """Hold what was read; return whether the next chunk has room."""
        depth = _CHUNKS * self._plan.chunk_beats
        layout = self.axi_read.r.payload.shape()
        m.submodules.read_queue = queue = SyncFIFOBuffered(
            width=self._plan.bus_bits + 2, depth=depth
        )
        beat, promised, may = Signal(layout), Signal(range(depth + 1)), Signal()
        came = self.read_data
        m.d.comb += [
            queue.w_data.eq(Cat(came.data, came.id, came.last)),
            queue.w_en.eq(self.give),
            Cat(beat.data, beat.id, beat.last).eq(queue.r_data),
            self.axi_read.r.payload.eq(beat),
            self.axi_read.r.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.axi_read.r.ready),
        ]
        freed = queue.r_rdy & queue.r_en
        more = Mux(chunk.ready, chunk.payload.count + 1, 0)
        m.d.sync += [
            promised.eq(promised + more - freed),
            # Never stale: what goes now keeps the next from going for a cycle.
            may.eq(chunk.valid & ~taken & (promised <= depth - self._plan.chunk_beats)),
        ]
        return may

    def _write(self, m: Module, chunk, taken):
        """Hold what is to be written; return whether the next chunk has come whole."""
        depth = _CHUNKS * self._plan.chunk_beats
        w, b = self.axi_write.w, self.axi_write.b
        m.submodules.write_queue = queue = SyncFIFOBuffered(
            width=self.write_data.shape().size, depth=depth
        )
        m.submodules.responses = responses = SyncFIFO(width=1, depth=_RESPONSES)
        came, owed, may = Signal(range(depth + 2)), Signal(range(_RESPONSES + 1)), Signal()
        m.d.comb += [
            queue.w_data.eq(Cat(w.payload.data, w.payload.strb)),
            queue.w_en.eq(w.valid),
            w.ready.eq(queue.w_rdy),
            self.write_data.eq(queue.r_data),
            queue.r_en.eq(self.take),
            responses.w_data.eq(self.written_id),
            responses.w_en.eq(self.written),
            b.valid.eq(responses.r_rdy),
            b.payload.id.eq(responses.r_data),
            responses.r_en.eq(b.ready),
        ]
        less = Mux(chunk.ready, chunk.payload.count + 1, 0)
        m.d.sync += [
            came.eq(came + (w.valid & w.ready) - less),
            owed.eq(owed + (chunk.ready & chunk.payload.last) - (b.valid & b.ready)),
            may.eq(chunk.valid & ~taken & (came > chunk.payload.count) & (owed != _RESPONSES)),
        ]
        return may
