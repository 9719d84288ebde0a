"""Proofs of the managers of the memory bus: their requests, and room for all responses."""

from amaranth.hdl import Array, Assert, Assume, Cover, Module, Mux, Signal

from matloom_rtl.dma.fetch import Fetch
from matloom_rtl.dma.load import Load
from matloom_rtl.dma.read_port import SharedReadPort
from matloom_rtl.dma.store import Store
from matloom_rtl.formal.parts.channel import assume_stays, implies, stays
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.ports import SPAD_READ_LATENCY

__all__ = ["dma_proofs", "fetch", "load", "read_port", "store"]


def _addresses(m: Module, channel, bursts, burst_beats: int, *, shows=1) -> None:
    """Claim that an address channel shows bursts unchanged, and that they obey the bus rules.

    These are the rules `burst_aligned`, `burst_length` and `burst_page`. For the unit's `bursts`
    they are assumed, because they are proven for `Bursts`. Only bursts with `shows` are claimed.
    """
    burst, address = bursts.o.payload, channel.payload
    index_bits = len(burst.first)

    def is_allowed(start, count):
        """Return whether a burst of `count` + 1 beats is aligned and within a 4 KiB page."""
        page = start[:12] + ((count + 1) << index_bits) <= 4096
        return page & (count < burst_beats) & (start[:index_bits] == 0)

    came = Signal(40)
    with m.If(bursts.o.valid & bursts.o.ready & shows):
        m.d.sync += came.eq(burst.address + (burst.len << 32))
    m.d.comb += [
        Assume(~bursts.o.valid | is_allowed(burst.address, burst.len)),
        implies(channel.valid, is_allowed(address.addr, address.len)),
        implies(channel.valid, (address.addr == came[:32]) & (address.len == came[32:])),
    ]
    stays(m, channel)


def store(unit: Store) -> Claim:
    """Claim that STORE's addresses and beats wait unchanged, and that data it reads has room."""
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    _addresses(m, unit.axi.aw, whitebox.child("bursts").unit, unit._config.burst_beats)
    stays(m, unit.axi.w)
    strobes, beats = (whitebox.child(name) for name in ("strobes", "beats"))
    levels = [fifo.register(name="level") for fifo in (strobes, beats)]
    # Granted reads whose data is outstanding, by the cycles since their grant.
    on_way = Signal(SPAD_READ_LATENCY - 1)
    write = strobes.unit.w_en
    m.d.sync += on_way.eq((on_way << 1) | write)
    depth = strobes.unit._depth
    owed = whitebox.register(name="owed")
    flying = sum(on_way[n] for n in range(len(on_way)))
    m.d.comb += [
        Assert(beats.unit.w_en == on_way[-1]),
        Assert(levels[0] == levels[1] + flying),
        Assert(owed == levels[0] + write),
        Assert(owed <= depth),
        # Requirements of the two queues on their users, here and below.
        *(implies(fifo.unit.r_en, fifo.unit.r_rdy) for fifo in (strobes, beats)),
    ]
    for fifo, level in zip((strobes, beats), levels, strict=True):
        read, written = fifo.addresses("storage")
        m.d.comb += [
            implies(fifo.unit.w_en, level < depth),
            Assert((written - read)[: len(read)] == level),
            Assert(fifo.unit.r_rdy == (level != 0)),
        ]
    _last_beats(m, whitebox)
    m.d.comb += Cover(unit.axi.w.valid & unit.axi.w.ready & (levels[0] == 3))
    return Claim(module=m, ports=inputs_of(unit))


