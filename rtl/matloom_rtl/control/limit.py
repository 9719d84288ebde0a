"""Time limit of an instruction, for endless activity that the watchdog cannot see."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.csr import UNIT_INDEX_BITS, Fault
from matloom.arch.isa import UNITS, Opcode

__all__ = ["Limit", "late_fault"]


class Limit(wiring.Component):
    """Report a unit whose oldest instruction takes more than `limit` cycles of a run.

    An instruction's time starts when its waits are met or when the previous instruction of its unit
    completes, whichever is later. It includes stalls of bus and memories, but no waits on other
    units.

    One counter for all units ends a period every `limit` + 1 cycles, and each unit has one bit: a
    period has ended during its oldest instruction. At the end of a second period the instruction is
    late. So `late` comes between cycle ``limit + 2`` and cycle ``2 * limit + 2`` of an instruction;
    a counter and a comparator for each unit would be exact, but larger.

    Members
    -------
    limit: in
        Cycles; 0 for no limit. A new value applies from the current period on.
    running: in
        A run is in progress.
    busy: in
        For each unit, in the order of `UNITS`: an instruction that may begin has not completed.
    done: in
        For each unit: an instruction completes, as in `CommandSignature`.
    completed: in
        Number of instructions that each unit has completed before this cycle.
    late: out
        For one cycle: an instruction has exceeded its time.
    unit: out
        Code of its unit as in register FAULT; of the first such unit in `UNITS`, if several are
        late.
    index: out
        Index of the instruction within its unit.
    """

    limit: In(32)
    running: In(1)
    busy: In(len(UNITS))
    done: In(len(UNITS))
    completed: In(data.ArrayLayout(UNIT_INDEX_BITS, len(UNITS)))
    late: Out(1)
    unit: Out(3)
    index: Out(UNIT_INDEX_BITS)

    def elaborate(self, platform):
        """Return the module: a timer of periods; instructions that see two of them end are late."""
        m = Module()
        # Starts at 1, so that the comparison needs no adder.
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
    """Connect the limit to the units; return a fault in the form that `offer_fault` takes.

    Parameters
    ----------
    units:
        Command port of each unit, by opcode, in the order of `UNITS`.
    exec_met:
        The waits of the head of EXEC's queue are met. Needed because its command is not gated.
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
