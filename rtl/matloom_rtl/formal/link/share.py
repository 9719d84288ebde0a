"""Proofs of the memory port shared by engine and link: each gets its own bursts and responses."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal, signed

from matloom_rtl.formal.parts.channel import assume_stays, implies, stays
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.link.share import Share

__all__ = ["share_proofs", "share_reads", "share_writes"]

#: Maximum number of bursts whose data precede their address; the unit can count more.
_AHEAD = 64


class _Offered:
    """Claims about a channel to memory, which passes on an item of the engine or of the link.

    Members
    -------
    engine, link:
        Whether an item of the engine, or of the link, is taken in this cycle.
    """

    def __init__(self, m: Module, engine, link, out):
        self.engine, self.link = engine.valid & engine.ready, link.valid & link.ready
        goes, item = out.valid & out.ready, out.payload.as_value()
        for one in (engine, link):
            assume_stays(m, one)
        stays(m, out)
        m.d.comb += [
            Assert(goes == (self.engine | self.link)),
            Assert(~(self.engine & self.link)),
            implies(self.engine, item == engine.payload.as_value()),
            implies(self.link, item == link.payload.as_value()),
        ]


class _Answered:
    """Claims about a response channel: items go to the link if `of_link`, else to the engine.

    Members
    -------
    engine, link:
        Whether the engine, or the link, takes an item in this cycle.
    """

    def __init__(self, m: Module, engine, link, out, of_link):
        self.engine, self.link = engine.valid & engine.ready, link.valid & link.ready
        item = out.payload.as_value()
        m.d.comb += [
            Assert((engine.valid | link.valid) == out.valid),
            # Its owner, and when the owner takes it.
            implies(out.valid, (link.valid == of_link) & (engine.valid == ~of_link)),
            implies(out.valid, out.ready == Mux(of_link, link.ready, engine.ready)),
            implies(engine.valid, engine.payload.as_value() == item),
            implies(link.valid, link.payload.as_value() == item),
        ]


def share_reads(unit: Share) -> Claim:
    """Claim that read bursts are issued once, and that their beats return only to their sender.

    Assumes that memory returns only requested beats, that the engine has no more bursts in flight
    than allowed, and that the link requests one beat at a time.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    engine, link, out = unit.engine_read, unit.link_read, unit.axi_read
    bursts = Signal(range(unit._most + 1))
    asked = Signal()
    ar = _Offered(m, engine.ar, link.ar, out.ar)
    r = _Answered(m, engine.r, link.r, out.r, asked)
    last = out.r.payload.last
    m.d.sync += [
        bursts.eq(bursts + ar.engine - (r.engine & last)),
        asked.eq(ar.link | (asked & ~(r.link & last))),
    ]
    waits, owned = (whitebox.register(name=name) for name in ("ar_waits", "reads_owned"))
    m.d.comb += [
        Assume(~ar.engine | (bursts != unit._most)),
        Assume(~out.r.valid | asked | (bursts != 0)),
        Assume(~(out.r.valid & asked) | last),
        Assume(~(link.ar.valid & asked)),
        # Bursts of engine and link are never in flight together.
        Assert(~asked | (bursts == 0)),
        implies(ar.link, bursts == 0),
        implies(ar.engine, ~asked),
        # Lemmas: the unit's registers.
        Assert((whitebox.register(name="reads_under_way") == bursts) & (bursts <= unit._most)),
        implies(asked, owned),
        implies(owned, (bursts == 0) & (asked | link.ar.valid)),
        implies(waits, ~owned),
        Cover((bursts == 2) & r.engine & link.ar.valid),
        Cover(r.link & engine.ar.valid),
    ]
    return Claim(module=m, ports=inputs_of(unit))


def share_writes(unit: Share) -> Claim:
    """Claim that write bursts are issued once, and that responses return only to their sender.

    Addresses and data may come in any order. Assumes that memory responds only to complete bursts,
    that the engine has no more bursts in flight than allowed, and that the link writes one beat at
    a time.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    engine, link, out = unit.engine_write, unit.link_write, unit.axi_write
    # Bursts without a response whose address was sent, or all data; a burst's data is in progress.
    addresses = Signal(range(unit._most + 1))
    bursts = Signal(8)
    goes_on = Signal()
    asked = Signal()
    sent = Signal()
    aw = _Offered(m, engine.aw, link.aw, out.aw)
    w = _Offered(m, engine.w, link.w, out.w)
    b = _Answered(m, engine.b, link.b, out.b, asked & sent)
    last = engine.w.payload.last
    m.d.sync += [
        addresses.eq(addresses + aw.engine - b.engine),
        bursts.eq(bursts + (w.engine & last) - b.engine),
        goes_on.eq(Mux(w.engine, ~last, goes_on)),
        *(asked.eq(aw.link | (asked & ~b.link)), sent.eq(w.link | (sent & ~b.link))),
    ]
    some = (addresses != 0) | (bursts != 0) | goes_on
    m.d.comb += [
        Assume(~aw.engine | (addresses != unit._most)),
        Assume(~w.engine | goes_on | (bursts != _AHEAD)),
        Assume(~out.b.valid | (asked & sent) | ((addresses != 0) & (bursts != 0))),
        Assume(~(link.aw.valid & asked)),
        Assume(~link.w.valid | (~sent & link.w.payload.last)),
        Assert(~(asked | sent) | ~some),
        implies(aw.link | w.link, ~some),
        implies(aw.engine | w.engine, ~(asked | sent)),
    ]
    waiting, waits, counted, owned = (
        whitebox.register(name=name)
        for name in ("aw_waits", "w_waits", "writes_under_way", "writes_owned")
    )
    ahead = Signal(signed(9))
    m.d.comb += [
        ahead.eq(addresses - bursts - goes_on),
        Assert((counted == addresses) & (addresses <= unit._most)),
        Assert((whitebox.register(name="ahead") == ahead) & (bursts + goes_on <= _AHEAD)),
        Assert(whitebox.register(name="inside") == goes_on),
        implies(asked | sent, owned),
        implies(owned, ~some & (asked | sent | link.aw.valid | link.w.valid)),
        implies(waiting | waits, ~owned),
        Cover(b.engine & link.aw.valid & (addresses == 2) & engine.w.valid),
        Cover(b.link & engine.aw.valid),
        # Data before their address.
        Cover(goes_on & (addresses == 0) & link.w.valid),
    ]
    return Claim(module=m, ports=inputs_of(unit))


def share_proofs(units: list) -> list[Proof]:
    """Return the proofs for the ports shared by engine and link among `units`."""
    claims = {"reads": share_reads, "writes": share_writes}
    return [
        Proof(
            kind="memory",
            unit=f"Share, {name}",
            statement="bursts of engine and link are issued once, unchanged, and are never in "
            "flight together; beats and responses return once, to their owner",
            build=lambda claim=claim, unit=unit: claim(unit),
            depth=2,
            cover_depth=20,
        )
        for unit in units
        if isinstance(unit, Share)
        for name, claim in claims.items()
    ]