def _last_beats(m: Module, whitebox: Whitebox) -> None:
    """Claim that the last beat of each burst is marked as last, and no other (rule `write_last`).

    This is claimed at the input of the queues, which are proven to keep the order.
    """
    queue, ask = whitebox.child("queue").unit, whitebox.child("requests").unit.i
    number = Signal(8)
    length = queue.r_data[32:40]
    with m.If(ask.valid & ask.ready):
        m.d.sync += number.eq(number + 1)
        with m.If(ask.payload.last):
            m.d.sync += number.eq(0)
    m.d.comb += [
        implies(ask.valid, ask.payload.last == (number == length)),
        implies(ask.valid, queue.r_rdy),
        # A burst leaves its queue with its last beat.
        Assert((queue.r_en & queue.r_rdy) == (ask.valid & ask.ready & ask.payload.last)),
        Assert(whitebox.register(name="number") == number),
    ]


def load(unit: Load) -> Claim:
    """Claim that LOAD's addresses wait unchanged, and that each burst has room in its queue."""
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    bursts, queue, head = (whitebox.child(name).unit for name in ("bursts", "queue", "head"))
    fill = bursts.o.payload.fill
    _addresses(m, unit.axi.ar, bursts, unit._config.burst_beats, shows=~fill)
    outstanding = unit._config.outstanding
    queued = whitebox.register(name="queued")
    m.d.comb += [
        implies(queue.w_en, queue.w_rdy),
        Assert(queued == queue.level + head.o.valid),
        Assert(queued <= outstanding),
        # Only requested beats are accepted from the bus.
        implies(unit.axi.r.valid & unit.axi.r.ready, queued != 0),
        implies(unit.quiet, ~unit.axi.ar.valid & (queued == 0)),
        Cover(unit.axi.ar.valid & (queued == outstanding)),
    ]
    return Claim(module=m, ports=inputs_of(unit))


def read_port(unit: SharedReadPort) -> Claim:
    """Claim that addresses of both readers wait unchanged, and each receives its own beats."""
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    readers = (unit.fetch, unit.load)
    for reader in readers:
        assume_stays(m, reader.ar)
    stays(m, unit.axi.ar)
    ar, r = unit.axi.ar, unit.axi.r
    owed = Array(Signal(range(unit._outstanding + 2), name=f"owed_{each}") for each in range(2))
    for number in range(2):
        sent = ar.valid & ar.ready & (ar.payload.id == number)
        ended = r.valid & r.ready & r.payload.last & (r.payload.id == number)
        m.d.sync += owed[number].eq(owed[number] + sent - ended)
    on_way = owed[0] + owed[1]
    m.d.comb += [
        # Only a reader with a request is selected.
        implies(ar.valid, Mux(ar.payload.id, unit.load.ar.valid, unit.fetch.ar.valid)),
        # The memory obeys rule read_owed.
        Assume(~r.valid | (owed[r.payload.id] != 0)),
        # Proven for Fetch.
        Assume(unit.fetch.r.ready | ~unit.fetch.r.valid),
        Assert(on_way <= unit._outstanding),
        Assert(whitebox.register(name="on_way") == on_way),
        Assert(whitebox.register(name="loads") == owed[1]),
        implies(on_way == unit._outstanding, ~ar.valid),
    ]
    for number, reader in enumerate(readers):
        taken = reader.ar.valid & reader.ar.ready
        m.d.comb += [
            Assert(taken == (ar.valid & ar.ready & (ar.payload.id == number))),
            implies(
                taken,
                (ar.payload.addr == reader.ar.payload.addr)
                & (ar.payload.len == reader.ar.payload.len),
            ),
            # Accepted by its owner alone, in the same cycle.
            Assert(
                (reader.r.valid & reader.r.ready) == (r.valid & r.ready & (r.payload.id == number))
            ),
            implies(
                reader.r.valid,
                (reader.r.payload.data == r.payload.data)
                & (reader.r.payload.resp == r.payload.resp)
                & (reader.r.payload.last == r.payload.last),
            ),
        ]
    m.d.comb += Cover((on_way == unit._outstanding) & r.valid & r.ready & (r.payload.id == 1))
    return Claim(module=m, ports=inputs_of(unit))


