"""Proof of SOFTMAX of rows: the order of elements, the largest bytes, and connections of parts."""

from itertools import pairwise

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal, signed
from amaranth.lib import data

from matloom.arch.softmax import BATCH
from matloom_rtl.formal.parts.arbitrary import Arbitrary
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.post.softmax_order import RowOrder
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.softmax import Softmax

__all__ = ["softmax", "softmax_proofs"]

#: Minimum cycles from `done` of the reciprocals to the first exponential of another batch's sums.
_APART = 6


def softmax(unit: Softmax) -> Claim:
    """Claim when the elements of SOFTMAX's rows enter, with which flags, and where they go.

    The table and the reciprocals are removed. Assumes that a vector stays until it is taken, that a
    command stays from its start until its rows are complete, that reciprocals are done once, later
    than their sums, and that a pass ends with the last vector of a row.
    """
    m = Module()
    whitebox = Whitebox(unit)
    exponentials, reciprocals = (
        whitebox.child(name).unit for name in ("exponentials", "reciprocals")
    )
    chosen = Arbitrary(m, BATCH)
    largest = whitebox.peek("largest", chosen.number)
    free = (*whitebox.free("exponentials"), *whitebox.free("reciprocals"))
    m.submodules.unit = whitebox.fragment
    order = RowOrder(m, unit, reciprocals.done)
    flags, given = [order.now], [order.given]
    for cycle in range(unit.LATENCY):
        following = Signal(unit._flags_layout(), name=f"flags_{cycle + 1}_before")
        m.d.sync += following.eq(flags[-1])
        flags.append(following)
    for cycle in range(3):
        bytes_ = Signal.like(order.given, name=f"given_{cycle}", reset_less=True)
        m.d.sync += bytes_.eq(given[-1])
        given.append(bytes_)
    begun = _assume_rules(m, unit, order, flags, reciprocals.done)
    there = flags[unit.TO_LANE]
    m.d.comb += [
        Assert(unit.taken == order.taken),
        Assert(unit.begins == (order.now.results & (order.index == 0))),
        # Results enter after the reciprocals, and sums only when these are no longer needed.
        implies(there.sums, order.since >= _APART),
        Assert(reciprocals.sums == there.sums),
        implies(there.sums | there.results, reciprocals.row == there.row),
        implies(there.sums, (reciprocals.first == there.first) & (reciprocals.last == there.ends)),
        implies(there.sums, reciprocals.adds == there.counts),
        Assert(reciprocals.product == unit.products[0]),
        Assert((unit.shift == reciprocals.shift) & (unit.multiplier == reciprocals.multiplier)),
        Assert((exponentials.start == unit.start) & (exponentials.rows.valid == unit.rows.valid)),
        Assert(exponentials.rows.payload == unit.rows.payload),
        Assert(unit.rows.ready == exponentials.rows.ready),
    ]
    for way in range(unit._ways):
        exponential = exponentials.value[way]
        value = Mux(reciprocals.vanishes, 0, exponential)
        value = Mux(reciprocals.busy, reciprocals.operand, value) if way == 0 else value
        m.d.comb += [
            Assert(unit.values[way] == value),
            Assert(reciprocals.exponentials[way] == exponential),
        ]
    within = (order.number == 0) & ((order.vector != 0) | (order.index != 0))
    _largest(m, whitebox, flags, given, (chosen.number, largest, exponentials, within))
    _results(m, whitebox, flags)
    _lemmas(m, whitebox, order, flags, given)
    m.d.comb += [
        implies(begun, whitebox.register(name="left") == order.left_vectors),
        implies(begun, whitebox.register(name="first_vector") == (order.vector == 0)),
        # Zero blocks count as all that the field can hold.
        implies(begun, (unit.command.oc_blocks == 0) | (order.vector < unit.command.oc_blocks)),
    ]
    m.d.comb += Cover(flags[-1].results & (order.number == 0) & order.enters)
    return Claim(module=m, ports=(chosen.number, *free, *inputs_of(unit)))


def _assume_rules(m: Module, unit: Softmax, order: RowOrder, flags: list, done):
    """Assume the rules for vectors, commands and reciprocals.

    Returns whether a command has begun and has not changed since.
    """
    held = Cat(unit.command, unit.active)
    before = Signal.like(held, reset_less=True)
    waited = Signal()
    vector = Cat(unit.bytes, unit.ends)
    vector_before = Signal.like(vector, reset_less=True)
    busy = Signal()
    begun = Signal()
    m.d.sync += [
        before.eq(held),
        busy.eq(order.busy & ~(order.ends & (order.number == 2))),
        waited.eq(unit.valid & ~unit.taken),
        vector_before.eq(vector),
    ]
    # A command has begun, and has not changed since.
    with m.If(unit.start | (held != before)):
        m.d.sync += begun.eq(unit.start)
    pending = [each.sums for each in flags[: unit.TO_LANE + 1]]
    m.d.comb += [
        Assume(~waited | (unit.valid & (vector == vector_before))),
        Assume(~busy | ((held == before) & ~unit.start)),
        Assume(~(unit.valid & unit.active) | (begun & (held == before) & ~unit.start)),
        Assume(~(unit.valid & unit.ends) | order.row_end),
        Assume(~done | (order.waits & (order.number == 2) & ~Cat(pending).any())),
    ]
    return begun & (held == before) & ~unit.start


