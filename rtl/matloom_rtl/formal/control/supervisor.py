"""Proof of the run state: a run without progress ends with a fault, and the first fault is kept."""

from amaranth.hdl import Assert, Cat, Cover, Module, Mux, Signal

from matloom.arch.csr import Fault
from matloom_rtl.control.supervisor import Supervisor
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["supervisor", "supervisor_proofs"]


def supervisor(unit: Supervisor) -> Claim:
    """Claim when the watchdog fires, what is recorded about a fault, and how long the record stays.

    The reference counts the cycles of a run without progress, up to the limit that applied before
    they began; without a limit it does not count.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    left, late = whitebox.register(name="left"), whitebox.register(name="late")
    still = Signal()
    idle = Signal(32)
    limit = Signal(32)
    bites = Signal()
    m.d.comb += still.eq(unit.running & ~unit.progress)
    with m.If(still & (limit != 0)):
        m.d.sync += [idle.eq(idle + (idle != limit)), bites.eq(idle + 1 >= limit)]
    with m.Else():
        m.d.sync += [limit.eq(unit.timeout), idle.eq(0), bites.eq(0)]
    m.d.comb += [
        Assert(late == bites),
        # Lemmas: it counts down to one, and stays there.
        Assert(idle <= limit),
        Assert(left == Mux((limit != 0) & (idle == limit), 1, limit - idle)),
    ]
    record = Cat(unit.record, unit.record_index, unit.record_address)
    failed = unit.status[2]
    wanted = Signal(len(record))
    _drive_expected_record(m, unit, failed, bites, wanted)
    m.d.comb += [
        Assert(record == wanted),
        # A run ends with its fault, and nothing starts before a reset.
        implies(failed, ~unit.running & ~unit.begin),
        Cover(failed & (unit.record[:4] == Fault.TIMEOUT) & (unit.record_index == 3)),
        Cover(failed & (unit.record[:4] == Fault.AXI_READ)),
    ]
    return Claim(module=m, ports=inputs_of(unit))


def _drive_expected_record(m: Module, unit: Supervisor, failed, bites, wanted) -> None:
    """Drive `wanted`, the expected fault record: that of this cycle until a run has failed.

    A fault is either reported by a unit, or one of the watchdog (`bites`). `failed`: a run has
    ended with a fault.
    """
    faulty = unit.fault_cause != 0
    units = Mux(faulty, unit.fault_unit, unit.busy_unit)
    opcode = Mux(faulty, unit.fault_opcode, unit.busy_unit)
    cause = Mux(faulty, unit.fault_cause, Fault.TIMEOUT)
    word = Signal(12)
    m.d.comb += word.eq(cause | units << 4 | opcode << 8)
    now = Cat(word, unit.fault_index, unit.fault_address)
    with m.If(unit.core_reset):
        m.d.sync += wanted.eq(0)
    with m.Elif(~(failed | unit.events[1])):
        m.d.sync += wanted.eq(Mux(unit.running & (faulty | bites), now, 0))


def supervisor_proofs(units: list) -> list[Proof]:
    """Return the proof for the run state of a chip."""
    return [
        Proof(
            kind="faults",
            unit="Supervisor",
            statement="the watchdog fires exactly in the cycle in which its limit is reached; the "
            "first fault of a run is recorded with unit, opcode, index and address, and is kept "
            "until a reset",
            build=lambda unit=unit: supervisor(unit),
            depth=2,
            cover_depth=20,
        )
        for unit in units
        if isinstance(unit, Supervisor)
    ]
