"""The register port: every request answered once, in time, and answers that wait unchanged."""

from amaranth.hdl import Assert, Cover, Module, Signal

from matloom_rtl.control.csr import Registers
from matloom_rtl.formal.channel import implies, stays
from matloom_rtl.formal.inside import Inside, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["register_proofs", "registers"]

#: Cycles to an answer from the later of address and word, and from the address of a read; a read
#: waits for a write, and for a counter until that is shown.
_WRITE_CYCLES, _READ_CYCLES = 1, 2


def registers(unit: Registers) -> Claim:
    """Claim `valid_stays`, `payload_stays`, `answer_owed` and `response_code` of both answers.

    One request of each sort is inside at most. The time of an answer is bounded where no counter is
    waited for.
    """
    m = Module()
    inside = Inside(unit)
    m.submodules.unit = inside.fragment
    bus = unit.bus
    for channel in (bus.b, bus.r):
        stays(m, channel)
    address, word = (_inside(m, channel, bus.b) for channel in (bus.aw, bus.w))
    parts = inside.register(name="have_address"), inside.register(name="have_word")
    stages = inside.register(name="looking"), inside.register(name="looked")
    read = _inside(m, bus.ar, bus.r)
    written = _waited(m, address & word & ~bus.b.valid)
    looked = _waited(m, read & ~bus.r.valid & unit.counter_shown & ~(address & word))
    m.d.comb += [
        # Rule answer_owed, and no second request before the answer.
        implies(bus.b.valid, address & word),
        implies(bus.r.valid, read),
        implies(bus.aw.ready, ~address),
        implies(bus.w.ready, ~word),
        implies(bus.ar.ready, ~read),
        # Lemmas: a read is in one stage; with the answer, both parts of a write are gone.
        Assert(stages[0] + stages[1] + bus.r.valid == read),
        implies(bus.b.valid, ~(parts[0] | parts[1])),
        # Nothing is refused for ever: a request is taken when none of its sort is inside.
        implies(~address & ~bus.b.valid, bus.aw.ready),
        implies(~word & ~bus.b.valid, bus.w.ready),
        implies(~read, bus.ar.ready),
        Assert(written <= _WRITE_CYCLES),
        Assert(looked <= _READ_CYCLES),
        # Rule response_code: OKAY or SLVERR.
        implies(bus.b.valid, ~bus.b.payload[0]),
        implies(bus.r.valid, ~bus.r.payload.resp[0]),
        Cover(bus.b.valid & bus.r.valid & (bus.b.payload == 0) & (bus.r.payload.resp == 2)),
    ]
    return Claim(module=m, ports=inputs_of(unit))


def _inside(m: Module, request, answer) -> Signal:
    """Return whether a request was taken whose answer was not."""
    there = Signal()
    with m.If(request.valid & request.ready):
        m.d.sync += there.eq(1)
    with m.Elif(answer.valid & answer.ready):
        m.d.sync += there.eq(0)
    return there


def _waited(m: Module, waits) -> Signal:
    """Return for how many cycles something has waited, seven at most."""
    count = Signal(3)
    m.d.sync += count.eq(0)
    with m.If(waits):
        m.d.sync += count.eq(count + ~count.all())
    return count


def register_proofs(units: list) -> list[Proof]:
    """Return the proof for the registers of a chip."""
    return [
        Proof(
            kind="bus",
            unit="Registers",
            statement="B and R wait unchanged; every request is answered once, in two and three "
            "cycles where no other access or counter is waited for, with OKAY or SLVERR",
            build=lambda unit=unit: registers(unit),
            depth=5,
            cover_depth=15,
        )
        for unit in units
        if isinstance(unit, Registers)
    ]
