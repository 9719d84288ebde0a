"""Results to which POST adds bytes of another tensor: the bytes that wait the longest."""

from amaranth.hdl import Assert, Module

from matloom.arch.isa import Addend
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.lanes import Lanes

__all__ = ["adds_bytes"]


def adds_bytes(m: Module, unit: Lanes, beats, parts: dict) -> None:
    """Claim that results are added to the bytes that wait the longest, which are then taken."""
    adds, tables, waiting = unit.command.addend == Addend.RESULT, parts["tables"], parts["waiting"]
    m.d.comb += [
        Assert((waiting.arrives == unit.bytes_arrive) & (waiting.arriving == unit.bytes)),
        Assert(waiting.takes == (adds & beats.there[Lane.LATENCY])),
        Assert(tables.adds == adds),
    ]
    for number, other in enumerate(tables.other):
        m.d.comb += [
            Assert(other == waiting.oldest.word_select(number, 8)),
            implies(adds & ~beats.active, unit.results[number][:8] == tables.total[number]),
        ]
