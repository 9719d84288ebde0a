"""Reads and writes the columns of a chunk, one bus beat per command."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.sdram.pins import ControllerPlan

__all__ = ["Columns"]


class Columns(wiring.Component):
    """Issue READ or WRITE for each beat of a chunk, back to back, also across chunks.

    Each command bursts over the columns of one beat, so commands are `plan.burst` cycles apart. A
    WRITE waits until earlier read data has left the data pins, and one cycle more.

    Members
    -------
    i: stream of chunks, in
        Chunks whose rows are being opened.
    settled: in
        From Banks: the wait for the row of `bank` to open is over.
    hold: in
        Another command uses the pins in this cycle.
    want: out
        A command is requested and allowed.
    read, write: out
        A READ or WRITE command is issued.
    active: out
        A chunk is in progress.
    bank: out
        Bank of the chunk.
    beat: out
        Index in the row of the chunk's current beat.
    final, id: out
        The current beat is the last of its burst; id of the burst.
    """

    def __init__(self, plan: ControllerPlan):
        self._plan = plan
        super().__init__(
            {
                "i": In(stream.Signature(plan.chunk_layout)),
                "settled": In(1),
                "hold": In(1),
                **{name: Out(1) for name in ("want", "read", "write", "active", "final", "id")},
                "bank": Out(plan.bank_bits),
                "beat": Out(plan.beat_bits),
            }
        )

    def elaborate(self, platform):
        """Return the module: the current chunk, and the cycles between its commands."""
        m = Module()
        plan = self._plan
        chunk = Signal.like(self.i.payload, reset_less=True)
        ends = Signal()
        go = Signal()
        free = self._spacing(m, "column", go, plan.burst)
        # READ at t has its last data at t + CL + burst - 1; the pins stay idle for one cycle.
        turned = self._spacing(m, "read", self.read, plan.waits.cas_latency + plan.burst + 1)
        m.d.comb += [
            self.i.ready.eq(~self.active | ends),
            self.want.eq(self.active & self.settled & free & (~chunk.write | turned)),
            go.eq(self.want & ~self.hold),
            ends.eq(go & (chunk.count == 0)),
            self.read.eq(go & ~chunk.write),
            self.write.eq(go & chunk.write),
            self.bank.eq(chunk.place.bank),
            self.beat.eq(chunk.place.beat),
            self.final.eq(chunk.last & (chunk.count == 0)),
            self.id.eq(chunk.id),
        ]
        with m.If(go):
            m.d.sync += [
                chunk.count.eq(chunk.count - 1),
                chunk.place.beat.eq(chunk.place.beat + 1),
            ]
        with m.If(self.i.ready):
            m.d.sync += [self.active.eq(self.i.valid), chunk.eq(self.i.payload)]
        return m

    def _spacing(self, m: Module, name: str, event, cycles: int):
        """Return whether the last event, if any, was at least `cycles` cycles ago."""
        count = Signal(range(max(cycles, 2)), name=f"since_{name}")
        over = Signal(name=f"{name}_over")
        m.d.comb += over.eq(count == 0)
        m.d.sync += count.eq(Mux(over, 0, count - 1))
        with m.If(event):
            m.d.sync += count.eq(cycles - 1)
        return over
