"""Proofs of units before an SDRAM: chunks of bursts, room for read data, and unanswered writes."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Fragment, Module, Mux, Signal

from matloom.arch.config import Config
from matloom.arch.sdram import load_sdram
from matloom_rtl.formal.parts.channel import implies, stays
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of, owners
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.link.share import Share
from matloom_rtl.sdram.chunks import Chunks
from matloom_rtl.sdram.controller import SdramController
from matloom_rtl.sdram.merge import Merge
from matloom_rtl.sdram.port import Port
from matloom_rtl.sdram.unanswered import COMPARED_BITS, Unanswered

__all__ = ["chunks", "memory_proofs", "memory_units", "read_room", "unanswered_beats"]

#: An SDRAM with 16 data bits, which suits all widths of the bus, and a clock that it allows.
_PART, _CLOCK_HZ = "IS42S16160", 54_000_000


def memory_units(config: Config) -> list:
    """Return an SDRAM controller, a `Share` and a `Merge`, each with all units that it contains."""
    controller = SdramController(
        load_sdram(_PART),
        clock_hz=_CLOCK_HZ,
        bus_bits=config.bus_bits,
        burst_beats=config.burst_beats,
    )
    parts = (controller, Share(config), Merge(config.bus_bits))
    return [unit for part in parts for unit in owners(Fragment.get(part, None))]


def chunks(unit: Chunks) -> Claim:
    """Claim that chunks of a burst are its beats in order, each once, cut only where needed."""
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    plan, burst, chunk = unit._plan, unit.i.payload, unit.o.payload
    place = Signal(len(chunk.place.as_value()))
    left = Signal(9)
    ident = Signal()
    within = Signal()
    moves = unit.o.valid & unit.o.ready
    beats = Signal(9)
    at = chunk.place.as_value()
    cut = plan.chunk_beats
    m.d.comb += beats.eq(chunk.count + 1)
    with m.If(unit.i.valid & unit.i.ready):
        m.d.sync += [
            place.eq(burst.addr[plan.index_bits :]),
            *(left.eq(burst.len + 1), ident.eq(burst.id), within.eq(1)),
        ]
    with m.Elif(moves):
        m.d.sync += [place.eq(place + beats), left.eq(left - beats), within.eq(left != beats)]
    stays(m, unit.o)
    m.d.comb += [
        Assert(unit.i.ready == ~within),
        implies(unit.o.valid, within & (at == place) & (chunk.id == ident)),
        implies(unit.o.valid, (beats <= left) & (chunk.last == (beats == left))),
        implies(unit.o.valid, at[: plan.count_bits] + beats <= cut),
        # Every chunk is as long as possible.
        implies(unit.o.valid & ~chunk.last, at[: plan.count_bits] + beats == cut),
        implies(unit.o.valid, chunk.write == int(unit._write)),
        # Lemmas: the state before the first chunk is shown.
        implies(within, whitebox.register(name="left")[:8] + 1 == left),
        implies(within, (left != 0) & (whitebox.register(name="address") == place)),
        Cover(moves & chunk.last & (beats == 1) & (place[: plan.count_bits] == 0)),
    ]
    return Claim(module=m, ports=inputs_of(unit))


def read_room(unit: Port) -> Claim:
    """Claim that data read from the SDRAM always have room in the queue to the bus.

    Assumes that the data path returns no beat before its chunk was taken.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    queue, chunk = whitebox.child("read_queue").unit, unit.chunks.payload
    depth = queue.depth
    beats = Signal(10)
    owed = Signal(16)
    m.d.comb += beats.eq(Mux(chunk.write, 0, chunk.count + 1))
    shown = unit.chunks.valid
    before = Signal()
    freed = Signal()
    asked = Mux(shown & unit.chunks.ready, beats, 0)
    m.d.sync += [
        owed.eq(owed + asked - unit.give),
        before.eq(shown),
        freed.eq(queue.r_rdy & queue.r_en),
    ]
    promised, room = (whitebox.register(name=name) for name in ("promised", "room"))
    level = queue.level
    uncounted = Mux(shown & ~before, beats, 0)
    waits = Mux(shown, beats, 0)
    inner = whitebox.child("read_queue").register(name="inner_level")
    m.d.comb += [
        Assume(~unit.give | (owed != 0)),
        implies(unit.give, queue.w_rdy),
        Assert(level + owed + waits <= depth),
        # Lemmas: promised places; freed places are counted one cycle late.
        Assert(promised + uncounted == level + owed + waits + freed),
        Assert(promised + uncounted <= depth),
        implies(room & ~shown & ~before, promised <= depth - unit._plan.chunk_beats),
        Assert((inner < depth) & (level == inner + queue.r_rdy)),
        # The register of the oldest beat is empty only if none waits for longer than a cycle.
        implies(~queue.r_rdy, inner <= 1),
        Cover((level > 2) & unit.give & unit.axi_read.r.valid & unit.axi_read.r.ready),
    ]
    return Claim(module=m, ports=inputs_of(unit))


