"""Proof of POST's sequencer: a command stays from its start until all its results are visible."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal

from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.sequencer import Sequencer

__all__ = ["sequencer", "sequencer_proofs"]


def sequencer(unit: Sequencer) -> Claim:
    """Claim that a command is taken, stays, streams and completes once, at the right time.

    Assumes that the last position is requested after the first cycle of a command, and that the
    last result leaves after that.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    shown, latency = unit.unit.command, unit._config.acc_update_latency
    taken = shown.valid & shown.ready
    running = Signal()
    first = Signal()
    kept = Signal.like(unit.command)
    asking = Signal()
    # Cycles since the last result was granted, saturating.
    written = Signal()
    settled = Signal()
    since = Signal(range(latency + 2))
    goes_on = running & ~unit.unit.done
    m.d.sync += [first.eq(taken), written.eq(goes_on & (written | unit.finished))]
    with m.If(taken):
        m.d.sync += [kept.eq(shown.payload), running.eq(1), asking.eq(1)]
    with m.Elif(unit.unit.done):
        m.d.sync += running.eq(0)
    with m.If(unit.asked_all):
        m.d.sync += asking.eq(0)
    m.d.comb += settled.eq(written & ~unit.waiting & ~first)
    m.d.sync += since.eq(Mux(goes_on, since + ((since != 0) | settled), 0))
    m.d.comb += [
        Assume(~unit.asked_all | (asking & ~first)),
        Assume(~unit.finished | (running & ~asking)),
        Assert(shown.ready == (~running & unit.fetched)),
        Assert((unit.start == first) & (unit.unit.busy == running)),
        implies(running, unit.command == kept),
        Assert(unit.streaming == (asking & ~unit.asked_all)),
        # Pulses once, the update latency after the last grant.
        Assert(unit.unit.done == (running & (since == latency))),
        implies(unit.unit.done, unit.unit.done_mark == kept.timestamp),
        Cover(unit.unit.done & (kept.timestamp == 3) & ~asking),
    ]
    _lemmas(m, whitebox, (running, first, asking, written, since))
    return Claim(module=m, ports=inputs_of(unit))


def _lemmas(m: Module, whitebox: Whitebox, state) -> None:
    """Assert invariants for the induction: the sequencer's registers, by its state."""
    running, first, asking, written, since = state
    latency, going = whitebox.unit._config.acc_update_latency, whitebox.in_states
    m.d.comb += [
        Assert(going("Idle", "Begin", "Stream", "Settle")),
        Assert(running == ~going("Idle")),
        Assert(whitebox.register(name="idle") == going("Idle")),
        Assert(first == going("Begin")),
        Assert(going("Settle") == (since != 0)),
        implies(since != 0, whitebox.register(name="settling") + since == latency + 1),
        Assert(since <= latency),
        implies(since != 0, written),
        implies(~going("Idle"), whitebox.register(name="all_written") == written),
        implies(~running | asking, ~written),
        implies(~running, ~asking),
        implies(~first, whitebox.register(name="streams") == asking),
        implies(first, asking & ~whitebox.register(name="streams")),
    ]


def sequencer_proofs(units: list) -> list[Proof]:
    """Return a proof for each sequencer of POST among a chip's units."""
    return [
        Proof(
            kind="places",
            unit="Sequencer",
            statement="a command is taken when idle, is stable until its last result is visible, "
            "streams until its last vector is requested, and is reported once, with its "
            "timestamp, the update latency after the last grant",
            build=lambda unit=unit: sequencer(unit),
            depth=2,
            cover_depth=30,
        )
        for unit in units
        if isinstance(unit, Sequencer)
    ]
