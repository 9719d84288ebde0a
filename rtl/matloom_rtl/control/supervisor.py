"""State of a run: start, end, faults, watchdog, software reset, interrupt."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.csr import Fault

__all__ = ["Supervisor"]


class Supervisor(wiring.Component):
    """Run one command buffer after another, and stop at the first fault.

    A start is accepted when idle and without a fault. A run is done two cycles after `finished`,
    and stops two cycles after a fault; if both come in one cycle the fault wins. The first fault
    is recorded; then the DMA units halt and nothing more is dispatched. A reset request also halts
    them, waits until the bus is quiet, and resets every unit. It is accepted at any time and is
    the only way to leave the fault state.

    The watchdog counts consecutive cycles of a run without progress; `timeout` of them are a fault,
    unless `timeout` is 0. While the bus owes responses, the reset is pending and its bit of
    `status` stays set.

    Members
    -------
    start, reset: in
        Requests from the registers, for one cycle.
    timeout: in
        Watchdog limit in cycles; 0 for no limit.
    finished: in
        The command buffer has ended.
    progress: in
        Some unit made progress in this cycle.
    quiet: in
        No bus transfer is outstanding.
    fault_cause, fault_unit, fault_opcode, fault_index, fault_address: in
        A fault in this cycle, if the cause is not 0; ignored in the two cycles after `begin`.
        Without a fault, index and address go into the watchdog's record.
    busy_unit: in
        Code of the first busy unit as in register FAULT, 0 if none is, for the watchdog's record.
    begin: out
        For one cycle: a run starts, and all state of the last run is cleared.
    running: out
        A run is in progress.
    halt: out
        Nothing more may begin; takes effect in the units one cycle later.
    core_reset, core_reset_next: out
        Every unit is reset in this cycle, or in the next. The latter is for local copies of the
        register, close to each unit.
    status: out
        As register STATUS.
    events: out
        As register IRQ_STATUS, for one cycle.
    record, record_index, record_address: out
        As registers FAULT, FAULT_INDEX, FAULT_ADDRESS. A fault that is ignored because a run has
        just begun, or is ending, shows for one cycle.
    """

    start: In(1)
    reset: In(1)
    timeout: In(32)
    finished: In(1)
    progress: In(1)
    quiet: In(1)
    fault_cause: In(4)
    fault_unit: In(3)
    fault_opcode: In(4)
    fault_index: In(32)
    fault_address: In(32)
    busy_unit: In(3)
    begin: Out(1)
    running: Out(1)
    halt: Out(1)
    core_reset: Out(1)
    core_reset_next: Out(1)
    status: Out(4)
    events: Out(2)
    record: Out(12)
    record_index: Out(32)
    record_address: Out(32)

    def elaborate(self, platform):
        """Return the module: the states of a run, the watchdog, and the fault record."""
        m = Module()
        done = Signal()
        failed = Signal()
        resetting = Signal()
        m.d.comb += [
            self.begin.eq(self.start & ~self.reset & ~self.running & ~failed & ~resetting),
            self.status[0].eq(self.running),
            self.status[1].eq(done),
            self.status[2].eq(failed),
            self.status[3].eq(resetting),
        ]
        # Units halt two cycles later, each through its own register. A transfer that a unit began
        # in the cycle before shows in `quiet` by the time it halts.
        halted = Signal()
        m.d.sync += [self.halt.eq(failed | resetting), halted.eq(self.halt)]
        m.d.comb += self.core_reset_next.eq(resetting & halted & self.quiet & ~self.core_reset)
        m.d.sync += self.core_reset.eq(self.core_reset_next)
        with m.If(self.begin):
            m.d.sync += [self.running.eq(1), done.eq(0)]
        # One cycle late, as the record is.
        ended = Signal()
        m.d.sync += ended.eq(self.finished)
        with m.If(self.running & ended):
            m.d.sync += [self.running.eq(0), done.eq(1)]
            m.d.comb += self.events[0].eq(1)

        # Faults of fetches left over from the last run must not stop the new one.
        begun = Signal(2)
        fresh = Signal()
        stops = Signal()
        m.d.sync += [begun.eq(Cat(self.begin, begun)), fresh.eq(self.begin | begun.any())]
        m.d.comb += stops.eq(self.running & (self.record[:4] != 0) & ~fresh)
        with m.If(stops):
            m.d.comb += self.events.eq(2)
            m.d.sync += [self.running.eq(0), done.eq(0), failed.eq(1)]
        self._record_fault(m, stops | failed)

        with m.If(self.core_reset):
            m.d.sync += [resetting.eq(0), failed.eq(0), done.eq(0)]
        with m.If(self.reset):
            m.d.sync += [resetting.eq(1), self.running.eq(0)]
        return m

    def _record_fault(self, m: Module, kept):
        """Record a fault of this cycle, if there is one and `kept` is not set."""
        faulty, late = self.fault_cause != 0, self._watch(m)
        record = self.fault_cause | self.fault_unit << 4 | self.fault_opcode << 8
        timeout = Fault.TIMEOUT | self.busy_unit << 4 | self.busy_unit << 8
        with m.If(~kept):
            m.d.sync += [
                self.record.eq(Mux(faulty, record, timeout)),
                self.record_index.eq(self.fault_index),
                self.record_address.eq(self.fault_address),
            ]
        # A synchronous reset of the registers instead of a gate before each bit.
        with m.If(self.core_reset | ~(kept | (self.running & (faulty | late)))):
            m.d.sync += [self.record.eq(0), self.record_index.eq(0), self.record_address.eq(0)]

    def _watch(self, m: Module):
        """Count cycles without progress; return whether the previous cycle reached the limit."""
        left = Signal(32)
        more = Signal()
        late = Signal()
        still = self.running & ~self.progress
        # Stops at one; without a limit it takes a newly written one.
        m.d.comb += more.eq(left[1:].any())
        counts = still & more
        m.d.sync += late.eq(still & ~more & left[0])
        with m.If(~still | more | ~left[0]):
            # A single adder: the selection of its operand goes into its carry cells.
            m.d.sync += left.eq(Mux(counts, left, self.timeout) - counts)
        return late