def fetch(unit: Fetch) -> Claim:
    """Claim that Fetch requests no more than it has room for, so it never stalls the bus.

    Assumes that the memory obeys `read_owed` and `read_last`: it returns as many beats as
    requested. RLAST is ignored.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    ar, r, beats = unit.axi.ar, unit.axi.r, whitebox.child("beats").unit
    index_bits, longest, depth = unit._index_bits, 1 << unit._cut_bits, unit._depth
    stays(m, ar)
    owed = Signal(range(depth + longest + 1))
    asked = Mux(ar.valid & ar.ready, ar.payload.len + 1, 0)
    m.d.sync += owed.eq(owed + asked - (r.valid & r.ready))
    waiting, ends, room = (whitebox.register(name=name) for name in ("waiting", "ends", "room"))
    reserved = whitebox.register(name="reserved")
    kept = whitebox.child("beats").register(name="inner_level")
    left, unasked = (whitebox.register(name=name) for name in ("left", "unasked"))
    to_cut = longest - ar.payload.addr[index_bits : index_bits + unit._cut_bits]
    some, fits = whitebox.register(name="some"), unasked <= to_cut
    page = ar.payload.addr[:12] + ((ar.payload.len + 1) << index_bits)
    m.d.comb += [
        Assume(~r.valid | (owed != 0)),
        implies(ar.valid, page <= 4096),
        implies(ar.valid, ar.payload.len < longest),
        implies(ar.valid, ar.payload.addr[:index_bits] == 0),
        implies(r.valid, r.ready),
        Assert(unit.quiet == (~ar.valid & (owed == 0))),
        # Lemmas: the reservation covers stored beats, beats in flight and beats taken a cycle ago;
        # an address is shown when there is room for the longest burst.
        Assert(whitebox.register(name="owed") == owed),
        Assert(owed <= depth),
        Assert(reserved <= depth),
        implies(~waiting, beats.level + owed + whitebox.register(name="freed") <= reserved),
        implies(ar.valid, owed <= depth - longest),
        implies(waiting, ~some),
        implies(ar.valid | room, waiting | (reserved <= depth - longest)),
        implies(ar.valid | some, unasked != 0),
        # An address is shown only for beats still to be requested.
        implies(ar.valid, some | waiting),
        implies(ar.valid, ends == fits),
        implies(ar.valid, whitebox.register(name="length") == Mux(fits, unasked, to_cut)),
        Assert(unit.exhausted == (left == 0)),
        # The register of the oldest beat is empty only if none waits for longer than a cycle.
        implies(~beats.r_rdy, kept <= 1),
        Assert(kept + beats.r_rdy <= depth),
        Cover(beats.w_en & (beats.level > 4) & (owed > 1)),
    ]
    return Claim(module=m, ports=inputs_of(unit))


#: Claim and depth of the induction, by class of the unit.
_TABLE = {
    Store: (store, SPAD_READ_LATENCY + 2),
    Load: (load, 2),
    SharedReadPort: (read_port, 2),
    Fetch: (fetch, 3),
}

_ALLOWED = "is stable until taken, aligned, no longer than allowed, within 4 KiB"
_STATEMENTS = {
    Store: f"AW {_ALLOWED}; W waits unchanged; WLAST comes with the last beat of each burst and no "
    "other; every beat that is read has its place",
    Load: f"AR {_ALLOWED}; every burst has its place; no beat is taken that was not asked for",
    SharedReadPort: "AR is stable until taken; each reader's bursts are issued once, and their "
    "beats return to it alone; no more are in flight than allowed",
    Fetch: f"AR {_ALLOWED}; a beat that was asked for is taken when it comes",
}


def dma_proofs(units: list) -> list[Proof]:
    """Return the proofs for the bus managers among a chip's units."""
    return [
        Proof(
            kind="bus",
            unit=type(unit).__name__,
            statement=_STATEMENTS[type(unit)],
            build=lambda unit=unit: _TABLE[type(unit)][0](unit),
            depth=_TABLE[type(unit)][1],
            cover_depth=30,
        )
        for unit in units
        if type(unit) in _TABLE
    ]
