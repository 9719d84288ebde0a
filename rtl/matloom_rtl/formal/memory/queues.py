"""Proofs of queues and stream registers: no item is lost, duplicated, changed or reordered."""

from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered

from matloom_rtl.formal.parts.order import Order
from matloom_rtl.formal.parts.whitebox import Whitebox
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.memory.credits import CREDITS, CreditQueue
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.memory.stream_register import StreamRegister
from matloom_rtl.memory.unchecked_fifo import UncheckedFIFO

__all__ = ["queue_proofs"]

#: Width of the items in claims. Queues do not look at items, so claims hold for all widths.
_BITS = 2
_HAND = {"hand": 1}
_STORED = {"stored": 1}


def _stays(m: Module, valid, ready):
    """Claim that a valid item stays valid until it is taken (rule `valid_stays`)."""
    waits = Signal()
    m.d.sync += waits.eq(valid & ~ready)
    m.d.comb += Assert(~waits | valid)


def _implies(condition, claim) -> Assert:
    """Return an assertion that `claim` holds whenever `condition` does."""
    return Assert(~condition | claim)


def _wrap_index(first, steps, places: int):
    """Return the index `steps` after `first` in a ring of `places`; `steps` must not exceed it."""
    total = first + steps
    return Mux(total >= places, total - places, total)


def unchecked_fifo(depth: int, unit=None) -> Claim:
    """Claim that an UncheckedFIFO keeps the order of items, if its users check its level."""
    m = Module()
    fifo = unit or UncheckedFIFO(width=_BITS, depth=depth)
    whitebox = Whitebox(fifo)
    m.submodules.unit = whitebox.fragment
    order = Order(
        m,
        places=depth,
        came=(fifo.w_en, fifo.w_data),
        left=(fifo.r_rdy, fifo.r_en, fifo.r_data),
    )
    m.d.comb += [Assume(~fifo.r_en | fifo.r_rdy), Assume(~fifo.w_en | (order.count < depth))]
    read, write = whitebox.addresses("storage")
    place = whitebox.peek("storage", read + order.ahead - 1)
    m.d.comb += [
        Assert(whitebox.register(name="level") == order.count),
        Assert(fifo.r_rdy == (order.count != 0)),
        Assert((write - read)[: len(read)] == order.count[: len(read)]),
        _implies(order.ahead != 0, place == order.value),
    ]
    return Claim(module=m, ports=(order.mark, fifo.w_en, fifo.w_data, fifo.r_en))


def stream_register(unit=None) -> Claim:
    """Claim that a StreamRegister keeps the order of items, and loses none."""
    m = Module()
    register = unit or StreamRegister(data.StructLayout(_STORED))
    m.submodules.unit = register
    i, o = register.i, register.o
    order = Order(
        m,
        places=1,
        came=(i.valid & i.ready, i.payload.as_value()),
        left=(o.valid, o.valid & o.ready, o.payload.as_value()),
    )
    _stays(m, o.valid, o.ready)
    m.d.comb += Assert(o.valid == (order.count != 0))
    return Claim(module=m, ports=(order.mark, i.valid, i.payload.as_value(), o.ready))


def _fields(registered: bool, stored: bool) -> data.StructLayout:
    """Return the layout of an item with registered fields, with stored fields, or with both."""
    return data.StructLayout({**(_HAND if registered else {}), **(_STORED if stored else {})})


def skid_buffer(registered: bool, stored: bool, unit=None) -> Claim:
    """Claim that a SkidBuffer keeps the order of items, for these kinds of fields."""
    m = Module()
    layout = _fields(registered, stored)
    buffer = unit or SkidBuffer(layout, registered=("hand",) if registered else ())
    whitebox = Whitebox(buffer)
    m.submodules.unit = whitebox.fragment
    i, o = buffer.i, buffer.o
    order = Order(
        m,
        places=2,
        came=(i.valid & i.ready, i.payload.as_value()),
        left=(o.valid, o.valid & o.ready, o.payload.as_value()),
    )
    _stays(m, o.valid, o.ready)
    full = ~i.ready
    value = data.View(layout, order.value)
    m.d.comb += [
        Assert(o.valid + full == order.count),
        _implies(full, o.valid),
        # It accepts an item whenever it has a place.
        Assert(i.ready == (order.count < 2)),
    ]
    if registered:
        second = whitebox.register(name="hand_skid")
        m.d.comb += _implies(order.ahead == 2, second == value.hand)
    if stored:
        shown, free = whitebox.addresses("storage")
        place = whitebox.peek("storage", shown ^ (order.ahead == 2))
        m.d.comb += [
            Assert((free ^ shown) == order.count[0]),
            _implies(order.ahead != 0, place == value.stored),
        ]
    return Claim(module=m, ports=(order.mark, i.valid, i.payload.as_value(), o.ready))