def _largest(m: Module, whitebox: Whitebox, flags: list, given: list, parts) -> None:
    """Claim the index of each table look-up: the largest byte of the row minus the element."""
    n, memory, exponentials, within = parts
    unit = whitebox.unit
    ways, pause = unit._ways, unit.compare_pause(unit._ways)
    most = -128
    for way in range(ways):
        byte = given[1].word_select(way, 8).as_signed()
        counted = Mux(flags[1].counts[way], byte, -128).as_signed()
        most = counted if way == 0 else Mux(counted > most, counted, most)
    delayed = Signal(signed(8))
    m.d.comb += delayed.eq(most)
    for _cycle in range(pause):
        later = Signal(signed(8), reset_less=True)
        m.d.sync += later.eq(delayed)
        delayed = later
    here = flags[1 + pause]
    best = Signal(signed(8), reset_less=True)
    # Rows of the last elements that were compared, and of those still inside; none after a reset.
    latest = [Signal(range(2 * BATCH), name=f"latest_{k}") for k in range(pause + 2)]
    with m.If(flags[0].largest):
        m.d.sync += latest[0].eq(flags[0].row + BATCH)
    m.d.sync += [later.eq(now) for now, later in pairwise(latest)]
    with m.If(here.largest), m.If(here.row == n):
        m.d.sync += best.eq(Mux(here.first | (delayed > best), delayed, best))
    of_row = Signal()
    best_before = Signal.like(best, reset_less=True)
    later_pass = flags[1].sums | flags[1].results
    m.d.sync += [of_row.eq((flags[1].row == n) & later_pass), best_before.eq(best)]
    inside = [each.largest for each in flags[1 : 2 + pause]]
    m.d.comb += [
        Assert(memory == best.as_unsigned()),
        implies(latest[-1] == n + BATCH, whitebox.register(name="before") == best),
        implies(within, latest[0] == flags[0].row + BATCH),
        *(
            implies(flags[k].largest & ~flags[k].first, latest[k] == flags[k].row + BATCH)
            for k in range(pause + 2)
        ),
        # All bytes of the row were compared.
        implies(flags[1].sums, ~Cat(inside).any()),
        implies(flags[1].results, ~Cat(inside[1:]).any() if inside[1:] else 1),
    ]
    for way in range(ways):
        byte = given[2].word_select(way, 8)
        m.d.comb += implies(of_row, exponentials.index[way] == (best_before - byte)[:8])


def _results(m: Module, whitebox: Whitebox, flags: list) -> None:
    """Claim that results are collected to beats of `lanes` bytes, and that each is shown once."""
    unit = whitebox.unit
    lanes, ways = len(unit.results), unit._ways
    arrives = flags[unit.LATENCY].results
    place = Signal(range(lanes + 1))
    kept = Signal(8 * lanes)
    made = Cat(
        Cat(product[:7] | product[8].replicate(7), ~product[7] & ~product[8])
        for product in (unit.products[way] for way in range(ways))
    )
    with m.If(arrives):
        m.d.sync += [
            place.eq(Mux(place == lanes - ways, 0, place + ways)),
            kept.eq(Cat(kept[8 * ways :], made)),
        ]
    m.d.comb += [
        Assert(unit.emerging == (arrives & (place == lanes - ways))),
        Assert((place < lanes) & (unit.results.as_value() == kept)),
    ]
    if lanes > ways:
        m.d.comb += Assert(whitebox.register(name="count") * ways == place)


def _has_elements(flags):
    """Return whether any element comes with the flags of a cycle."""
    return flags.largest | flags.sums | flags.results


def _defined_flags(flags):
    """Return the flags as a value, with zeros for those that are undefined without elements."""
    rest = Cat(flags.first, flags.row, flags.counts)
    passes = Cat(flags.largest, flags.sums, flags.results, flags.ends)
    return Cat(passes, Mux(_has_elements(flags), rest, 0))


def _lemmas(m: Module, whitebox: Whitebox, order: RowOrder, flags: list, given: list) -> None:
    """Assert invariants for the induction: the unit's registers agree with the reference.

    `order` is the reference. `flags` and `given` have the flags and the bytes of the elements that
    entered 0, 1, 2, ... cycles ago.
    """
    unit, register = whitebox.unit, whitebox.register
    ways, pause = unit._ways, unit.compare_pause(unit._ways)
    if len(unit.bytes) > ways:
        m.d.comb += Assert(register(name="index") == order.index)
    m.d.comb += [
        Assert(order.index * ways < len(unit.bytes)),
        Assert((register(name="row") == order.row) & (register(name="pause") == order.waits)),
        Assert((register(name="of_pass") == order.number) & (order.number <= 2)),
        Assert((order.left == 0) | (order.waits & (order.number == 1))),
        implies(order.waits, (order.number == 2) | (order.left != 0)),
        implies(order.waits, order.index == 0),
        Assert(order.left <= pause),
        *(
            Assert((order.left == pause + 1 - k) == (flags[k].largest & flags[k].ends))
            for k in range(1, pause + 1)
        ),
        implies((order.number == 2) & ~order.waits, order.since >= 1),
        implies(order.number == 0, order.since >= 2),
        implies(order.number == 1, order.since >= 3),
        *(
            Assert(
                _defined_flags(data.View(unit._flags_layout(), register(name=f"flags_{k}")))
                == _defined_flags(flags[k])
            )
            for k in range(1, unit.LATENCY + 1)
        ),
        *(implies(flags[k].sums, order.since >= 3 + k) for k in range(unit.TO_LANE + 1)),
        Assert(register(name="given") == given[1]),
    ]


def softmax_proofs(units: list) -> list[Proof]:
    """Return the proof of SOFTMAX among a chip's units."""
    return [
        Proof(
            kind="softmax",
            unit="Softmax",
            statement="elements enter in three passes over each batch, with the largest byte of "
            "their row in the second and third; sums and results wait for what they need; results "
            "leave in order, as many as begin",
            build=lambda unit=unit: softmax(unit),
            depth=4 + unit.compare_pause(unit._ways),
            cover_depth=40,
        )
        for unit in units
        if isinstance(unit, Softmax)
    ]
