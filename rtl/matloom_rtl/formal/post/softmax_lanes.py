"""Claims about the lanes that multiply for SOFTMAX: their connections, and SOFTMAX's results."""

from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal

from matloom.arch.isa import RowFunction
from matloom.arch.numerics import Rounding
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox

__all__ = ["claim_softmax_lanes"]


def claim_softmax_lanes(m: Module, whitebox: Whitebox, beats, parts: dict) -> None:
    """Claim the inputs of SOFTMAX and of the lanes it uses, and that its results are shown."""
    unit, softmax = whitebox.unit, parts["softmax"]
    vectors, active, rows, config = unit.vectors, beats.active, unit.rows, unit._config
    payload = vectors.payload
    fills = unit.command.softmax == RowFunction.FILL
    shown = Signal()
    m.d.sync += shown.eq(softmax.emerging & active)
    m.d.comb += [
        Assume(~softmax.begins | (active & vectors.valid & beats.place)),
        Assume(~softmax.taken | (active & vectors.valid)),
        Assume(~softmax.emerging | (beats.owed != 0)),
        Assert((softmax.active == active) & (softmax.valid == vectors.valid)),
        Assert((softmax.place == beats.place) & (softmax.ends == payload.ends_block)),
        Assert(
            (softmax.start == unit.start) & (softmax.command.as_value() == unit.command.as_value())
        ),
        Assert(softmax.rows.valid == (rows.valid & fills)),
        Assert(softmax.rows.payload == rows.payload),
        implies(fills, rows.ready == softmax.rows.ready),
        implies(active, unit.emerges == Mux(shown, 1 << beats.emerged, 0)[: beats.beats]),
        implies(
            active, whitebox.register(name="emerged") == beats.beat_in_vector(beats.emerged + shown)
        ),
        # Vectors inside are those shown completely, in part, or not yet.
        implies(
            active,
            beats.count * beats.beats
            == beats.level * beats.beats + beats.emerged + shown + beats.owed,
        ),
        implies(active, ~Cat(beats.there[1:]).any()),
        implies(~active, (beats.owed == 0)),
    ]
    for column, byte in enumerate(softmax.bytes):
        m.d.comb += Assert(byte == payload.values.word_select(column, 32)[:8])
    for number in range(config.lanes):
        m.d.comb += implies(active, unit.results[number][:8] == softmax.results[number])
    for way, lane in enumerate(parts["lane"][: config.softmax]):
        settings = Cat(lane.bias, lane.pre_shift, lane.limits)
        m.d.comb += [
            Assert(softmax.products[way] == lane.result),
            implies(active, (lane.value == softmax.values[way]) & (lane.shift == softmax.shift)),
            implies(active, (lane.multiplier == softmax.multiplier) & (settings == 0)),
            implies(active, lane.rounding == Rounding.DOUBLE),
        ]
