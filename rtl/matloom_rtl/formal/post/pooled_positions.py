"""Proof of POST's walk over blocks of 2 x 2 sums, compared with the instruction set's loops."""

from amaranth.hdl import Assume, Const, Cover, Module, Mux, Signal

from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.loop_nest import Loop, Nest
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.post.positions import LOOPS, assume_advances, assume_stable, touched_banks
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.positions import Positions


def pooled_blocks(unit: Positions) -> Claim:
    """Claim that each address comes four times, with the entries of a block of 2 x 2 sums.

    Makes the assumptions of `positions`, and assumes elements of one byte and no pairs.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    at, columns = unit.position, unit._columns
    nest = Nest(
        m,
        {
            "block": Loop(unit.blocks, address=Const(columns)),
            "row": Loop(unit.height, address=unit.pitch),
            "column": Loop(unit.width, address=unit.x_step),
            "quarter": Loop(Const(4, 3)),
        },
        {"address": (len(at.address), unit.address)},
        begin=unit.start,
        move=unit.advance,
    )
    assume_advances(m, unit, nest)
    m.d.comb += Assume(unit.pooled)
    if unit._config.softmax:
        m.d.comb += Assume(~unit.whole_rows)
    if unit._pair_bits is not None:
        m.d.comb += Assume(~unit.pairs)
    if unit._has_sizes:
        m.d.comb += Assume(unit.size == 0)
    assume_stable(m, unit, nest)
    shown, address, last = nest.running, nest.place("address"), nest.last
    #: First entry of the current two rows of sums; `row_end`: whether this is their last sum.
    of_rows = Signal.like(unit.entry)
    row_end = last["column"] & last["quarter"]
    with m.If(unit.start):
        m.d.sync += of_rows.eq(unit.entry)
    with m.Elif(unit.advance & row_end):
        m.d.sync += of_rows.eq(of_rows + 4 * unit.width)
    quarter = nest.index["quarter"]
    below = Mux(quarter[1], 2 * unit.width, 0)
    entry = (of_rows + 2 * nest.index["column"] + quarter[0] + below)[: len(of_rows)]
    m.d.comb += [
        implies(shown, at.address == address),
        implies(shown, at.bank_select == touched_banks(address, columns, unit._config)),
        implies(shown, at.entry == entry),
        implies(shown, at.block_end == (row_end & last["row"])),
        implies(shown, at.last_block == last["block"]),
        implies(shown, at.end == nest.end),
        *nest.lemmas(),
        implies(shown, nest.at["address"]["column"] == address),
        implies(shown, whitebox.register(name="quarter") == quarter),
        implies(shown, whitebox.register(name="below") == 2 * unit.width - 1),
    ]
    for name, count in LOOPS.items():
        left = whitebox.register(name=f"{name}_left")
        m.d.comb += [
            implies(shown, left + nest.index[name] + 1 == getattr(unit, count)),
            implies(shown, whitebox.register(name=f"{name}_last") == last[name]),
        ]
    for name in ("row", "block"):
        register = whitebox.register(name=f"{name}_start")
        m.d.comb += implies(shown, register == nest.at["address"][name])
    m.d.comb += Cover(unit.advance & nest.end & (nest.index["block"] == 1))
    return Claim(module=m, ports=inputs_of(unit))


def pooled_proofs(units: list) -> list[Proof]:
    """Return the proof of POST's walk over blocks of sums; none if the chip lacks it."""
    return [
        Proof(
            kind="pooled blocks",
            unit="Positions",
            statement="for maxima, each address comes four times, with the entries of a block of "
            "2 x 2 sums; exactly the banks that the bytes touch are claimed",
            build=lambda unit=unit: pooled_blocks(unit),
            depth=2,
            cover_depth=30,
        )
        for unit in units
        if isinstance(unit, Positions) and unit._pools
    ]
