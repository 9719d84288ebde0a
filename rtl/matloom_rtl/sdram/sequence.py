"""Initialises the SDRAM, and refreshes it in time."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.sdram.pins import ControllerPlan

__all__ = ["Sequence"]

#: Cycles from the end of a pause to the first ACTIVATE: one to set `run`, one to examine the bank.
_RESTART = 2


class Sequence(wiring.Component):
    """Initialise the SDRAM (wait, close all banks, refresh, set the mode), then refresh it in time.

    A refresh is due every `timing.refresh_due` cycles and is completed before the next is due. For
    a refresh, `run` falls, the current chunk ends, and all banks are closed as soon as allowed.

    Members
    -------
    run: out
        Chunks may begin; rows may be opened and closed.
    ready: out
        Initialisation is complete.
    idle: in
        No chunk is in progress.
    free: in
        All banks may be closed: from Banks.
    precharge_all, refresh, mode: out
        Command to issue in this cycle.
    """

    run: Out(1)
    ready: Out(1)
    idle: In(1)
    free: In(1)
    precharge_all: Out(1)
    refresh: Out(1)
    mode: Out(1)

    def __init__(self, plan: ControllerPlan):
        self._timing = plan.waits
        super().__init__()

    def elaborate(self, platform):
        """Return the module: a state machine, with counters of pauses and refreshes."""
        m = Module()
        timing = self._timing
        due, owed = self._due(m)
        pause = Signal(range(max(timing.rfc, timing.rp, timing.mrd) + 1))
        over = Signal()
        left = Signal(range(max(timing.initial_refreshes, 2)), init=timing.initial_refreshes - 1)
        # Wait after power-up, in refresh intervals: no refresh is due before it ends.
        wait = Signal(range(timing.power_up // timing.refresh_due + 2))
        m.d.comb += over.eq(pause == 0)
        m.d.sync += pause.eq(Mux(over, 0, pause - 1))
        with m.FSM():
            with m.State("Wait"), m.If(due):
                m.d.sync += wait.eq(wait + 1)
                with m.If(wait == timing.power_up // timing.refresh_due):
                    m.next = "Close"
            with m.State("Drain"), m.If(self.idle & self.free):
                m.next = "Close"
            with m.State("Close"):
                m.d.comb += self.precharge_all.eq(1)
                m.d.sync += pause.eq(timing.rp - 1)
                m.next = "Refresh"
            with m.State("Refresh"), m.If(over):
                m.d.comb += self.refresh.eq(1)
                m.d.sync += [pause.eq(timing.rfc - 1), owed.eq(0)]
                with m.If(left != 0):
                    m.d.sync += left.eq(left - 1)
                with m.Elif(self.ready):
                    m.d.sync += pause.eq(max(timing.rfc - 1 - _RESTART, 0))
                    m.next = "Settle"
                with m.Else():
                    m.next = "Mode"
            with m.State("Mode"), m.If(over):
                m.d.comb += self.mode.eq(1)
                m.d.sync += pause.eq(timing.mrd - 1)
                m.next = "Settle"
            with m.State("Settle"), m.If(over):
                m.d.sync += self.ready.eq(1)
                m.next = "Run"
            with m.State("Run"):
                m.d.comb += self.run.eq(1)
                with m.If(owed):
                    m.next = "Drain"
        return m

    def _due(self, m: Module):
        """Return a pulse when a refresh becomes due, and a register: one is due and not issued."""
        cycles = self._timing.refresh_due
        timer = Signal(range(cycles))
        due = Signal()
        owed = Signal()
        m.d.sync += [timer.eq(timer + 1), due.eq(timer == cycles - 2)]
        with m.If(due):
            m.d.sync += [timer.eq(0), owed.eq(1)]
        return due, owed
