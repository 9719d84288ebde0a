"""Claims about the bytes of a second tensor that wait in a queue until POST adds them."""

from amaranth.hdl import Assert, Module

from matloom.arch.isa import Addend
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.lanes import Lanes

__all__ = ["claim_added_bytes"]


def claim_added_bytes(m: Module, unit: Lanes, beats, parts: dict) -> None:
    """Claim that the oldest waiting bytes are added to results that leave, and are then removed."""
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
