"""State of each bank: the open row, and the waits before its next commands."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom_rtl.sdram.pins import ControllerPlan

__all__ = ["Banks"]


class Banks(wiring.Component):
    """Track the open row and the timing waits of every bank.

    A bank has two waits. `settling` lasts from ACTIVATE (tRCD) or PRECHARGE (tRP) until the bank is
    open or closed; `held` lasts until the bank may be closed (tRAS, tRC, tWR, and the end of a
    READ). A row is held for at least tRC - tRP, so that tRC needs no wait of its own.

    Latency: a command in cycle t is visible in t + 1.

    Members
    -------
    activate, precharge, precharge_all, read, write: in
        The command issued in this cycle, at most one.
    row_bank, row: in
        Bank for ACTIVATE and PRECHARGE, row for ACTIVATE; also looked up for the outputs below.
    column_bank: in
        Bank of READ and WRITE.
    open: out
        A row of `row_bank` is open, or is being opened.
    same: out
        The row that was last activated in `row_bank` is `row`.
    row_settled: out
        `row_bank` is not settling: if closed, it may be activated.
    column_settled: out
        `column_bank` is not settling: if open, it may be read or written.
    row_free: out
        `row_bank` may be closed.
    all_free: out
        All banks may be closed.
    """

    def __init__(self, plan: ControllerPlan):
        self._plan = plan
        super().__init__(
            {
                **{name: In(1) for name in ("activate", "precharge", "precharge_all")},
                **{name: In(1) for name in ("read", "write")},
                "row_bank": In(plan.bank_bits),
                "row": In(plan.row_bits),
                "column_bank": In(plan.bank_bits),
                **{name: Out(1) for name in ("open", "same", "row_settled", "column_settled")},
                **{name: Out(1) for name in ("row_free", "all_free")},
            }
        )

    def elaborate(self, platform):
        """Return the module: a memory of open rows, and flags and waits for each bank."""
        m = Module()
        plan, banks = self._plan, self._plan.part.banks
        m.submodules.rows = rows = Memory(shape=plan.row_bits, depth=banks, init=[])
        write, read = rows.write_port(), rows.read_port(domain="comb")
        is_open = Array(Signal(name=f"open_{index}") for index in range(banks))
        settled = Array(Signal(name=f"settled_{index}") for index in range(banks))
        free = Array(Signal(name=f"free_{index}") for index in range(banks))
        m.d.comb += [
            write.addr.eq(self.row_bank),
            write.data.eq(self.row),
            write.en.eq(self.activate),
            read.addr.eq(self.row_bank),
            self.open.eq(is_open[self.row_bank]),
            self.same.eq(read.data == self.row),
            self.row_settled.eq(settled[self.row_bank]),
            self.column_settled.eq(settled[self.column_bank]),
            self.row_free.eq(free[self.row_bank]),
            self.all_free.eq(1),
        ]
        for index in range(banks):
            self._bank(m, index, is_open[index], settled[index], free[index])
            with m.If(~free[index]):
                m.d.comb += self.all_free.eq(0)
        return m

    def _bank(self, m: Module, index, is_open, settled, free):
        """Track bank `index`: whether a row is open, and the waits that commands cause.

        Drives `is_open`, and `settled` and `free`, which are set once no wait remains.
        """
        plan, timing = self._plan, self._plan.waits
        activate = Signal(name=f"activate_{index}")
        precharge = Signal(name=f"precharge_{index}")
        chosen = self.row_bank == index
        m.d.comb += [
            activate.eq(self.activate & chosen),
            precharge.eq((self.precharge & chosen) | self.precharge_all),
        ]
        with m.If(activate | precharge):
            m.d.sync += is_open.eq(activate)
        ras = max(timing.ras, timing.rc - timing.rp)
        waits = ((activate, timing.rcd), (precharge, timing.rp))
        _wait(m, f"settling_{index}", settled, waits)
        used = self.column_bank == index
        waits = (
            (activate, ras),
            (self.read & used, plan.read_held),
            (self.write & used, plan.write_held),
        )
        _wait(m, f"held_{index}", free, waits)


def _wait(m: Module, name: str, over, waits):
    """Drive `over` while no wait is in progress; `waits` lists pairs of start event and cycles."""
    count = Signal(range(max(cycles for _, cycles in waits)), name=name)
    less = Mux(over, 0, count - 1)
    m.d.comb += over.eq(count == 0)
    m.d.sync += count.eq(less)
    for event, cycles in waits:
        with m.If(event & (count < cycles)):
            m.d.sync += count.eq(cycles - 1)
