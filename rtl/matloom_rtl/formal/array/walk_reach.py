"""Proof of bounds on the loops of an EXEC: no position exceeds the width of `POSITION_BITS`."""

from itertools import pairwise

from amaranth.hdl import Assert, Assume, Const, Cover, Module, Signal, signed

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.array.walk import Walk
from matloom_rtl.formal.array.walk_nest import LOOPS, POSITION_BITS, fits
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.loop_nest import Loop, Nest
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.ports import body_layout

__all__ = ["reach", "reach_proofs"]


def reach(config: Config) -> Claim:
    """Claim that no position that the loops reach overflows, as the proof of `Walk` assumes."""
    m = Module()
    layout = body_layout(Opcode.EXEC, config)
    begin = Signal()
    move = Signal()
    command = Signal(layout)
    fields = Signal(layout, init=dict.fromkeys(LOOPS, 1), reset_less=True)
    with m.If(begin):
        m.d.sync += fields.eq(command)
    m.d.comb += [
        *(Assume(command[name] != 0) for name in LOOPS),
        *(Assert(fields[name] != 0) for name in LOOPS),
    ]
    for place, bits in POSITION_BITS.items():
        steps = {
            name: Const(config.rows) if each.get(place) == "rows" else fields[each[place]]
            for name, each in LOOPS.items()
            if place in each
        }
        loops = {
            name: Loop(fields[name], **({place: steps[name]} if name in steps else {}))
            for name in LOOPS
        }
        base = f"first_{place}"
        nest = Nest(m, loops, {place: (signed(bits), command[base])}, begin=begin, move=move)
        m.d.comb += Assume(~move | nest.running)
        _claim_bound(m, nest, place, fields[base], steps)
    m.d.comb += Cover(move & nest.end & (nest.index["height"] == 1))
    return Claim(module=m, ports=(begin, move, command.as_value()))


def _claim_bound(m: Module, nest: Nest, place: str, first, steps: dict) -> None:
    """Claim that a place is at most its first value plus the loops' indices times largest steps."""
    values, most = nest.at[place], first
    m.d.comb += nest.lemmas()
    for outer, name in pairwise((None, *LOOPS)):
        before = values[outer] if outer else first
        if name in steps:
            most = most + (nest.index[name] << len(steps[name]))
        m.d.comb += [
            implies(nest.running, values[name] >= before),
            implies(nest.running, values[name] <= most),
            implies(nest.running, fits(values[name])),
        ]


def reach_proofs(units: list) -> list[Proof]:
    """Return the proof for the loops of a chip's walk."""
    return [
        Proof(
            kind="addresses",
            unit="Walk, reach of its loops",
            statement="no place of the loops of EXEC exceeds the width that the proof of Walk "
            "gives to its numbers",
            build=lambda unit=unit: reach(unit._config),
            depth=2,
            cover_depth=10,
        )
        for unit in units
        if isinstance(unit, Walk)
    ]
