"""Proof of the register port: every request is answered once, in time, and answers stay."""

from amaranth.hdl import Array, Assert, Cat, Cover, Module, Mux, Signal

from matloom.arch.csr import register
from matloom.arch.isa import Region
from matloom_rtl.control.csr import ASKERS, Registers
from matloom_rtl.control.places import place_of
from matloom_rtl.formal.parts.channel import implies, stays
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["register_proofs", "registers"]

#: Maximum cycles for which a write with address and word, and a read, wait for their response. A
#: read also waits for a write, and for a counter to be shown.
_WRITE_CYCLES, _READ_CYCLES = 1, 2


def registers(unit: Registers) -> Claim:
    """Claim the bus rules of both response channels, B and R: every request is answered once.

    The rules are `valid_stays`, `payload_stays`, `answer_owed` and `response_code`. At most one
    read and one write are in progress. The response time is bounded, not counting cycles in which a
    read waits for a write or for a counter.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    bus = unit.bus
    for channel in (bus.b, bus.r):
        stays(m, channel)
    address, word = (_is_outstanding(m, channel, bus.b) for channel in (bus.aw, bus.w))
    parts = whitebox.register(name="have_address"), whitebox.register(name="have_word")
    stages = whitebox.register(name="looking"), whitebox.register(name="looked")
    read = _is_outstanding(m, bus.ar, bus.r)
    written = _waiting_cycles(m, address & word & ~bus.b.valid)
    looked = _waiting_cycles(m, read & ~bus.r.valid & unit.counter_shown & ~(address & word))
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
        # Nothing is refused forever: a request is taken when none of its kind is in progress.
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
    _bases_stay(m, unit, whitebox)
    return Claim(module=m, ports=inputs_of(unit))


def _bases_stay(m: Module, unit: Registers, whitebox: Whitebox) -> None:
    """Claim that the base of a requested region stays while the engine runs.

    This holds from the second cycle in which the engine runs and the region is requested.
    """
    _read_at, store_at = whitebox.addresses("stored")
    storing = whitebox.register(name="$signature__en")
    known = whitebox.register(name="known")
    places = [place_of(register(f"{each.name}_BASE").offset) for each in Region]
    runs = Signal(2)
    m.d.sync += runs.eq(Mux(unit.running, runs + ~runs.all(), 0))
    stored = Cat(store_at == place for place in places).any()
    m.d.comb += implies(unit.running & (runs != 0), ~(storing & stored))
    for number in range(ASKERS):
        region, base = unit.base_regions[number], unit.bases[number]
        place = Array(places)[region]
        found = Mux(known.bit_select(place, 1), whitebox.peek("stored", place), 0)
        asked = Signal.like(region, name=f"asked_{number}")
        was = Signal(32, name=f"was_{number}")
        shown = Signal(32, name=f"shown_{number}")
        steady = Signal(2, name=f"steady_{number}")
        same = (region == asked) & unit.running & (runs != 0)
        m.d.sync += [asked.eq(region), was.eq(found), shown.eq(base)]
        m.d.sync += steady.eq(Mux(same, steady + ~steady.all(), 0))
        m.d.comb += [
            # Lemmas: the stored value is stable, and is shown after a turn of each unit.
            implies(same & (steady != 0), found == was),
            implies(same & (steady == 3), base == found),
            implies(same & (steady == 3) & (shown == was), base == shown),
        ]


def _is_outstanding(m: Module, request, answer) -> Signal:
    """Return whether a request was taken and its answer was not, given both channels."""
    there = Signal()
    with m.If(request.valid & request.ready):
        m.d.sync += there.eq(1)
    with m.Elif(answer.valid & answer.ready):
        m.d.sync += there.eq(0)
    return there


def _waiting_cycles(m: Module, waits) -> Signal:
    """Return the number of consecutive earlier cycles with `waits`, saturating at seven."""
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
            statement="B and R are stable until taken; every request is answered once, with OKAY "
            "or SLVERR, within two and three cycles unless it waits for another access or a "
            "counter; the base of a region is stable while the engine runs",
            build=lambda unit=unit: registers(unit),
            depth=5,
            cover_depth=15,
        )
        for unit in units
        if isinstance(unit, Registers)
    ]
