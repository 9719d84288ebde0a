"""Proof of EXEC's requests: the attributes of each vector are stored until its bytes arrive."""

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Signal

from matloom_rtl.array.cells import operand_bits
from matloom_rtl.array.execute import Execute, attributes_layout
from matloom_rtl.formal.array.walk_nest import STAGES
from matloom_rtl.formal.array.windows import is_of_bytes
from matloom_rtl.formal.parts.channel import implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.memory.credits import CREDITS
from matloom_rtl.ports import SPAD_READ_LATENCY

__all__ = ["execute", "execute_proofs"]

#: Submodules that are replaced by their proven properties; nothing is assumed of loader and array.
_FREED_SUBMODULES = ("walk", "loader", "array", "vectors", "known")


def execute(unit: Execute) -> Claim:
    """Claim that a vector's attributes are in the queue `known` from its request to its bytes.

    Assumes that `Walk` delivers vectors `STAGES` cycles after they begin, and that the request
    queue has room whenever it signals `room`, and shows each vector once.
    """
    m = Module()
    whitebox = Whitebox(unit)
    names = ("walk", "vectors", "known", "array")
    walk, vectors, known, array = (whitebox.child(name).unit for name in names)
    free = [port for name in _FREED_SUBMODULES for port in whitebox.free(name)]
    m.submodules.unit = whitebox.fragment
    shown, taken = vectors.o, vectors.o.valid & vectors.o.ready
    leaves = taken & shown.payload.valid
    begun, fired = [walk.start], [leaves]
    for each, cycles in ((begun, STAGES), (fired, SPAD_READ_LATENCY)):
        for number in range(1, cycles + 1):
            later = Signal(name=f"{'begun' if each is begun else 'fired'}_{number}")
            m.d.sync += later.eq(each[-1])
            each.append(later)
    # Request queue: vectors and pauses waiting, vectors alone, and its credits.
    waits, some, level = (Signal(range(CREDITS + 2), name=n) for n in ("waits", "some", "level"))
    freed = Signal()
    m.d.sync += [
        waits.eq(waits + vectors.w_en - taken),
        some.eq(some + (vectors.w_en & vectors.w_data.valid) - leaves),
        level.eq(level + known.w_en - known.r_en),
        freed.eq(taken),
    ]
    used = waits + sum(begun[1:]) + freed
    others = waits - some
    m.d.comb += [
        Assume(vectors.room == (used != CREDITS)),
        Assume(~walk.start | walk.room),
        Assume((walk.valid | walk.paused) == begun[-1]),
        Assume(~(walk.valid & walk.paused)),
        Assume(~shown.valid | (waits != 0)),
        # Without an item, the fields hold a write that was not valid.
        Assume(shown.valid | ~shown.payload.valid),
        Assume(~(shown.valid & shown.payload.valid) | (some != 0)),
        Assume(~(shown.valid & ~shown.payload.valid) | (others != 0)),
        Assume(known.r_rdy == (level != 0)),
        # The claims.
        Assert(vectors.start == walk.start),
        Assert(walk.room == vectors.room),
        Assert(vectors.w_en == (walk.valid | walk.paused)),
        Assert(known.w_en == walk.valid),
        implies(known.w_en, vectors.w_data.valid),
        implies(known.w_en, level < CREDITS),
        Assert(known.r_en == fired[SPAD_READ_LATENCY - 1]),
        implies(known.r_en, level != 0),
        # Lemmas.
        Assert(level == some + sum(fired[1:SPAD_READ_LATENCY])),
        Assert((some <= waits) & (used <= CREDITS)),
        Cover(known.w_en & (level == 5)),
    ]
    if unit._config.has_windows:
        _windows(m, unit._config, array, known, fired[SPAD_READ_LATENCY])
    return Claim(module=m, ports=(*free, *inputs_of(unit)))


def _windows(m: Module, config, array, attributes_queue, arrives) -> None:
    """Claim that the array gets a window's attributes with its bytes, and its position before."""
    layout = attributes_layout(config)
    present, entered = (Signal(layout, name=name) for name in ("present", "entered"))
    enters = Signal()
    m.d.sync += [
        *(present.eq(attributes_queue.r_data), entered.eq(present)),
        enters.eq(arrives),
    ]
    slide, window = array.slide, entered.window
    m.d.comb += [
        implies(arrives, array.position == present.position),
        Assert(array.valid == enters),
        implies(enters, (slide.window == window) & (slide.pad == entered.pad)),
        implies(enters, slide.shift == (window & ~entered.first)),
        implies(enters, slide.recall == (window & ~entered.first_line)),
    ]
    if config.zero_points:
        # Windows have none, as `Walk` is proven to say.
        of_bytes = is_of_bytes(array.vector, operand_bits(config))
        m.d.comb += implies(enters & ~entered.zero_points, of_bytes)
    if config.has_wide_windows:
        shapes = (Const(1, len(config.window_shapes)) << entered.window_shape) & window.replicate(4)
        m.d.comb += implies(enters, Cat(slide.shapes) == shapes)
    if config.has_paired_windows:
        m.d.comb += implies(enters, slide.paired == entered.paired)


def execute_proofs(units: list) -> list[Proof]:
    """Return the proof for the execute unit of a chip."""
    return [
        Proof(
            kind="places",
            unit="Execute",
            statement="the attributes of a vector of EXEC are stored when it is issued, and still "
            "there when its bytes arrive; the array gets those of windows with the bytes",
            build=lambda unit=unit: execute(unit),
            depth=SPAD_READ_LATENCY + STAGES,
            cover_depth=20,
        )
        for unit in units
        if isinstance(unit, Execute)
    ]