def credit_queue(registered: bool, stored: bool, unit=None) -> Claim:
    """Claim the order of a CreditQueue, and that items that start while `room` is set have one."""
    m = Module()
    layout = _fields(registered, stored)
    queue = unit or CreditQueue(layout, registered=("hand",) if registered else ())
    whitebox = Whitebox(queue)
    m.submodules.unit = whitebox.fragment
    o = queue.o
    order = Order(
        m,
        places=CREDITS,
        came=(queue.w_en, queue.w_data.as_value()),
        left=(o.valid, o.valid & o.ready, o.payload.as_value()),
    )
    _stays(m, o.valid, o.ready)
    # Items of the pipeline before the queue: those that began and have not arrived.
    begun = Signal(range(CREDITS + 2))
    taken = Signal()
    m.d.sync += [begun.eq(begun + queue.start - queue.w_en), taken.eq(o.valid & o.ready)]
    shown, write = whitebox.addresses("storage")
    following, _write = whitebox.addresses("hand")
    used = whitebox.register(name="used")
    waiting = Signal(len(write))
    value = data.View(layout, order.value)
    m.d.comb += [
        Assume(~queue.start | queue.room),
        Assume(~queue.w_en | (begun != 0)),
        waiting.eq(write - following),
        Assert(begun + order.count + taken <= CREDITS),
        Assert(used == begun + order.count + taken),
        Assert(queue.room == (used != CREDITS)),
        Assert(o.valid + waiting == order.count),
        _implies(~o.valid, waiting == 0),
        _implies(o.valid, (following - shown)[: len(shown)] == 1),
    ]
    newest = following + order.ahead - 2
    if registered:
        word = whitebox.peek("hand", newest)
        m.d.comb += _implies(order.ahead > 1, word == value.hand)
        # Without an item the registered fields hold a write that was not valid.
        before = Signal.like(queue.w_data.hand)
        came = Signal()
        m.d.sync += [before.eq(queue.w_data.hand), came.eq(queue.w_en)]
        m.d.comb += _implies(~o.valid, ~came & (o.payload.hand == before))
    if stored:
        word = whitebox.peek("storage", newest)
        m.d.comb += _implies(order.ahead > 1, word == value.stored)
    ports = (order.mark, queue.start, queue.w_en, queue.w_data.as_value(), o.ready)
    return Claim(module=m, ports=ports)


def sync_fifo(depth: int, unit=None) -> Claim:
    """Claim that Amaranth's SyncFIFO keeps the order of items, and loses none."""
    m = Module()
    fifo = unit or SyncFIFO(width=_BITS, depth=depth)
    whitebox = Whitebox(fifo)
    m.submodules.unit = whitebox.fragment
    order = _fifo_order(m, fifo, depth)
    m.d.comb += [
        Assert(fifo.level == order.count),
        Assert(fifo.r_rdy == (order.count != 0)),
        Assert(fifo.w_rdy == (order.count != depth)),
    ]
    _ring(m, whitebox, order, (depth, order.count, order.ahead - 1, order.ahead != 0))
    return _fifo_claim(m, fifo, order)


