"""Proof of POST's walks, compared position by position with the loops of the instruction set."""

from amaranth.hdl import Assume, Cat, Const, Cover, Module, Mux, Signal

from matloom.arch.softmax import BATCH
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.loop_nest import Loop, Nest
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.positions import Positions

__all__ = [
    "LOOPS",
    "assume_advances",
    "assume_stable",
    "position_proofs",
    "positions",
    "touched_banks",
    "whole_rows",
]

#: Loops, outermost first, each with the input that holds its number of iterations.
LOOPS = {"block": "blocks", "row": "height", "column": "width"}


def positions(unit: Positions) -> Claim:
    """Claim that the positions are those of three loops: block of channels, row, column.

    Assumes that the geometry stays until the last position, and that a walk advances only while it
    runs, and not in a cycle in which it restarts. Walks over whole rows (`whole_rows`) and over
    blocks of sums (`pooled_blocks`) have their own claims.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    if unit._config.softmax:
        m.d.comb += Assume(~unit.whole_rows)
    if unit._pools:
        m.d.comb += Assume(~unit.pooled)
    at, columns = unit.position, unit._columns
    width = Const(columns) << unit.size if unit._has_sizes else Const(columns)
    nest = Nest(
        m,
        {
            "block": Loop(unit.blocks, address=width, entry=0),
            "row": Loop(unit.height, address=unit.pitch),
            "column": Loop(unit.width, address=unit.x_step),
        },
        {"address": (len(at.address), unit.address)},
        begin=unit.start,
        move=unit.advance,
    )
    assume_advances(m, unit, nest)
    assume_stable(m, unit, nest)
    shown, address = nest.running, nest.place("address")
    block_end = nest.last["row"] & nest.last["column"]
    m.d.comb += [
        implies(shown, at.address == address),
        implies(shown, at.bank_select == touched_banks(address, columns, unit._config)),
        implies(shown, at.block_end == block_end),
        implies(shown, at.last_block == nest.last["block"]),
        implies(shown, at.end == nest.end),
        *nest.lemmas(),
    ]
    _entries(m, whitebox, nest, block_end)
    if unit._pools:
        m.d.comb += implies(shown, whitebox.register(name="quarter") == 0)
    for name, count in LOOPS.items():
        left = whitebox.register(name=f"{name}_left")
        total, index = getattr(unit, count), nest.index[name]
        m.d.comb += [
            implies(shown, left + index + 1 == total),
            implies(shown, whitebox.register(name=f"{name}_last") == nest.last[name]),
        ]
    starts = (whitebox.register(name=f"{name}_start") for name in ("row", "block"))
    for register, name in zip(starts, ("row", "block"), strict=True):
        m.d.comb += implies(shown, register == nest.at["address"][name])
    m.d.comb += Cover(
        unit.advance & nest.end & (nest.index["block"] == 2) & (nest.index["row"] == 1)
    )
    return Claim(module=m, ports=inputs_of(unit))


def whole_rows(unit: Positions) -> Claim:
    """Claim that the positions of whole rows are those of four loops: batch, pass, row, block.

    Makes the assumptions of `positions`. Elements have one byte.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    at, columns = unit.position, unit._columns
    passes = Const(unit._passes, 4)
    rows = Signal(range(BATCH + 1))
    nest = Nest(
        m,
        {
            "batch": Loop((unit.height + BATCH - 1) // BATCH, address=unit.pitch * BATCH),
            "pass": Loop(passes),
            "row": Loop(rows, address=unit.pitch),
            "block": Loop(unit.blocks, address=Const(columns)),
        },
        {"address": (len(at.address), unit.address)},
        begin=unit.start,
        move=unit.advance,
    )
    before = nest.index["batch"] * BATCH
    remaining = (unit.height - before).as_unsigned()
    # All of the last batch; never zero, whatever the index is.
    m.d.comb += rows.eq(Mux((remaining == 0) | (remaining > BATCH), BATCH, remaining))
    assume_advances(m, unit, nest)
    m.d.comb += Assume(unit.whole_rows)
    assume_stable(m, unit, nest)
    shown, address, last = nest.running, nest.place("address"), nest.last
    row_end, pass_end = last["block"], last["row"] & last["block"]
    m.d.comb += [
        implies(shown, at.address == address),
        implies(shown, at.bank_select == touched_banks(address, columns, unit._config)),
        implies(shown, at.last_block == row_end),
        implies(shown, at.block_end == pass_end),
        implies(shown, at.end == nest.end),
        *nest.lemmas(),
    ]
    counted = before + Mux(last["pass"], nest.index["row"], 0)
    for name, index, total in (
        ("column", nest.index["block"], unit.blocks),
        ("row", counted, unit.height),
    ):
        left = whitebox.register(name=f"{name}_left")
        m.d.comb += [
            implies(shown, left + index + 1 == total),
            implies(shown, whitebox.register(name=f"{name}_last") == (left == 0)),
        ]
    starts, apart = nest.at["address"], nest.index["row"] * unit.pitch
    m.d.comb += [
        implies(shown, whitebox.register(name="block_last")),
        implies(shown, whitebox.register(name="row_start") == starts["row"]),
        implies(shown, whitebox.register(name="block_start") == starts["batch"]),
        implies(shown, starts["pass"] == starts["batch"]),
        # Rows lie one pitch apart, so the next batch follows the last of them.
        implies(shown, starts["row"] == (starts["batch"] + apart)[: len(address)]),
        implies(shown, whitebox.register(name="of_batch") == nest.index["row"]),
        implies(shown, whitebox.register(name="number") == nest.index["pass"]),
    ]
    m.d.comb += [
        Cover(unit.advance & nest.end & (nest.index["row"] == 2) & (nest.index["block"] == 1)),
        # The first row of a second batch.
        Cover(shown & (nest.index["batch"] == 1)) if unit._passes == 1 else Cover(shown),
    ]
    return Claim(module=m, ports=inputs_of(unit))


def assume_advances(m: Module, unit: Positions, nest: Nest) -> None:
    """Assume that only a walk that runs advances, and not in a cycle in which it restarts."""
    m.d.comb += [Assume(~unit.advance | nest.running), Assume(~(unit.advance & unit.start))]


def assume_stable(m: Module, unit: Positions, nest: Nest) -> None:
    """Assume that the geometry stays while the walk runs: sizes, pitches, and the element size."""
    names = ("blocks", "height", "width", "pitch", "x_step")
    held = Cat(getattr(unit, name) for name in (*names, *(("size",) if unit._has_sizes else ())))
    before = Signal.like(held, name="geometry_before")
    m.d.sync += before.eq(held)
    m.d.comb += Assume(~nest.running | (held == before))


def touched_banks(address, columns: int, config):
    """Return one bit per bank: it has the first or last of `columns` bytes from `address` on."""
    last = (address + columns - 1)[: len(address)]
    bits = (config.bank_bytes - 1).bit_length()
    ends = [each[bits:] for each in (address, last)]
    return Cat(Cat(end == bank for end in ends).any() for bank in range(config.spad_banks))


def _entries(m: Module, whitebox: Whitebox, nest: Nest, block_end) -> None:
    """Claim that entries are consecutive, or that with pairs, two blocks share pairs of entries.

    With pairs, the first of two blocks uses the first entry of each pair, the second block the
    second one.
    """
    unit = whitebox.unit
    entry = Signal.like(unit.entry)
    of_block = Signal.like(unit.entry)
    has_pairs, odd = unit._pair_bits is not None, nest.index["block"][0]
    paired = Signal(name="paired") if has_pairs else Const(0)
    with m.If(unit.start):
        m.d.sync += [entry.eq(unit.entry), of_block.eq(unit.entry)]
        if has_pairs:
            m.d.sync += paired.eq(unit.pairs)
    with m.Elif(unit.advance):
        m.d.sync += entry.eq(entry + 1)
        with m.If(block_end & paired & ~odd):
            m.d.sync += entry.eq(of_block)
        with m.Elif(block_end):
            m.d.sync += of_block.eq(entry + 1)
    shown, bits = nest.running, unit._pair_bits or 0
    place = Mux(paired, Cat(entry[:bits], odd, entry[bits:])[: len(entry)], entry)
    m.d.comb += [
        implies(shown, unit.position.entry == place),
        implies(shown, whitebox.register(name="entry") == entry),
    ]
    if has_pairs:
        second, pairs = (whitebox.register(name=name) for name in ("second", "paired"))
        m.d.comb += [
            implies(shown, pairs == paired),
            implies(shown & paired, second == odd),
            implies(shown & paired, whitebox.register(name="first_entry") == of_block),
        ]


def position_proofs(units: list) -> list[Proof]:
    """Return the proof of POST's walks among a chip's units."""
    return [
        Proof(
            kind="addresses",
            unit="Positions",
            statement="addresses and entries follow the instruction set's loops over output "
            "blocks, rows and columns, each once; exactly the banks that the bytes touch are "
            "claimed",
            build=lambda unit=unit: positions(unit),
            depth=2,
            cover_depth=30,
        )
        for unit in [each for each in units if isinstance(each, Positions)][:1]
    ] + [
        Proof(
            kind="whole rows",
            unit="Positions",
            statement="with SOFTMAX, addresses follow the loops over batches, passes, rows and "
            "blocks, each once; exactly the banks that the bytes touch are claimed",
            build=lambda unit=unit: whole_rows(unit),
            depth=2,
            cover_depth=30,
        )
        for unit in units
        if isinstance(unit, Positions) and unit._config.softmax
    ]
