"""Opens the row of the next chunk while the current one uses its columns."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.sdram.pins import ControllerPlan

__all__ = ["Opener"]


class Opener(wiring.Component):
    """Open the row of each chunk, if necessary after closing the bank, then pass the chunk on.

    A bank is not closed while the previous chunk is using it (`busy`). While `run` is 0 no command
    is requested and no chunk is passed on; afterwards the bank is examined again, because a refresh
    closes it.

    Latency: 3 cycles if the row is open. Throughput: one chunk in 3 cycles. Successive ACTIVATEs
    are at least `plan.activate_distance` cycles apart, which satisfies tRRD.

    Members
    -------
    i, o: streams of chunks, in and out
        A chunk appears at `o` when its row has been activated, possibly before it is open.
    run: in
        Chunks may be processed.
    bank, row: out
        Bank and row of the chunk, looked up by `Banks`.
    open, same, settled, free: in
        Result from `Banks`: its `open`, `same`, `row_settled` and `row_free`.
    busy: in
        The previous chunk is using this bank.
    want_activate, want_precharge: out
        The command that is requested and allowed.
    grant: in
        The command is issued in this cycle.
    """

    def __init__(self, plan: ControllerPlan):
        self._plan = plan
        chunk = stream.Signature(plan.chunk_layout)
        super().__init__(
            {
                "i": In(chunk),
                "o": Out(chunk),
                "run": In(1),
                "bank": Out(plan.bank_bits),
                "row": Out(plan.row_bits),
                **{name: In(1) for name in ("open", "same", "settled", "free", "busy", "grant")},
                **{name: Out(1) for name in ("want_activate", "want_precharge")},
            }
        )

    def elaborate(self, platform):
        """Return the module: a state machine that closes, opens and passes a chunk on."""
        m = Module()
        chunk = Signal.like(self.i.payload, reset_less=True)
        m.d.comb += [
            self.o.payload.eq(chunk),
            self.bank.eq(chunk.place.bank),
            self.row.eq(chunk.place.row),
        ]
        with m.FSM():
            with m.State("Idle"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += chunk.eq(self.i.payload)
                with m.If(self.i.valid):
                    m.next = "Look"
            with m.State("Look"), m.If(self.run):
                m.next = "Open"
                with m.If(self.open):
                    m.next = "Close"
                with m.If(self.open & self.same):
                    m.next = "Pass"
            with m.State("Close"):
                m.d.comb += self.want_precharge.eq(self.run & self.free & ~self.busy)
                with m.If(self.grant):
                    m.next = "Open"
                with m.If(~self.run):
                    m.next = "Look"
            with m.State("Open"):
                m.d.comb += self.want_activate.eq(self.run & self.settled)
                with m.If(self.grant):
                    m.next = "Pass"
                with m.If(~self.run):
                    m.next = "Look"
            with m.State("Pass"):
                m.d.comb += self.o.valid.eq(self.run)
                with m.If(self.o.ready):
                    m.next = "Idle"
                with m.If(~self.run):
                    m.next = "Look"
        return m
