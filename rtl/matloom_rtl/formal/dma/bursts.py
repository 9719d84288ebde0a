"""Proof of the bursts of a row: its bytes in order, each once, and no burst that AXI forbids."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import data

from matloom_rtl.dma.bursts import Bursts
from matloom_rtl.formal.parts.channel import implies, stays
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["burst_proofs", "cut_row"]

_PAGE_BITS = 12


def cut_row(unit: Bursts) -> Claim:
    """Claim that the bursts of a row are its beats in order, each once, and obey the bus rules.

    Assumes that a row has at least one byte and ends within 32-bit addresses.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    row, burst = unit.i.payload, unit.o.payload
    index_bits, window_bits = unit._index_bits, unit._window_bits
    width = 1 << index_bits
    stays(m, unit.o)
    begin = Signal(33)
    final = Signal(33)
    m.d.comb += [
        begin.eq(row.address),
        final.eq(row.address + row.bytes - 1),
        Assume(~unit.i.valid | ((row.bytes != 0) & ~final[32])),
    ]

    # The current row: its last byte, and the beats already sent, in bytes from its first beat.
    last_byte = Signal(33)
    spad = Signal.like(burst.spad)
    first = Signal.like(burst.first)
    carried = Signal(data.StructLayout(unit._companion))
    position = Signal(33)
    fresh = Signal()
    moves = unit.o.valid & unit.o.ready
    after = Signal(33)
    m.d.comb += after.eq(position + ((burst.len + 1) << index_bits))
    with m.If(moves):
        m.d.sync += [
            position.eq(after),
            spad.eq(spad + ((burst.len + 1) << index_bits)),
            fresh.eq(0),
        ]
    with m.If(unit.i.valid & unit.i.ready):
        m.d.sync += [
            *(last_byte.eq(final), first.eq(row.address)),
            position.eq((begin >> index_bits) << index_bits),
            spad.eq(row.spad - (row.address[:index_bits] << getattr(row, "spread", 0))),
            fresh.eq(1),
            *(carried[name].eq(row[name]) for name in unit._companion),
        ]
    others = [name for name in unit._companion if name != "last"]
    shown, ends = unit.o.valid, after > last_byte
    m.d.comb += [
        # It starts where the one before ended, and ends no later than the row's last beat.
        implies(shown, (burst.address == position) & (position <= last_byte)),
        implies(shown, after <= ((last_byte >> index_bits) + 1) << index_bits),
        implies(shown & ~ends, after[:window_bits] == 0),
        implies(shown & ends, burst.final == last_byte[:index_bits]),
        implies(shown & ~ends, burst.final == width - 1),
        implies(shown, burst.spad == spad),
        implies(shown, burst.begin == fresh),
        implies(shown, burst.first == Mux(fresh, first, 0)),
        implies(shown, burst.last == (carried.last & ends)),
        *(implies(shown, burst[name] == carried[name]) for name in others),
        # Rules burst_aligned, burst_length and burst_page.
        implies(shown, burst.address[:index_bits] == 0),
        implies(shown, burst.len < 1 << (window_bits - index_bits)),
        implies(shown, burst.address[:_PAGE_BITS] + ((burst.len + 1) << index_bits) <= 4096),
        # Lemmas: the remaining bytes, in windows.
        implies(shown, ~last_byte[32]),
        implies(shown, whitebox.register(name="companion") == carried.as_value()),
        implies(
            shown,
            (last_byte >> window_bits) - (position >> window_bits)
            == whitebox.register(name="windows_left"),
        ),
        implies(shown, whitebox.register(name="last_beat") == last_byte[index_bits:window_bits]),
        implies(shown, whitebox.register(name="final") == last_byte[:index_bits]),
    ]
    _next_row(m, unit, moves & ends)
    m.d.comb += Cover(moves & ends & ~fresh & (burst.final == 0))
    return Claim(module=m, ports=inputs_of(unit))


def _next_row(m: Module, unit: Bursts, ended) -> None:
    """Claim that another row is accepted exactly when the current one has no burst left."""
    within = Signal()
    with m.If(unit.i.valid & unit.i.ready):
        m.d.sync += within.eq(1)
    with m.Elif(ended):
        m.d.sync += within.eq(0)
    m.d.comb += [Assert(unit.o.valid == within), Assert(unit.i.ready == ~within)]


def burst_proofs(units: list) -> list[Proof]:
    """Return a proof for each distinct burst cutter among a chip's units."""
    table = {}
    for unit in units:
        if isinstance(unit, Bursts):
            width, window = 1 << unit._index_bits, 1 << unit._window_bits
            table[f"Bursts, {width} bytes a beat, cut at {window}"] = unit
    return [
        Proof(
            kind="bursts",
            unit=name,
            statement="the bursts of a row are its beats in order, each once, with the row's "
            "first and last byte; they are aligned, no longer than allowed, and do not cross 4 "
            "KiB",
            build=lambda unit=unit: cut_row(unit),
            depth=2,
            cover_depth=12,
        )
        for name, unit in sorted(table.items())
    ]
