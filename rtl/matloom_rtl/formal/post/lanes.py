"""Proof of POST's lanes: the column of each lane at each beat, and room for every vector."""

from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal

from matloom.arch.curves import Curve
from matloom.arch.isa import Addend, Destination, RowFunction, Table
from matloom_rtl.formal.parts.channel import assume_stays, implies
from matloom_rtl.formal.parts.whitebox import Whitebox, inputs_of
from matloom_rtl.formal.post.added_bytes import claim_added_bytes
from matloom_rtl.formal.post.softmax_lanes import claim_softmax_lanes
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.curves import Curves
from matloom_rtl.post.float_lane import FloatLane
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.lanes import PLACES, Lanes
from matloom_rtl.post.softmax import Softmax
from matloom_rtl.post.tables import Tables

__all__ = ["lanes", "lanes_proofs"]


class _Beats:
    """Reference for the beats of vectors, from their entry into the lanes to their results.

    Members
    -------
    count, level:
        Number of vectors that entered and are not written yet, and of those with all results shown.
    beat, fed:
        Index of the next beat to enter, and whether it enters in this cycle.
    there, number:
        Listed by cycles, whether a beat entered that many cycles ago, and its index.
    active, began, owed:
        With SOFTMAX: the command is SOFTMAX, a vector with results begins, and the number of beats
        of such vectors whose results are not shown yet.
    """

    def __init__(self, m: Module, unit: Lanes, longest: int, softmax: Softmax | None):
        beats, vectors = unit._beats, unit.vectors
        self.active, self.began = Const(0), Const(0)
        self.owed = Signal(10)
        self.kept = unit.kept if unit._config.pooling else Const(0)
        if softmax is not None:
            self.active = unit.command.softmax == RowFunction.SOFTMAX
            self.began = softmax.begins
            m.d.sync += self.owed.eq(self.owed + Mux(self.began, beats, 0) - softmax.emerging)
        self.beats = beats
        self.count = Signal(6)
        self.level = Signal(6)
        self.beat = Signal(range(beats + 1))
        self.fed = Signal()
        self.emerged = Signal(6)
        after = Signal(6)
        begins = Signal()
        place = Signal()
        first, self.last = self.beat == 0, self.beat == beats - 1
        m.d.comb += [
            # A vector enters only with a place for its result and with parameters; then all its
            # beats do.
            begins.eq(vectors.valid & place & first & ~self.active),
            self.fed.eq(~first | begins),
            after.eq(self.count + begins + self.began - unit.written - self.kept),
            Assume(~unit.written | (self.level != 0)),
        ]
        ready = unit.parameters.ready | self.active
        m.d.sync += [self.count.eq(after), place.eq((after < PLACES) & ready)]
        m.d.sync += self.level.eq(self.level + unit.emerges[-1] - unit.written - self.kept)
        with m.If(self.fed):
            m.d.sync += self.beat.eq(Mux(self.last, 0, self.beat + 1))
        with m.If(unit.emerges.any()):
            m.d.sync += self.emerged.eq(Mux(self.emerged == beats - 1, 0, self.emerged + 1))
        self.there, self.number, self.place = [self.fed], [self.beat], place
        for cycle in range(1, longest + 1):
            there = Signal(name=f"there_{cycle}")
            number = Signal(6, name=f"number_{cycle}")
            m.d.sync += [there.eq(self.there[-1]), number.eq(self.number[-1])]
            self.there.append(there)
            self.number.append(number)

    def beat_in_vector(self, number):
        """Return the index of a beat, modulo the beats of a vector."""
        return number % self.beats


