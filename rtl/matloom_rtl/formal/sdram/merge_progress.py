"""Proof that `Merge` never waits forever, as long as memory makes progress."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal

from matloom_rtl.bus.axi import WriteBeat
from matloom_rtl.formal.parts.abstract_queue import AbstractQueue
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.sdram.merge import _ASKED, _BEATS, _LONGEST, _READS, _ROOM, BURSTS, Merge

__all__ = ["progress", "progress_proofs"]

#: Maximum cycles without progress while the unit waits neither for memory nor for the initiator.
_PAUSE = 5

#: Least ranks (`_ranks`) of a partial beat whose read may be sent, and of one whose read must wait
#: for responses. Both exceed the ranks of a read that was sent, its position among all reads.
_MAY, _MUST_WAIT = _ASKED + 1, _ASKED + 3


class _Parts:
    """The submodules of `Merge`, with free inputs instead of its queues and `Unanswered`.

    `ports` are the outputs of the removed submodules, inputs of the claim.
    """

    def __init__(self, m: Module, whitebox: Whitebox):
        self.unit = unit = whitebox.unit

        def flags_of(item):
            """Return whether a write beat is partial, and whether it is the last of its burst."""
            beat = WriteBeat(unit._bits)(item)
            return ~beat.strb.all(), beat.last

        self.queue = AbstractQueue(m, whitebox, "queue", _BEATS, flags_of)
        self.asked = AbstractQueue(m, whitebox, "asked", _ASKED, lambda item: (item,))
        self.found, self.responses, self.beats = (
            AbstractQueue(m, whitebox, name, depth)
            for name, depth in (("found", _READS), ("responses", BURSTS), ("beats", _ROOM))
        )
        for queue in (self.found, self.asked, self.responses):
            queue.shows_at_once(m)
        for queue in (self.queue, self.beats):
            queue.shows_soon(m)
        self.unanswered, self.head, self.whole, self.addresses, self.shown = (
            whitebox.child(name).unit
            for name in ("unanswered", "head", "whole", "addresses", "shown")
        )
        self.ports = [*whitebox.free("unanswered")]
        for name in ("queue", "asked", "responses", "beats"):
            self.ports += whitebox.free(name, "r_data", "r_rdy", "w_rdy")
        self.ports += whitebox.free("found")
        asked, behind = self.asked, self.queue.level - self.queue.unit.r_rdy
        m.d.comb += [
            Assume(behind <= _BEATS - 1),
            Assume(self.queue.unit.w_rdy == (behind != _BEATS - 1)),
            Assume(asked.unit.w_rdy == (asked.level != _ASKED)),
        ]


class _PendingWork:
    """Work in progress, and whom it waits for.

    Members
    -------
    open_, sent:
        Number of write bursts without a response, and of those whose data memory has received
        completely.
    left, beats:
        Number of beats still to come: of the current write burst, and of the initiator's reads.
    lacking:
        Whether there is a partial beat whose read was not sent yet.
    own:
        Number of reads in flight for partial beats.
    taken, passed, mine:
        A write beat is taken in this cycle; a read of the initiator, or of the unit itself, is
        accepted for memory.
    memory, initiator:
        Whether the unit waits for memory, or for the initiator.
    """

    def __init__(self, m: Module, unit: Merge, parts: _Parts):
        write, read, w = unit.memory_write, unit.memory_read, unit.axi_write.w
        asked, begins = parts.asked, parts.unanswered.begin
        self.open_ = Signal(range(BURSTS + 2))
        self.sent = Signal(range(BURSTS + 2))
        self.left = Signal(9)
        self.beats = Signal(10)
        self.lacking = Signal()
        self.taken, self.own = w.valid & w.ready, asked.counts[0]
        self.passed = unit.axi_read.ar.valid & unit.axi_read.ar.ready
        self.mine = asked.unit.w_en & asked.unit.w_data
        come, last = read.r.valid, read.r.payload.last
        others = asked.level - self.own
        aw = unit.axi_write.aw
        self.waiting = Signal.like(aw.payload, name="waiting")
        came = aw.valid & aw.ready
        gone = write.w.valid & write.w.ready & write.w.payload.last
        length = Mux(self.passed, unit.axi_read.ar.payload.len + 1, 0)
        theirs = come & ~asked.unit.r_data
        after, more = self.beats - 1, others - last
        with m.If(came):
            m.d.sync += self.waiting.eq(aw.payload)
        m.d.sync += [
            self.open_.eq(self.open_ + begins - write.b.valid),
            self.sent.eq(self.sent + gone - write.b.valid),
            self.left.eq(Mux(begins, self.waiting.len + 1, self.left - self.taken)),
            self.beats.eq(self.beats + length - theirs),
            self.lacking.eq((self.lacking & ~self.mine) | (self.taken & ~w.payload.strb.all())),
        ]
        m.d.comb += [
            # Memory returns requested beats only, and responds to bursts it has received.
            Assume(~come | (asked.level > parts.addresses.o.valid)),
            Assume(~(come & asked.unit.r_data) | last),
            Assume(~theirs | ((after >= more) & ((more == 0) == (after == 0)))),
            Assume(~write.b.valid | (self.sent != 0)),
            # The initiator marks the last beat of a burst.
            Assume(~w.valid | (self.left == 0) | (w.payload.last == (self.left == 1))),
            Assert((self.beats >= others) & ((others == 0) == (self.beats == 0))),
            implies(parts.whole.o.valid, write.w.valid),
        ]
        shows = read.ar.valid | write.aw.valid | write.w.valid
        self.memory = shows | (asked.level != 0) | (self.sent != 0)
        self.initiator = unit.axi_write.b.valid | unit.axi_read.r.valid
        self.initiator |= (self.left != 0) & ~w.valid


def progress(unit: Merge) -> Claim:
    """Claim that beats leave while memory makes progress, whatever the initiator does.

    Assumes that `Unanswered` reports a beat only if there is a burst older than the newest one, and
    that a beat that is not reported in a cycle is not reported later.
    """
    m = Module()
    whitebox = Whitebox(unit)
    parts = _Parts(m, whitebox)
    m.submodules.unit = whitebox.fragment
    owed, head = _PendingWork(m, unit, parts), parts.head.o
    held = parts.unanswered.held
    held_before = Signal()
    lacked = Signal()
    m.d.sync += [held_before.eq(held), lacked.eq(owed.lacking)]
    m.d.comb += [
        Assume(~(held & owed.lacking) | (owed.open_ > 1)),
        Assume(~(owed.lacking & lacked & ~held_before) | ~held),
        # Lemma: it is known one cycle later that no burst holds the beat.
        Assert(whitebox.register(name="settled") == (lacked & ~held_before)),
    ]
    moves = head.valid & head.ready
    beats = (parts.queue.level != 0) | head.valid
    begins, waits = parts.unanswered.begin, whitebox.register(name="waits")
    asks = unit.axi_read.ar.valid
    goes_on = moves | begins | owed.taken | owed.passed | owed.mine
    alone = Signal(4)
    nobody = Signal(4)
    idle = (beats | waits | asks) & ~goes_on & ~owed.memory & ~owed.initiator
    m.d.sync += [
        alone.eq(Mux(beats & ~moves & ~owed.memory, alone + ~alone.all(), 0)),
        nobody.eq(Mux(idle, nobody + ~nobody.all(), 0)),
    ]
    m.d.comb += [
        Assert(alone <= _PAUSE),
        Assert(nobody <= _PAUSE),
        Cover((alone == 2) & owed.lacking),
    ]
    _lemmas(m, whitebox, parts, owed)
    mark = _ranks(m, whitebox, parts, owed)
    return Claim(module=m, ports=(mark, *parts.ports, *inputs_of(unit)))


def _lemmas(m: Module, whitebox: Whitebox, parts: _Parts, pending: _PendingWork) -> None:
    """Assert invariants: the number of beats, bursts and reads in each queue and in flight."""
    unit, queue, head, whole = parts.unit, parts.queue, parts.head.o, parts.whole.o
    (lacks, lasts), (newest_lacks, newest_last) = queue.counts, queue.newest
    head_lacks, active = head.valid & ~head.payload.strb.all(), pending.left != 0
    head_last, whole_last = head.valid & head.payload.last, whole.valid & whole.payload.last
    own = pending.own + parts.found.level
    freed = Signal()
    shown = parts.shown.o.valid
    m.d.sync += freed.eq(unit.axi_read.r.valid & unit.axi_read.r.ready)
    held = {
        name: whitebox.register(name=name)
        for name in ("waits", "active", "wanted", "owed", "freed")
    }
    promised = pending.beats + parts.beats.level + shown + freed
    waits, waiting = held["waits"], whitebox.register(name="waiting")
    m.d.comb += [
        implies(waits, waiting == pending.waiting.as_value()),
        Assert(held["active"] == active),
        implies(active, whitebox.register(name="left") == (pending.left - 1)[:8]),
        Assert((held["wanted"] == pending.lacking) & (pending.left <= _LONGEST)),
        Assert((held["owed"] == own) & (own <= _READS)),
        Assert(held["freed"] == freed),
        Assert((whitebox.register(name="promised") == promised) & (promised <= _ROOM)),
        Assert(whitebox.register(name="under_way") == pending.open_ + parts.responses.level),
        Assert(pending.open_ + parts.responses.level <= BURSTS),
        # Each partial beat is yet to be requested, requested, or has been read.
        Assert(lacks + head_lacks == own + pending.lacking),
        # Each burst without a response is at memory, or its last beat is here or to come.
        Assert(pending.open_ == pending.sent + lasts + head_last + whole_last + active),
        implies(pending.lacking & (queue.level != 0), newest_lacks & (newest_last == ~active)),
        implies(pending.lacking & (queue.level == 0) & head.valid, head_lacks),
        implies(pending.lacking & (queue.level == 0) & head.valid, head_last == ~active),
    ]


def _ranks(m: Module, whitebox: Whitebox, parts: _Parts, pending: _PendingWork):
    """Claim that every step of memory brings an arbitrary partial beat closer to its data.

    The claim is that a rank never grows, and falls with each step. At first, a step is a response,
    until no older burst contains the beat. Then it is an address sent, of which at most one is the
    initiator's before the beat's own. At last, it is a burst read. Returns the free input that
    selects the beat.
    """
    unit, asked = parts.unit, parts.asked
    mark = Signal(name="mark")
    wants = Signal()
    follows = Signal()
    place = Signal(range(_ASKED + 2))
    rank = Signal(6)
    before = Signal(6)
    settled, recent = (whitebox.register(name=name) for name in ("settled", "recent"))
    lacks = pending.taken & ~unit.axi_write.w.payload.strb.all()
    pops = asked.unit.r_rdy & asked.unit.r_en
    may = parts.addresses.i.ready & asked.unit.w_rdy
    responds, full = unit.memory_write.b.valid, pending.own + parts.found.level == _READS
    with m.If(wants & pending.mine):
        m.d.sync += [wants.eq(0), place.eq(asked.level - pops + 1)]
    with m.Elif(place != 0):
        m.d.sync += place.eq(place - pops)
    with m.If(lacks & mark & ~wants & (place == 0)):
        m.d.sync += wants.eq(1)
    nearer = Signal()
    m.d.comb += rank.eq(
        Mux(place != 0, place, Mux(settled, _MAY + recent, _MUST_WAIT + pending.open_))
    )
    m.d.sync += [
        follows.eq(wants | (place > pops)),
        before.eq(rank),
        nearer.eq(Mux(place != 0, pops, Mux(settled, may & ~full, responds))),
    ]
    m.d.comb += [
        # A queue entry keeps its position and its contents.
        Assume(~((place == 1) & asked.unit.r_rdy) | asked.unit.r_data),
        Assume(~((place > 1) & asked.unit.r_rdy & asked.unit.r_data) | (pending.own > 1)),
        implies(follows, (rank <= before) & (~nearer | (rank < before))),
        # Only memory is being waited for.
        implies(~may, parts.addresses.o.valid | (asked.level == _ASKED)),
        implies(parts.addresses.o.valid, unit.memory_read.ar.valid & (asked.level != 0)),
        # Lemmas.
        implies(wants, pending.lacking & (place == 0)),
        Assert(place <= asked.level),
        implies(place != 0, pending.own != 0),
        Cover((place == 2) & pops),
    ]
    return mark


def progress_proofs(units: list) -> list[Proof]:
    """Return the proof that the write merger never waits forever."""
    return [
        Proof(
            kind="memory",
            unit=f"Merge, progress, {unit._bits} bits",
            statement="while memory owes nothing, a beat leaves within six cycles whatever the "
            "initiator does, and while nobody owes anything there is progress; a beat that must "
            "be read gets closer to it with each response, address and read, behind at most one "
            "more address of the initiator",
            build=lambda unit=unit: progress(unit),
            depth=_PAUSE + 2,
            cover_depth=13,
        )
        for unit in units
        if isinstance(unit, Merge)
    ]
