"""Proof of LOAD's and STORE's rows, compared one by one with the loops of the instruction set."""

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal

from matloom.arch.isa import Opcode
from matloom_rtl.dma.rows import Rows
from matloom_rtl.formal.parts.channel import assume_stays, implies, stays
from matloom_rtl.formal.parts.loop_nest import Loop, Nest
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["row_proofs", "rows"]


def rows(unit: Rows) -> Claim:
    """Claim that the rows are those of two loops, over planes and over rows, in order, each once.

    Assumes that instructions have at least one row and one plane, and that the sender keeps an
    instruction, and the base of its region, until the instruction is taken.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    command, row, taken = unit.i.payload, unit.o.payload, unit.o.valid & unit.o.ready
    fill = command.fill if unit._opcode is Opcode.LOAD else Const(0)
    assume_stays(m, unit.i)
    base = Signal(32)
    m.d.sync += base.eq(unit.region_base)
    started = Signal()
    nest = Nest(
        m,
        {
            name: Loop(
                getattr(command, name),
                spad=command[f"spad_{name[:-1]}_step"],
                address=command[f"dram_{name[:-1]}_step"],
            )
            for name in ("planes", "rows")
        },
        {
            "spad": (len(row.spad), command.spad_addr),
            "address": (32, unit.region_base + command.dram_offset),
        },
        begin=unit.i.valid & ~started,
        move=taken,
    )
    m.d.comb += [
        started.eq(nest.running),
        Assume(~nest.running | (unit.region_base == base)),
        implies(unit.o.valid, nest.running),
        implies(nest.running, unit.i.valid),
        implies(unit.o.valid, row.address == Mux(fill, 0, nest.place("address"))),
        implies(unit.o.valid, row.spad[: unit._spad_bits] == nest.place("spad")[: unit._spad_bits]),
        implies(unit.o.valid, row.bytes == command.row_bytes),
        implies(unit.o.valid, row.last == nest.end),
        Assert(unit.i.ready == (taken & nest.end)),
        # A row takes at most two cycles, so nothing waits forever.
        implies(nest.running, unit.o.valid | ~_held_before(m, nest.running & ~unit.o.valid)),
    ]
    stays(m, unit.o)
    _lemmas(m, whitebox, nest, fill)
    m.d.comb += Cover(taken & nest.end & (nest.index["rows"] == 2) & (nest.index["planes"] == 1))
    return Claim(module=m, ports=inputs_of(unit))


def _held_before(m: Module, condition) -> Signal:
    """Return whether a condition held in the previous cycle."""
    before = Signal()
    m.d.sync += before.eq(condition)
    return before


def _lemmas(m: Module, whitebox: Whitebox, nest: Nest, fill) -> None:
    """Assert invariants for the induction: the registers that count rows and planes."""
    unit = whitebox.unit
    shown, comes = unit.o.valid, nest.running & ~unit.o.valid
    row, plane = nest.index["rows"], nest.index["planes"]
    turns, goes_on, from_first, row_number, plane_number = (
        whitebox.register(name=name)
        for name in ("turns", "goes_on", "from_first", "number", "plane")
    )
    begins = whitebox.register(name="begins")
    external = whitebox.register(name="external")
    row_end, end = nest.last["rows"], nest.end
    m.d.comb += [
        *nest.lemmas(),
        Assert(external == comes),
        # While a row is shown, the state describes the next one; before, the row itself.
        Assert(begins == Mux(shown, end, ~nest.running | ((row == 0) & (plane == 0)))),
        Assert(turns == Mux(shown, row_end & ~end, nest.running & (row == 0) & (plane != 0))),
        Assert(goes_on == Mux(shown, ~row_end, nest.running & (row != 0))),
        implies(shown, from_first == Mux(row_end, ~end, row == 0)),
        implies(comes & ~begins, from_first == (turns | (row == 1))),
        Assert(
            row_number == Mux(shown, Mux(row_end, 1, row + 2), Mux(nest.running, row + 1, 1))[:12]
        ),
        Assert(
            plane_number
            == Mux(
                shown,
                Mux(row_end, Mux(end, 1, plane + 2), plane + 1),
                Mux(nest.running, plane + 1, 1),
            )[:12]
        ),
        implies(comes, whitebox.register(name="plane_end") == row_end),
        implies(comes, whitebox.register(name="last_plane") == nest.last["planes"]),
    ]
    store, place, kept = (
        whitebox.register(name=name)
        for name in ("$signature__en", "$signature__addr", "stores_address")
    )
    bits = unit._spad_bits
    m.d.comb += [
        # An address is stored in the cycle after it was computed.
        implies(comes, store & ~kept & (place == Cat(0, goes_on))),
        implies(store & shown, kept & (place == Cat(1, row != 0))),
        implies(comes, unit.o.payload.spad[:bits] == nest.place("spad")[:bits]),
    ]
    stored = [whitebox.peek("before", number) for number in range(4)]
    _claim_stored_addresses(m, nest, "spad", (stored[0][:bits], stored[2][:bits]), shown)
    there = shown & ~store & ~fill
    _claim_stored_addresses(m, nest, "address", (stored[1], stored[3]), there, ~fill)
    _follow(m, nest, (stored[1], stored[3]), comes & ~fill)


def _claim_stored_addresses(m: Module, nest: Nest, name: str, stored, there, counts=1) -> None:
    """Assert invariants for the induction: stored addresses of two rows.

    They are those of the plane's first row and of the latest row.

    `name` selects the address, in the scratchpad or in external memory. `stored` are the memory's
    words.
    """
    (of_first, of_row), row = stored, nest.index["rows"]
    at, first = (nest.at[name][loop][: len(of_row)] for loop in ("rows", "planes"))
    m.d.comb += [
        implies(there & (row == 0), of_first == at),
        implies(counts & nest.running & (row != 0), of_first == first),
        implies(there & (row != 0), of_row == at),
    ]


def _follow(m: Module, nest: Nest, stored, comes) -> None:
    """Assert for the induction: a row's address is that of an earlier row plus a step."""
    (of_first, of_row), at = stored, nest.place("address")
    row, plane = nest.index["rows"], nest.index["planes"]
    by_row, by_plane = (nest.loops[loop].steps["address"] for loop in ("rows", "planes"))
    m.d.comb += [
        implies(comes & (row > 1), (of_row + by_row)[:32] == at),
        implies(comes & (row == 1), (of_first + by_row)[:32] == at),
        implies(comes & (row == 0) & (plane != 0), (of_first + by_plane)[:32] == at),
    ]


def row_proofs(units: list) -> list[Proof]:
    """Return a proof for each row generator among a chip's units."""
    return [
        Proof(
            kind="addresses",
            unit=f"Rows, {unit._opcode.name}",
            statement="rows follow the instruction set's loops, planes outermost, each once and in "
            "order, with both addresses",
            build=lambda unit=unit: rows(unit),
            depth=2,
            cover_depth=30,
        )
        for unit in units
        if isinstance(unit, Rows)
    ]
