"""Proof of `Merge`: its requests to memory, their owners, and room for all responses."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal

from matloom_rtl.formal.parts.channel import implies, stays
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.sdram.merge import _ASKED, _READS, _ROOM, BURSTS, Merge

__all__ = ["merge", "merge_proofs"]

#: Amaranth's queues within the unit, and its other submodules, which have a signature.
_QUEUES = ("queue", "responses", "asked", "beats")
_OWN = ("unanswered", "found", "head", "whole", "addresses", "shown")


class _Parts:
    """Free inputs instead of the submodules of `Merge`, which are proven separately.

    Members
    -------
    ports:
        The outputs of the removed submodules, inputs of the claim.
    level:
        Number of items in a queue, by its name, including the one shown.
    """

    def __init__(self, m: Module, whitebox: Whitebox):
        self.ports = []
        units = {name: whitebox.child(name).unit for name in (*_QUEUES, *_OWN)}
        self.queue, self.responses = units["queue"], units["responses"]
        self.asked, self.beats = units["asked"], units["beats"]
        self.unanswered, self.found = units["unanswered"], units["found"]
        self.head, self.whole = units["head"], units["whole"]
        self.addresses, self.shown = units["addresses"], units["shown"]
        for name in units:
            outputs = ("r_data", "r_rdy", "w_rdy") if name in _QUEUES else ()
            self.ports += whitebox.free(name, *outputs)
        self.level = {}
        places = {"responses": BURSTS, "asked": _ASKED, "beats": _ROOM, "found": _READS}
        for name, depth in places.items():
            queue = units[name]
            level = Signal(range(depth + 2), name=f"level_{name}")
            m.d.sync += level.eq(level + queue.w_en - (queue.r_rdy & queue.r_en))
            m.d.comb += [
                Assume(~queue.r_rdy | (level != 0)),
                # This unit must not overfill any queue.
                implies(queue.w_en, level < depth),
                Assert(level <= depth),
            ]
            self.level[name] = level
        m.d.comb += Assume(self.asked.w_rdy == (self.level["asked"] != _ASKED))


def merge(unit: Merge) -> Claim:
    """Claim that partial beats are read once at their address, and completed in order.

    Assumes that memory returns only requested beats and responses, in order. `Unanswered` is
    removed, and may say anything about whether an older burst contains a beat.
    """
    m = Module()
    whitebox = Whitebox(unit)
    parts = _Parts(m, whitebox)
    m.submodules.unit = whitebox.fragment
    stays(m, unit.memory_write.aw)
    _responses(m, whitebox, parts)
    lacking, place = _claim_inputs(m, whitebox, parts)
    _claim_requests(m, whitebox, parts, (lacking, place))
    _claim_outputs(m, unit, parts)
    return Claim(module=m, ports=(*parts.ports, *inputs_of(unit)))


def _responses(m: Module, whitebox: Whitebox, parts: _Parts) -> None:
    """Claim that each response from memory is passed on once, and has room."""
    unit, queue, level = whitebox.unit, parts.responses, parts.level["responses"]
    come, b = unit.memory_write.b, unit.axi_write.b
    open_ = Signal(range(BURSTS + 2))
    m.d.sync += open_.eq(open_ + parts.unanswered.begin - come.valid)
    m.d.comb += [
        Assume(~come.valid | (open_ != 0)),
        Assert(come.ready & (queue.w_en == come.valid)),
        Assert(parts.unanswered.answered == come.valid),
        Assert(queue.w_data == come.payload.as_value()),
        Assert((b.valid == queue.r_rdy) & (queue.r_en == b.ready)),
        Assert(b.payload.as_value() == queue.r_data),
        Assert(whitebox.register(name="under_way") == open_ + level),
        Assert(open_ + level <= BURSTS),
    ]


def _claim_inputs(m: Module, whitebox: Whitebox, parts: _Parts):
    """Claim that write bursts and beats enter unchanged.

    Returns whether there is a partial beat whose read was not sent yet, and the beat's index: its
    address divided by the bytes of a beat.
    """
    unit, begins, queue = whitebox.unit, parts.unanswered.begin, parts.queue
    aw, w, out = unit.axi_write.aw, unit.axi_write.w, unit.memory_write.aw
    low, width = unit._index_bits, 32 - unit._index_bits
    came, beat = aw.valid & aw.ready, w.valid & w.ready
    waits = Signal()
    waiting = Signal.like(aw.payload)
    sent = Signal.like(aw.payload)
    left = Signal(9)
    at = Signal(width)
    lacking = Signal()
    place = Signal(width)
    asked = parts.asked.w_en & parts.asked.w_data
    with m.If(beat):
        m.d.sync += [left.eq(left - 1), at.eq(at + 1)]
    with m.If(begins):
        m.d.sync += [waits.eq(0), sent.eq(waiting), left.eq(waiting.len + 1)]
        m.d.sync += at.eq(waiting.addr[low:])
    with m.If(came):
        m.d.sync += [waits.eq(1), waiting.eq(aw.payload)]
    with m.If(asked):
        m.d.sync += lacking.eq(0)
    with m.If(beat & ~w.payload.strb.all()):
        m.d.sync += [lacking.eq(1), place.eq(at)]
    names = ("waits", "active", "wanted", "place")
    held = {name: whitebox.register(name=name) for name in names}
    m.d.comb += [
        implies(came, ~waits),
        implies(begins, waits & ((left == 0) | ((left == 1) & beat))),
        implies(
            begins, parts.unanswered.start == waiting.addr[low:][: len(parts.unanswered.start)]
        ),
        implies(begins, parts.unanswered.len == waiting.len),
        implies(out.valid, out.payload == sent),
        # A beat is taken within its burst, and only when the one before is complete or requested.
        implies(beat, (left != 0) & ~lacking),
        Assert((queue.w_en == beat) & (queue.w_data == w.payload.as_value())),
        implies(beat, queue.w_rdy),
        # Its burst stays the newest until the beat is requested.
        implies(lacking, ~begins),
        # Lemmas.
        Assert((held["waits"] == waits) & (held["active"] == (left != 0))),
        implies(waits, whitebox.register(name="waiting") == waiting.as_value()),
        implies(left != 0, whitebox.register(name="left") == (left - 1)[:8]),
        implies(left != 0, whitebox.register(name="current") == at),
        Assert((held["wanted"] == lacking) & (left <= 1 << 8)),
        implies(lacking, held["place"] == place),
    ]
    return lacking, place


def _claim_requests(m: Module, whitebox: Whitebox, parts: _Parts, wanted) -> None:
    """Claim which reads are sent to memory, who gets their data, and that the data have room."""
    unit, (lacking, place) = whitebox.unit, wanted
    ar, come, low = unit.axi_read.ar, unit.memory_read.r, unit._index_bits
    asked, found, beats, i = parts.asked, parts.found, parts.beats, parts.addresses.i
    goes, mine = i.valid & i.ready, asked.w_en & asked.w_data
    passed, leaves = ar.valid & ar.ready, unit.axi_read.r.valid & unit.axi_read.r.ready
    owed = Signal(10)
    own = Signal(range(_READS + 2))
    freed = Signal()
    shown = parts.shown
    free = Signal()
    of_own = come.valid & asked.r_data
    m.d.sync += [
        owed.eq(owed + Mux(passed, ar.payload.len + 1, 0) - (come.valid & ~asked.r_data)),
        own.eq(own + mine - of_own),
        *(freed.eq(leaves), free.eq(lacking & ~parts.unanswered.held)),
    ]
    # The register between queue and initiator.
    inner = Signal()
    m.d.sync += inner.eq(Mux(shown.i.ready, shown.i.valid, inner))
    places = owed + parts.level["beats"] + inner + freed
    m.d.comb += [
        Assume(~come.valid | asked.r_rdy),
        Assume(~of_own | ((own != 0) & come.payload.last)),
        Assume(~come.valid | asked.r_data | (owed != 0)),
        Assume((shown.o.valid == inner) & (shown.i.ready == (~inner | shown.o.ready))),
        # An address is sent together with a record of its owner.
        Assert((goes == asked.w_en) & (goes == (passed | mine)) & ~(passed & mine)),
        implies(passed, i.payload == ar.payload),
        implies(mine, lacking & free & (i.payload.addr == place << low)),
        implies(mine, (i.payload.len == 0) & (i.payload.id == 0)),
        # Returned beats belong to the oldest owner.
        Assert(come.ready & (asked.r_en == (come.valid & come.payload.last))),
        Assert((found.w_en == of_own) & (beats.w_en == (come.valid & ~asked.r_data))),
        implies(found.w_en, found.w_data == come.payload.data),
        implies(beats.w_en, beats.w_data == come.payload.as_value()),
        Assert((shown.i.valid == beats.r_rdy) & (beats.r_en == shown.i.ready)),
        Assert(shown.i.payload.as_value() == beats.r_data),
        # Lemmas: promised places, and bursts in flight.
        Assert((whitebox.register(name="promised") == places) & (places <= _ROOM)),
        Assert(whitebox.register(name="freed") == freed),
        Assert(whitebox.register(name="owed") == own + parts.level["found"]),
        Assert(own + parts.level["found"] <= _READS),
        implies(whitebox.register(name="settled") & lacking, free),
        Cover(mine & (own == 1) & (parts.level["beats"] == 2)),
    ]


def _claim_outputs(m: Module, unit: Merge, parts: _Parts) -> None:
    """Claim that each beat leaves once, in order, with bytes without strobes from memory."""
    head, whole, found, queue = parts.head, parts.whole, parts.found, parts.queue
    beat, out, w = head.o.payload, whole.i.payload, unit.memory_write.w
    lacks = ~beat.strb.all()
    merges = Signal()
    moves = head.o.valid & head.o.ready
    masked = Cat(strobe.replicate(8) for strobe in beat.strb)
    m.d.comb += [
        merges.eq(found.r_en & found.r_rdy),
        Assert((head.i.valid == queue.r_rdy) & (queue.r_en == head.i.ready)),
        Assert(head.i.payload.as_value() == queue.r_data),
        Assert(moves == (whole.i.valid & whole.i.ready)),
        Assert(found.r_en == (moves & lacks)),
        implies(found.r_en, found.r_rdy),
        implies(moves, out.data == ((beat.data & masked) | (found.r_data & ~masked))),
        implies(moves, out.last == beat.last),
        Assert((w.valid == whole.o.valid) & (whole.o.ready == w.ready)),
        Assert((w.payload.data == whole.o.payload.data) & w.payload.strb.all()),
        Assert(w.payload.last == whole.o.payload.last),
        Cover(merges & (beat.strb == 1) & (found.r_data != beat.data)),
    ]


def merge_proofs(units: list) -> list[Proof]:
    """Return a proof for each `Merge` among the units."""
    return [
        Proof(
            kind="memory",
            unit=f"Merge, {unit._bits} bits",
            statement="bursts are passed on once, unchanged; a partial beat is read once, at its "
            "address, before the next is taken; beats leave in order, complete; data from memory "
            "goes to its requester, and has room",
            build=lambda unit=unit: merge(unit),
            depth=2,
            cover_depth=20,
        )
        for unit in units
        if isinstance(unit, Merge)
    ]
