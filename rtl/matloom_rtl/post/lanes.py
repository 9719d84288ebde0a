"""The lanes of post-processing, side by side, and how vectors go through them beat by beat."""

from amaranth.hdl import Cat, Module, Mux, Signal

from matloom.arch.config import Config
from matloom.arch.isa import Source
from matloom_rtl.post.float_lane import FloatLane
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.numbers import Numbers
from matloom_rtl.post.tables import Tables

__all__ = ["Lanes", "beat_number"]

#: Vectors in the lanes and behind them: covers the way from the lanes to the memories at full
#: rate, and is the depth of the memory in four lookup tables.
_BEHIND = 16


def beat_number(beats: int) -> Signal:
    """Return a counter of beats; Verilog has no signal without bits, even for a single beat."""
    return Signal(range(max(2, beats)), name="beat")


class Lanes:
    """All lanes, fed with the vectors of a queue.

    Members
    -------
    units, float_results:
        The lanes of integers; what those of numbers give to bytes, and to sums.
    inside:
        Whether a beat entered in this cycle, in the one before, and so on, for all latencies.
    """

    def __init__(self, config: Config, command, numbers: Numbers):
        self._config = config
        self._command = command
        self._numbers = numbers

    def feed(self, m: Module, fifo, parameters, written):
        """Feed the lanes beat by beat; return the last beat of a vector, of a block."""
        command, columns, lanes = self._command, self._config.columns, self._config.lanes
        beats = columns // lanes
        beat, last_beat, block_left = beat_number(beats), Signal(), Signal()
        feed, begin = Signal(), Signal()
        # Vectors that entered and are not written; whether there is a place for one more, and
        # the parameters of its block.
        behind, place = Signal(range(self.behind + 1)), Signal()
        behind_next = Signal.like(behind)
        m.d.sync += behind.eq(behind_next)
        m.d.sync += place.eq((behind_next != self.behind) & parameters.ready)
        m.d.comb += [
            # A vector that has entered is there until its last beat.
            feed.eq((beat != 0) | (fifo.r_rdy & place)),
            begin.eq(feed & (beat == 0)),
            behind_next.eq(behind + begin - written),
            last_beat.eq(feed & (beat == beats - 1)),
            fifo.r_en.eq(last_beat),
            block_left.eq(last_beat & fifo.r_data[-1]),
            parameters.release.eq(block_left),
        ]
        with m.If(feed):
            m.d.sync += beat.eq(Mux(last_beat, 0, beat + 1))

        self.units, self.float_results = [], []
        for index in range(lanes):
            mine = beat
            if beats > 1:
                # Each lane counts for itself: one count for all lanes is far from most of them.
                mine = Signal.like(beat, name=f"beat_{index}", attrs={"keep": 1})
                with m.If(feed):
                    m.d.sync += mine.eq(Mux(mine == beats - 1, 0, mine + 1))
            m.submodules[f"lane_{index}"] = lane = Lane(16 if self._config.has_words else 8)
            self.units.append(lane)
            pick = [
                (fifo.r_data, 32, lane.value),
                (parameters.biases, 32, lane.bias),
                (parameters.multipliers, 32, lane.multiplier),
                (parameters.shifts, 8, lane.shift),
            ]
            for vector, bits, port in pick:
                group = Cat(vector.word_select(b * lanes + index, bits) for b in range(beats))
                m.d.comb += port.eq(group.word_select(mine, bits))
            m.d.comb += [
                lane.rounding.eq(command.rounding),
                lane.pre_shift.eq(command.pre_shift),
                lane.zero.eq(command.output_zero),
                lane.low.eq(self._numbers.limit("low")),
                lane.high.eq(self._numbers.limit("high")),
            ]
            if self._config.has_float:
                self.float_results.append(self._float_lane(m, index, lane))
        self.inside = [feed]
        for stage in range(self._last_latency):
            inside = Signal(name=f"inside_{stage}")
            m.d.sync += inside.eq(self.inside[-1])
            self.inside.append(inside)
        return last_beat, block_left

    @property
    def behind(self) -> int:
        """Vectors that may be in the lanes and behind them: a look-up takes a cycle more."""
        return _BEHIND + self._config.tables

    @property
    def _last_latency(self) -> int:
        """Cycles from the lanes' values to the results that need most of them."""
        config = self._config
        floats = FloatLane.LATENCY if config.has_float else 0
        return max(Lane.LATENCY + config.tables * Tables.LATENCY, floats)

    def _float_lane(self, m: Module, index: int, lane):
        """Put a floating-point lane beside the other; return what goes to bytes, and to sums."""
        m.submodules[f"float_lane_{index}"] = floating = FloatLane(self._config.float_modes)
        low, high = self._numbers.limits
        m.d.comb += [
            floating.value.eq(lane.value),
            floating.bias.eq(lane.bias),
            floating.narrow.eq((self._command.source == Source.SPAD) & ~self._numbers.fp32),
            floating.format.eq(self._numbers.format),
            floating.low.eq(low),
            floating.high.eq(high),
        ]
        return Mux(self._numbers.fp32, floating.result, floating.element), floating.result