def lanes(unit: Lanes) -> Claim:
    """Claim the lane of each column, when its result is shown, and that there is room for it.

    The lanes themselves, the tables, the bytes that wait and SOFTMAX are removed. Assumes that a
    shown vector stays, that the command and its number formats are constant while a vector is
    inside, that only complete vectors are written, and what is proven of SOFTMAX about the vectors
    that it takes and the results that it shows.
    """
    m = Module()
    whitebox = Whitebox(unit)
    m.submodules.unit = whitebox.fragment
    config, command = unit._config, unit.command
    parts, free = _remove_parts(whitebox)
    to_spad = command.destination == Destination.SPAD
    floating = unit.numbers.floating if config.has_float else Const(0)
    looks_up = curves = Const(0)
    if config.tables:
        looks_up = ~floating & to_spad & (command.table == Table.LOOK_UP)
    if config.has_curves:
        curves = command.curve != Curve.NONE
        m.d.comb += Assume(~curves | (to_spad & ~floating & ~looks_up))
    adds = Const(0)
    if config.has_result_sums:
        adds = command.addend == Addend.RESULT
        m.d.comb += Assume(~adds | (to_spad & ~floating & ~looks_up & ~curves))
    #: For each kind of result, its latency, and whether it is requested.
    kinds = [(Lane.LATENCY, ~floating & ~looks_up & ~curves & ~adds)]
    kinds += [(Lane.LATENCY + Tables.LATENCY, looks_up)] if config.tables else []
    kinds += [(Lane.LATENCY + Curves.LATENCY, curves)] if config.has_curves else []
    kinds += [(Lane.LATENCY + Tables.SUM_LATENCY, adds)] if config.has_result_sums else []
    kinds += [(FloatLane.LATENCY, floating)] if config.has_float else []
    longest = max(cycles for cycles, _asked in kinds)
    beats = _Beats(m, unit, longest, parts.get("softmax"))
    assume_stays(m, unit.vectors)
    _assume_whole_vectors(m, unit)
    _assume_stable(m, unit, Cat(*beats.there[:longest], beats.count != 0, beats.began).any())
    if "softmax" in parts:
        claim_softmax_lanes(m, whitebox, beats, parts)
    _claim_inputs(m, unit, beats, parts)
    _claim_results(m, unit, beats, (kinds, to_spad), parts)
    _lemmas(m, whitebox, beats, kinds)
    m.d.comb += Cover((beats.level == 2) & unit.emerges[-1] & unit.written)
    m.d.comb += [Cover(unit.emerges[0] & asked) for _cycles, asked in kinds]
    return Claim(module=m, ports=(*free, *inputs_of(unit)))


def _remove_parts(whitebox: Whitebox) -> tuple[dict, list]:
    """Remove the lanes and the submodules behind them from the unit, for free inputs instead.

    Returns the removed components by name, a list of them for lanes, and their outputs.
    """
    config, parts, free = whitebox.unit._config, {}, []
    for name in ("lane", *(("float_lane",) if config.has_float else ())):
        names = [f"{name}_{number}" for number in range(config.lanes)]
        parts[name] = [whitebox.child(each).unit for each in names]
        for each in names:
            free += whitebox.free(each)
    optional = {"tables": config.tables, "softmax": config.softmax, "curves": config.has_curves}
    optional["waiting"] = config.has_result_sums
    for name, built in optional.items():
        if built:
            parts[name] = whitebox.child(name).unit
            free += whitebox.free(name)
    return parts, free


def _assume_whole_vectors(m: Module, unit: Lanes) -> None:
    """Assume that pooling frees a place of the queue (`kept`) only at a vector's last beat."""
    if unit._config.pooling:
        m.d.comb += Assume(~unit.kept | unit.emerges[-1])


def _assume_stable(m: Module, unit: Lanes, busy) -> None:
    """Assume that command and number formats do not change after a cycle with `busy`."""
    held = Cat(unit.command, unit.numbers)
    before = Signal.like(held, name="held_before", reset_less=True)
    was_busy = Signal()
    m.d.sync += [before.eq(held), was_busy.eq(busy)]
    m.d.comb += Assume(~was_busy | (held == before))


def _claim_inputs(m: Module, unit: Lanes, beats: _Beats, parts: dict) -> None:
    """Claim the inputs of each lane: value and parameters of its column, and the rounding rule."""
    command, parameters, vectors = unit.command, unit.parameters, unit.vectors
    lanes, ways = parts["lane"], unit._config.softmax
    limited = command.curve == Curve.NONE if unit._config.has_curves else Const(1)
    ends = beats.fed & beats.last
    taken = ends | parts["softmax"].taken if ways else ends
    m.d.comb += [
        implies(beats.fed, vectors.valid),
        Assert((vectors.ready == taken) & (unit.last_beat == taken)),
        Assert(parameters.release == (ends & vectors.payload.ends_block)),
    ]
    for number, lane in enumerate(lanes):
        for beat in range(beats.beats):
            column = vectors.payload.values.word_select(beat * len(lanes) + number, 32)
            here = beats.fed & (beats.beat == beat)
            m.d.comb += implies(here, lane.value == column.as_signed())
        # The beat is shown before it enters, as a memory's address.
        own = ~beats.active if number < ways else Const(1)
        m.d.comb += [
            Assert(parameters.beats[number] == beats.beat),
            implies(own, lane.bias == parameters.biases[number]),
            implies(own, lane.multiplier == parameters.multipliers[number]),
            implies(own, lane.shift == parameters.shifts[number]),
            implies(own, lane.rounding == command.rounding),
            implies(own, lane.pre_shift == command.pre_shift),
            implies(own, lane.limits == (limited & (command.destination == Destination.SPAD))),
            Assert(lane.zero == command.output_zero),
            Assert((lane.low == unit.numbers.low) & (lane.high == unit.numbers.high)),
        ]


