"""Array of lanes through which vectors pass beat by beat."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.curves import Curve
from matloom.arch.isa import Addend, Destination, Opcode, RowFunction, Source, Table
from matloom.arch.numerics import Rounding
from matloom_rtl.ports import body_layout
from matloom_rtl.post.curves import Curves
from matloom_rtl.post.float_lane import FloatLane
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.lane_tables import add_tables, add_waiting
from matloom_rtl.post.layouts import ParametersSignature, table_row_signature, vector_layout
from matloom_rtl.post.numbers import numbers_layout
from matloom_rtl.post.softmax import Softmax
from matloom_rtl.post.tables import Tables

__all__ = ["PLACES", "Lanes"]

#: Maximum number of vectors in the lanes and in the result queue: enough for full rate on the path
#: from the lanes to the memories, including a table look-up. It equals the depth of a memory made
#: of lookup tables.
PLACES = 16


class Lanes(wiring.Component):
    """Pass vectors through the lanes in ``columns / lanes`` beats each.

    A vector that has entered is never stalled. It enters when one of the `PLACES` is free for its
    result and the parameters of its block are available.

    Latency: that of a lane from a beat to its results, plus one cycle with a table look-up, two
    with sums of results, or five with a curve; none from `vectors.valid` to the first beat.
    Throughput: one beat per cycle. Stalls: before the first beat only, for `parameters.ready` and a
    free place. Reset discards all vectors inside.

    With `config.softmax`, `Softmax` takes the vectors of SOFTMAX commands, which have no
    parameters, and borrows `config.softmax` lanes.

    Members
    -------
    command, numbers: in
        The command and its number formats (`Numbers`), constant while a vector is inside.
    start: in
        First cycle of a command; the next row written to a table is row 0.
    rows: stream of byte rows for a table, in
        Only with `config.fills_tables`.
    vectors: stream of `vector_layout`, in
        Taken with the last beat.
    parameters: ParametersSignature, out
        Released with the last beat of a block.
    bytes_arrive, bytes: in
        Bytes to add to the results of a vector that comes at least three cycles later. Only with
        `config.has_result_sums`.
    written: in
        A result leaves the queue and frees its place.
    kept: in
        A result frees its place because it only enters the maximum in `Maxima`. Only with
        `config.pooling`.
    emerges, results: out
        One-hot: the beat of a vector whose results are valid in this cycle; 32 bits per lane, bytes
        and words in the low bits.
    last_beat: out
        The last beat of a vector, or of SOFTMAX its last elements, enters in this cycle.
    """

    def __init__(self, config: Config):
        self._config = config
        self._beats = config.columns // config.lanes
        super().__init__(
            {
                "command": In(body_layout(Opcode.POST, config)),
                "numbers": In(numbers_layout(config)),
                "start": In(1),
                "vectors": In(stream.Signature(vector_layout(config))),
                "parameters": Out(ParametersSignature(config)),
                "written": In(1),
                **({"kept": In(1)} if config.pooling else {}),
                **(
                    {"bytes_arrive": In(1), "bytes": In(8 * config.columns)}
                    if config.has_result_sums
                    else {}
                ),
                "emerges": Out(self._beats),
                "results": Out(data.ArrayLayout(32, config.lanes)),
                **({"rows": In(table_row_signature(config))} if config.fills_tables else {}),
                "last_beat": Out(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: the lanes, the units behind them, and the beats that they process."""
        m = Module()
        config = self._config
        softmax = self._softmax(m)
        feed, beat = self._feed(m, softmax)
        lanes, floats = [], []
        for index in range(config.lanes):
            m.submodules[f"lane_{index}"] = lane = Lane(16 if config.has_words else 8)
            m.d.comb += self.parameters.beats[index].eq(self._lane_beat(m, index, feed, beat))
            self._connect(m, index, lane)
            lanes.append(lane)
            if config.has_float:
                floats.append(self._float_lane(m, index, lane))
        if config.has_curves:
            self._disable_clamp_for_curves(m, lanes)
        if softmax is not None:
            self._connect_softmax(m, lanes, softmax)
        inside = [feed]
        for stage in range(self._last_latency):
            later = Signal(name=f"inside_{stage}")
            m.d.sync += later.eq(inside[-1])
            inside.append(later)
        self._show_results(m, lanes, floats, inside, softmax)
        return m

    def _softmax(self, m: Module) -> Softmax | None:
        """Add the unit that computes SOFTMAX, if it is built, and return it; else None."""
        if not self._config.softmax:
            return None
        m.submodules.softmax = softmax = Softmax(self._config)
        command, values = self.command, self.vectors.payload.values
        m.d.comb += [
            softmax.command.eq(command),
            softmax.start.eq(self.start),
            softmax.active.eq(command.softmax == RowFunction.SOFTMAX),
            softmax.valid.eq(self.vectors.valid),
            softmax.ends.eq(self.vectors.payload.ends_block),
            *(softmax.bytes[at].eq(values.word_select(at, 32)) for at in range(len(softmax.bytes))),
            softmax.rows.valid.eq(self.rows.valid & (command.softmax == RowFunction.FILL)),
            softmax.rows.payload.eq(self.rows.payload),
        ]
        if not self._config.tables:
            m.d.comb += self.rows.ready.eq(softmax.rows.ready)
        return softmax

    def _connect_softmax(self, m: Module, lanes: list, softmax: Softmax):
        """Connect the first lanes to `softmax` while it is active."""
        for way in range(self._config.softmax):
            lane = lanes[way]
            m.d.comb += softmax.products[way].eq(lane.result)
            with m.If(softmax.active):
                m.d.comb += [
                    lane.value.eq(softmax.values[way]),
                    lane.multiplier.eq(softmax.multiplier),
                    lane.shift.eq(softmax.shift),
                    lane.bias.eq(0),
                    lane.rounding.eq(Rounding.DOUBLE),
                    lane.pre_shift.eq(0),
                    lane.limits.eq(0),
                ]

    def _feed(self, m: Module, softmax: Softmax | None):
        """Feed vectors into the lanes; return whether a beat enters, and its index."""
        beats, vectors, parameters = self._beats, self.vectors, self.parameters
        # Verilog has no zero-width signals, so a single beat still takes one bit.
        beat = Signal(range(max(2, beats)))
        feed = Signal()
        begin = Signal()
        last = Signal()
        # Vectors that entered and are not yet written; whether there is room for one more, with the
        # parameters of its block.
        inside = Signal(range(PLACES + 1))
        place = Signal()
        inside_next = Signal.like(inside)
        active, begins, taken = Const(0), Const(0), Const(0)
        ready, release = parameters.ready, self.last_beat & vectors.payload.ends_block
        if softmax is not None:
            active, begins, taken = softmax.active, softmax.begins, softmax.taken
            ready, release = ready | active, release & ~active
            m.d.comb += softmax.place.eq(place)
        entered = inside + (begin | begins)
        if self._config.pooling:
            entered = entered - self.kept
        m.d.sync += inside.eq(inside_next)
        m.d.sync += place.eq((inside_next != PLACES) & ready)
        m.d.comb += [
            # A vector that has entered stays valid until its last beat.
            feed.eq((beat != 0) | (vectors.valid & place & ~active)),
            begin.eq(feed & (beat == 0)),
            inside_next.eq(entered - self.written),
            last.eq(feed & (beat == beats - 1)),
            self.last_beat.eq(last | taken),
            vectors.ready.eq(self.last_beat),
            parameters.release.eq(release),
        ]
        with m.If(feed):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
        return feed, beat

    def _lane_beat(self, m: Module, index: int, feed, beat):
        """Return the index of the beat, counted next to the lane to keep wires short."""
        if self._beats == 1:
            return beat
        mine = Signal.like(beat, name=f"beat_{index}", attrs={"keep": 1})
        with m.If(feed):
            m.d.sync += mine.eq(Mux(mine == self._beats - 1, 0, mine + 1))
        return mine

    def _connect(self, m: Module, index: int, lane: Lane):
        """Connect a lane to the value of its column in the current beat, and to its parameters."""
        parameters, command = self.parameters, self.command
        columns = range(index, self._config.columns, self._config.lanes)
        values = Array(self.vectors.payload.values.word_select(each, 32) for each in columns)
        m.d.comb += [
            lane.value.eq(values[parameters.beats[index]]),
            lane.bias.eq(parameters.biases[index]),
            lane.multiplier.eq(parameters.multipliers[index]),
            lane.shift.eq(parameters.shifts[index]),
            lane.rounding.eq(command.rounding),
            lane.pre_shift.eq(command.pre_shift),
            lane.limits.eq(command.destination == Destination.SPAD),
            lane.zero.eq(command.output_zero),
            lane.low.eq(self.numbers.low),
            lane.high.eq(self.numbers.high),
        ]

    def _float_lane(self, m: Module, index: int, lane: Lane) -> FloatLane:
        """Add a floating-point lane next to the integer one, and return it."""
        numbers = self.numbers
        m.submodules[f"float_lane_{index}"] = floating = FloatLane(self._config.float_modes)
        m.d.comb += [
            floating.value.eq(lane.value),
            floating.bias.eq(lane.bias),
            floating.narrow.eq((self.command.source == Source.SPAD) & ~numbers.fp32),
            floating.format.eq(numbers.format),
            floating.low.eq(numbers.float_low),
            floating.high.eq(numbers.float_high),
        ]
        return floating

    @property
    def _last_latency(self) -> int:
        """Cycles from the lanes' inputs to the slowest results."""
        config = self._config
        floats = FloatLane.LATENCY if config.has_float else 0
        behind = max(bool(config.tables) * Tables.LATENCY, config.has_curves * Curves.LATENCY)
        behind = max(behind, config.has_result_sums * Tables.SUM_LATENCY)
        return max(Lane.LATENCY + behind, floats)

    def _show_results(self, m: Module, lanes, floats, inside, softmax: Softmax | None):
        """Show the beats of results as they leave the lanes."""
        config, command, numbers = self._config, self.command, self.numbers
        beats, to_spad = self._beats, command.destination == Destination.SPAD
        results = [lane.result for lane in lanes]
        emerging = inside[Lane.LATENCY - 1]
        if config.tables:
            looks_up = to_spad & (command.table == Table.LOOK_UP)
            emerging = Mux(looks_up, inside[Lane.LATENCY + Tables.LATENCY - 1], emerging)
            tables = add_tables(m, self, lanes, softmax)
            for index, entry in enumerate(tables.value):
                byte, rest = results[index][:8], results[index][8:]
                results[index] = Cat(Mux(looks_up, entry, byte), rest)
            if config.has_result_sums:
                adds = command.addend == Addend.RESULT
                emerging = Mux(adds, inside[Lane.LATENCY + Tables.SUM_LATENCY - 1], emerging)
                add_waiting(m, self, tables, takes=adds & inside[Lane.LATENCY])
                for index, total in enumerate(tables.total):
                    byte, rest = results[index][:8], results[index][8:]
                    results[index] = Cat(Mux(adds, total, byte), rest)
        if config.has_curves:
            curved, behind = command.curve != Curve.NONE, Lane.LATENCY + Curves.LATENCY
            emerging = Mux(curved, inside[behind - 1], emerging)
            for index, word in enumerate(self._curves(m, lanes)):
                low, high = results[index][:16], results[index][16:]
                results[index] = Cat(Mux(curved, word, low), high)
        if config.has_float:
            emerging = Mux(numbers.floating, inside[FloatLane.LATENCY - 1], emerging)
            for index, lane in enumerate(floats):
                narrow = to_spad & ~numbers.fp32
                result = Mux(narrow, lane.element, lane.result)
                results[index] = Mux(numbers.floating, result, results[index])
        if softmax is not None:
            emerging = Mux(softmax.active, softmax.emerging, emerging)
            for index, result in enumerate(results):
                byte = Mux(softmax.active, softmax.results[index], result[:8])
                results[index] = Cat(byte, result[8:])
        emerged = Signal(range(max(2, beats)))
        # Known a cycle ahead and registered for each beat, because it drives many bits.
        m.d.sync += self.emerges.eq(Mux(emerging, 1 << emerged, 0))
        with m.If(emerging):
            m.d.sync += emerged.eq(Mux(emerged == beats - 1, 0, emerged + 1))
        m.d.comb += [each.eq(result) for each, result in zip(self.results, results, strict=True)]

    def _disable_clamp_for_curves(self, m: Module, lanes):
        """Do not clamp the results of lanes while the command applies a curve to them."""
        with m.If(self.command.curve != Curve.NONE):
            m.d.comb += [lane.limits.eq(0) for lane in lanes]

    def _curves(self, m: Module, lanes):
        """Add `Curves`; return the LOGISTIC or TANH of each lane's result, a word."""
        m.submodules.curves = curves = Curves(len(lanes))
        m.d.comb += [
            curves.tanh.eq(self.command.curve == Curve.TANH),
            *(curves.values[number].eq(lane.result) for number, lane in enumerate(lanes)),
        ]
        return [curves.results[number] for number in range(len(lanes))]