def sync_fifo_buffered(depth: int, unit=None) -> Claim:
    """Claim the order of Amaranth's SyncFIFOBuffered, whose oldest item is in a register."""
    m = Module()
    fifo = unit or SyncFIFOBuffered(width=_BITS, depth=depth)
    whitebox = Whitebox(fifo)
    m.submodules.unit = whitebox.fragment
    order = _fifo_order(m, fifo, depth)
    inner = whitebox.register(name="inner_level")
    # An item on its way to the register is hidden for a cycle.
    hidden = Signal()
    m.d.sync += hidden.eq((order.count != 0) & ~fifo.r_rdy)
    m.d.comb += [
        Assert(inner + fifo.r_rdy == order.count),
        Assert(fifo.w_rdy == (inner != depth - 1)),
        _implies(hidden, fifo.r_rdy),
    ]
    stored = order.ahead > fifo.r_rdy
    _ring(m, whitebox, order, (depth - 1, inner, order.ahead - 1 - fifo.r_rdy, stored))
    return _fifo_claim(m, fifo, order)


def _fifo_order(m: Module, fifo, depth: int) -> Order:
    """Return the reference for the order of items in one of Amaranth's FIFOs."""
    return Order(
        m,
        places=depth,
        came=(fifo.w_en & fifo.w_rdy, fifo.w_data),
        left=(fifo.r_rdy, fifo.r_en & fifo.r_rdy, fifo.r_data),
    )


def _ring(m: Module, whitebox: Whitebox, order: Order, ring):
    """Assert invariants for the induction: the marked item's place, and the ring's ends.

    `ring` is a tuple: the number of places, the number of items, the steps from the oldest item to
    the marked one, and a flag that the marked item is in the memory.
    """
    places, level, steps, stored = ring
    consume, produce = whitebox.addresses("storage")
    if places == 1:
        consume = produce = 0
    place = whitebox.peek("storage", _wrap_index(consume, steps, places))
    m.d.comb += [
        _implies(stored, place == order.value),
        Assert(level <= places),
    ]
    if places > 1:
        m.d.comb += [
            Assert(consume < places),
            Assert(produce == _wrap_index(consume, level, places)),
        ]


def _fifo_claim(m: Module, fifo, order: Order) -> Claim:
    """Return the claim in `m` about one of Amaranth's FIFOs, whose inputs and mark are free."""
    return Claim(module=m, ports=(order.mark, fifo.w_en, fifo.w_data, fifo.r_en))


def _kinds_of_fields(layout, registered) -> tuple[bool, bool]:
    """Return whether a layout has registered fields, and whether it has others."""
    return bool(registered), any(name not in registered for name, _field in layout)


def _text_of_kinds(registered: bool, stored: bool) -> str:
    """Return words for a statement that tell which kinds of fields an item has."""
    return " and ".join(("registered",) * registered + ("stored",) * stored)


def _name_and_claim(unit) -> tuple[str, object] | None:
    """Return the name of a queue and a function that builds its claim; None for any other unit."""
    match unit:
        case UncheckedFIFO(_depth=depth):
            return f"UncheckedFIFO, {depth} places", lambda: unchecked_fifo(depth)
        case SkidBuffer(_payload=layout, _registered=registered):
            both = _kinds_of_fields(layout, registered)
            return f"SkidBuffer, fields {_text_of_kinds(*both)}", lambda: skid_buffer(*both)
        case CreditQueue(_payload=layout, _registered=registered):
            both = _kinds_of_fields(layout, registered)
            return f"CreditQueue, fields {_text_of_kinds(*both)}", lambda: credit_queue(*both)
        case StreamRegister():
            return "StreamRegister", stream_register
        case SyncFIFOBuffered(depth=depth) if depth > 1:
            return f"SyncFIFOBuffered, {depth} places", lambda: sync_fifo_buffered(depth)
        case SyncFIFO(depth=depth):
            return f"SyncFIFO, {depth} places", lambda: sync_fifo(depth)
    return None


def queue_proofs(units: list) -> list[Proof]:
    """Return a proof for each distinct queue among a chip's units."""
    described = (_name_and_claim(unit) for unit in units)
    claims = dict(each for each in described if each)
    return [
        Proof(
            kind="queues",
            unit=name,
            statement="items leave once, in order, unchanged; valid is held until taken; no place "
            "is lost",
            build=build,
            depth=2,
        )
        for name, build in sorted(claims.items())
    ]
