"""Proof of the words at an SDRAM's data pins: when each is driven, and when it is captured."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal

from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.pipeline import Pipeline
from matloom_rtl.formal.parts.whitebox import inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.sdram.datapath import DataPath

__all__ = ["datapath", "datapath_proofs"]


def datapath(unit: DataPath) -> Claim:
    """Claim when the words of a WRITE and their masks are at the pins, and the words of a READ.

    Assumes that no WRITE comes during the words of another WRITE, or before the controller is
    ready.
    """
    m = Module()
    m.submodules.unit = unit
    plan = unit._plan
    latency, burst, width = plan.waits.cas_latency, plan.burst, plan.word_bits
    pipeline = Pipeline(m, unit.latency)
    _sends(m, unit, burst)
    # READ is at the pins one cycle after it is issued, and its first word follows after the
    # latency.
    first = 1 + latency + plan.pin_cycles
    words = [pipeline.before(unit.dq_i, unit.latency - first - k) for k in range(burst)]
    found = unit.read_data
    pipeline.claim(unit.give == pipeline.before(unit.read))
    pipeline.claim(found.last == pipeline.before(unit.final))
    pipeline.claim(found.id == pipeline.before(unit.id))
    pipeline.claim(~unit.give | (found.data == Cat(words)))
    pipeline.reach(unit.give & found.last & (found.data == (1 << width * burst) - 2))
    return Claim(module=m, ports=inputs_of(unit))


def _sends(m: Module, unit: DataPath, burst: int) -> None:
    """Claim the words driven from the cycle after a WRITE on, and that nothing else is driven."""
    width, data = unit._plan.word_bits, unit.write_data
    beat = Signal.like(data.as_value())
    ago = Signal(range(burst + 1), init=burst)
    was_ready = Signal()
    masks = width // 8
    kept = data.shape()(beat)
    m.d.sync += [ago.eq(Mux(unit.write, 0, ago + (ago != burst))), was_ready.eq(unit.ready)]
    with m.If(unit.write):
        m.d.sync += beat.eq(data)
    m.d.comb += [
        Assume(~unit.write | ((ago >= burst - 1) & unit.ready)),
        Assume(~was_ready | unit.ready),
        Assert((ago <= burst) & (unit.oe == (ago < burst))),
        # READs are not masked; before `ready` all bytes are.
        Assert((ago == burst) | was_ready),
        implies(ago == burst, unit.dqm == Mux(was_ready, 0, (1 << masks) - 1)),
        Cover((ago == 0) & (unit.dqm == 1)),
    ]
    for k in range(burst):
        here, strobes = ago == k, kept.strb[masks * k :][:masks]
        m.d.comb += [
            implies(here, unit.dq_o == kept.data[width * k :][:width]),
            implies(here, unit.dqm == ~strobes),
        ]


def datapath_proofs(units: list) -> list[Proof]:
    """Return the proof for the data path of an SDRAM."""
    return [
        Proof(
            kind="memory",
            unit=f"DataPath, beats of {unit._plan.burst} words",
            statement="the words of a WRITE are at the pins from its cycle on, in order, with "
            "their byte masks; the words of a READ are captured from the CAS latency on, in order",
            build=lambda unit=unit: datapath(unit),
            depth=unit.latency + 2,
            cover_depth=unit.latency + 4,
        )
        for unit in units
        if isinstance(unit, DataPath)
    ]