def unanswered_beats(unit: Unanswered) -> Claim:
    """Claim that a beat of an older burst without a response is found, for any bursts.

    An arbitrary burst, chosen by the free input `mark`, is followed from its address to its
    response. A beat that is not found is not found later either, until a burst begins.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    mark = Signal()
    count = Signal(8)
    ahead = Signal(8)
    start = Signal(COMPARED_BITS)
    length = Signal(8)
    slot = Signal(unit._places)
    newer = Signal()
    following = whitebox.register(name="following")
    m.d.comb += [
        Assume(~unit.begin | (count != unit._places)),
        Assume(~unit.answered | (count != 0)),
    ]
    m.d.sync += count.eq(count + unit.begin - unit.answered)
    with m.If(unit.begin & mark & (ahead == 0)):
        m.d.sync += [start.eq(unit.start), length.eq(unit.len), slot.eq(following)]
        m.d.sync += [ahead.eq(count - unit.answered + 1), newer.eq(0)]
    with m.Elif(ahead != 0):
        m.d.sync += [ahead.eq(ahead - unit.answered), newer.eq(newer | unit.begin)]
    past = (unit.place - start)[:COMPARED_BITS]
    same = Signal()
    before = Signal(COMPARED_BITS)
    free = Signal()
    m.d.sync += [before.eq(unit.place), free.eq(~unit.held & ~unit.begin)]
    m.d.comb += same.eq(free & (unit.place == before))
    m.d.comb += [
        implies((ahead != 0) & newer & (past <= length), unit.held),
        # It waits for a burst that is older than the newest, and for none that comes later.
        implies(unit.held, count > 1),
        implies(same, ~unit.held),
        Cover((ahead == 2) & newer & unit.held & (count == unit._places)),
    ]
    _older_lemmas(m, whitebox, (count, ahead, slot, newer), (start, length))
    return Claim(module=m, ports=(*inputs_of(unit), mark))


def _older_lemmas(m: Module, whitebox: Whitebox, marked, burst) -> None:
    """Assert invariants for the induction: entries form a ring; where the marked burst is."""
    count, ahead, slot, newer = marked
    places = whitebox.unit._places
    newest, following, oldest = (
        whitebox.register(name=name) for name in ("newest", "following", "oldest")
    )
    used = Cat(whitebox.register(name=f"used_{index}") for index in range(places))
    m.d.comb += [
        Assert((oldest != 0) & ((oldest & (oldest - 1)) == 0) & (count <= places)),
        Assert(Mux(newest == 0, count == 0, newest.rotate_left(1) == following)),
        implies(ahead != 0, (ahead <= count) & (newer == (ahead != count))),
        implies(ahead != 0, newer == (slot != newest)),
    ]
    for index in range(places):
        turned = oldest.rotate_left(index)
        m.d.comb += [
            Assert((used & turned).any() == (count > index)),
            implies(count % places == index, following == turned),
            implies(ahead == index + 1, slot == turned),
        ]
        here = (ahead != 0) & slot[index]
        for name, value in zip(("start", "len"), burst, strict=True):
            m.d.comb += implies(here, whitebox.register(name=f"{name}_{index}") == value)


#: Claim, depth of the induction, and depth of the covers, by class of the unit.
_TABLE = {
    Chunks: (chunks, 2, 20),
    Port: (read_room, 3, 40),
    Unanswered: (unanswered_beats, 1, 20),
}
_STATEMENTS = {
    Chunks: "the chunks of a burst are its beats in order, each once, none across a cut and each "
    "as long as possible",
    Port: "every beat read from the SDRAM has room when it arrives",
    Unanswered: "a beat contained in an older write burst without a response is found; a beat "
    "contained in none stays so until a burst begins",
}


def memory_proofs(units: list) -> list[Proof]:
    """Return the proofs of units in front of an SDRAM, one of each kind."""
    found = {type(unit): unit for unit in units if type(unit) in _TABLE}
    return [
        Proof(
            kind="memory",
            unit=kind.__name__,
            statement=_STATEMENTS[kind],
            build=lambda unit=unit: _TABLE[type(unit)][0](unit),
            depth=_TABLE[kind][1],
            cover_depth=_TABLE[kind][2],
        )
        for kind, unit in found.items()
    ]
