"""Limit on the time of an instruction, for endless activity that the watchdog cannot see."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.csr import Fault
from matloom.arch.isa import UNITS, Opcode
from matloom_rtl.control.layouts import RECORD_BITS

__all__ = ["Limit", "late_fault"]


class Limit(wiring.Component):
    """Tell which unit has had the same oldest instruction for more than `limit` cycles of a run.

    An instruction's time begins when its waits are met, or when the one before it in its unit
    completes, where that is later. So it includes stalls of bus and memories, and no waits on other
    units.

    One counter for all units marks periods of `limit` + 1 cycles, and each unit has one bit: its
    oldest instruction has seen a mark. A second mark is one too many. So `late` comes with the
    cycle ``limit + 2`` of an instruction, or later, and with the cycle ``2 * limit + 2`` at the
    latest; a counter and a comparison for each unit would be exact, and larger.

    Members
    -------
    limit: in
        Cycles; 0 for any number. A new value counts from the period under way.
    running: in
        A run is under way.
    busy, done: in
        Of each unit, in the order of `UNITS`: an instruction that may begin has not completed;
        one does, as in `CommandSignature`.
    completed: in
        Instructions that each unit has completed, the last cycle's left out.
    late, unit, index: out
        For one cycle: an instruction has had its time, and has not completed; number of its unit as
        in register FAULT, the first of several, and its own number in it.
    """

    limit: In(32)
    running: In(1)
    busy: In(len(UNITS))
    done: In(len(UNITS))
    completed: In(data.ArrayLayout(RECORD_BITS, len(UNITS)))
    late: Out(1)
    unit: Out(3)
    index: Out(RECORD_BITS)

    def elaborate(self, platform):
        m = Module()
        # From 1: a comparison of what was counted before this cycle costs no adder.
        elapsed = Signal(32, init=1)
        mark = Signal()
        m.d.sync += [
            mark.eq(self.running & ~mark & (self.limit != 0) & (elapsed >= self.limit)),
            elapsed.eq(Mux(mark | ~self.running, 1, elapsed + 1)),
        ]
        every = len(UNITS)
        same = Signal(len(UNITS))
        seen = Signal(len(UNITS))
        m.d.comb += same.eq(self.busy & ~self.done & self.running.replicate(every))
        m.d.sync += seen.eq(same & (seen | mark.replicate(every)))
        for number in reversed(range(every)):
            with m.If(mark & same[number] & seen[number]):
                m.d.comb += [
                    self.late.eq(1),
                    self.unit.eq(1 + number),
                    self.index.eq(self.completed[number]),
                ]
        return m


def late_fault(m: Module, limit: Limit, registers, supervisor, units, exec_met):
    """Connect the limit to the units; return a fault: valid, cause, address, unit, opcode, index.

    Parameters
    ----------
    units:
        Their commands by opcode, in the order of `UNITS`.
    exec_met:
        Whether the head of EXEC's queue waits for nothing: its command is not gated by that.
    """
    busy = (
        unit.busy | (unit.command.valid & (exec_met if opcode is Opcode.EXEC else 1))
        for opcode, unit in units.items()
    )
    m.d.comb += [
        limit.busy.eq(Cat(busy)),
        limit.done.eq(Cat(unit.done for unit in units.values())),
        limit.limit.eq(registers.limit),
        limit.running.eq(supervisor.running),
    ]
    return limit.late, Fault.LIMIT, 0, limit.unit, limit.unit, limit.index