def _claim_results(m: Module, unit: Lanes, beats: _Beats, asked, parts: dict) -> None:
    """Claim when the results of a beat are shown, with its index, and from which unit they come."""
    config, (kinds, to_spad) = unit._config, asked
    kinds = [(cycles, kind & ~beats.active) for cycles, kind in kinds]
    for cycles, kind in kinds:
        shown = Mux(beats.there[cycles], 1 << beats.number[cycles], 0)
        m.d.comb += implies(kind, unit.emerges == shown[: beats.beats])
    # Every result that is shown has a place behind the lanes.
    m.d.comb += implies(unit.emerges[0], beats.level < PLACES)
    plain = kinds[0][1] & ~beats.active
    for number, lane in enumerate(parts["lane"]):
        result = unit.results[number]
        m.d.comb += implies(plain, result == lane.result.as_unsigned())
        if config.tables:
            tables = parts["tables"]
            m.d.comb += [
                Assert(tables.index[number] == lane.result[:8]),
                implies(kinds[1][1], result[:8] == tables.value[number]),
            ]
        if config.has_curves:
            curves = parts["curves"]
            m.d.comb += [
                Assert(curves.values[number] == lane.result),
                implies(unit.command.curve != Curve.NONE, result[:16] == curves.results[number]),
            ]
        if config.has_float:
            float_lane = parts["float_lane"][number]
            narrow = to_spad & ~unit.numbers.fp32
            found = Mux(narrow, float_lane.element, float_lane.result)
            m.d.comb += [
                Assert(float_lane.value == lane.value.as_unsigned()),
                Assert(float_lane.bias == lane.bias.as_unsigned()),
                implies(kinds[-1][1], result == found),
            ]
    if config.has_curves:
        m.d.comb += Assert(parts["curves"].tanh == (unit.command.curve == Curve.TANH))
    if config.tables:
        tables, rows = parts["tables"], unit.rows
        of_bytes = unit.command.softmax != RowFunction.FILL if config.softmax else Const(1)
        m.d.comb += [
            Assert(tables.fill == (rows.valid & of_bytes)),
            implies(of_bytes, rows.ready == tables.ready),
            Assert((tables.row == rows.payload) & (tables.start == unit.start)),
        ]
        if config.has_result_sums:
            claim_added_bytes(m, unit, beats, parts)
        if unit._config.has_channel_tables:
            m.d.comb += Assert(tables.each == (unit.command.table == Table.FILL_EACH))


def _lemmas(m: Module, whitebox: Whitebox, beats: _Beats, kinds) -> None:
    """Assert invariants for the induction: counters, and consecutive beats in the pipeline."""
    lanes, several = whitebox.unit._config.lanes, beats.beats > 1
    m.d.comb += [
        Assert((beats.beat < beats.beats) & (beats.emerged < beats.beats)),
        Assert(whitebox.register(name="inside") == beats.count),
        Assert(whitebox.register(name="place") == beats.place),
        Assert(whitebox.register(name="beat") == beats.beat),
        Assert(beats.count <= PLACES),
        # A place is offered only if one is free.
        implies(beats.place, beats.count < PLACES),
    ]
    if several:
        counts = (whitebox.register(name=f"beat_{number}") for number in range(lanes))
        m.d.comb += [Assert(count == beats.beat) for count in counts]
    for cycle, there in enumerate(beats.there[1:]):
        m.d.comb += Assert(there == whitebox.register(name=f"inside_{cycle}"))
    following = whitebox.register(name="emerged")
    m.d.comb += Assert(following < beats.beats)
    for cycles, kind in kinds:
        there, number, asked = beats.there, beats.number, kind & ~beats.active
        first = [there[k] & (number[k] == 0) for k in range(1, cycles + 1)]
        inner = sum(first, Const(0))
        m.d.comb += [
            implies(asked, beats.count == beats.level + (beats.emerged != 0) + inner),
            implies(asked, following == beats.beat_in_vector(beats.emerged + there[cycles])),
            implies(asked & there[cycles], number[cycles] == beats.emerged),
        ]
        for k in range(cycles):
            between = sum(there[k + 1 : cycles], Const(0))
            same = number[k] == beats.beat_in_vector(following + between)
            m.d.comb += implies(asked & (there[k] if k else 1), same)


def lanes_proofs(units: list) -> list[Proof]:
    """Return a proof for each set of lanes among a chip's units."""
    return [
        Proof(
            kind="places",
            unit="Lanes",
            statement="each column of a vector enters its lane at its beat, with the parameters "
            "of that beat, and its result is shown as the same beat; vectors enter completely, "
            "once, with parameters, and only with room for their results",
            build=lambda unit=unit: lanes(unit),
            depth=2,
            cover_depth=30,
        )
        for unit in units
        if isinstance(unit, Lanes)
    ]
