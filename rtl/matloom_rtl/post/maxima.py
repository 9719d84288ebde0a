"""Maximum of four consecutive results, between the lanes and the writer."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.post_latency import maxima_latency
from matloom_rtl.arith.stages import register


class Maxima(wiring.Component):
    """Replace every four vectors of results by one: the largest signed byte in each column.

    This applies only while `pools` is set; otherwise, results pass unchanged. A command that pools
    makes a multiple of four vectors.

    Latency: `maxima_latency` cycles while `pools`, else none. If it is one cycle, a register of
    each lane's byte separates the table in block RAM from the comparison. Throughput: one beat per
    cycle. Never stalls: a registered beat moves on in the next cycle, whether or not another
    follows. Reset discards all results inside.

    Members
    -------
    pools: in
        Constant from the first result of a command to the last that leaves.
    emerges, results: in
        The beat of a vector whose results are valid, one-hot, and the results, 32 bits per lane.
    kept: out
        The last beat of one of the first three vectors of a group arrives: its results only update
        the maxima, so that they need no place in the writer's queue.
    maxima_emerge, maxima: out
        Like `emerges` and `results`, for the maxima. While `pools`, only their bytes are defined.
    """

    def __init__(self, config: Config):
        self._config = config
        self._beats = config.columns // config.lanes
        self._registered = maxima_latency(config) > 0
        results = data.ArrayLayout(32, config.lanes)
        super().__init__(
            {
                "pools": In(1),
                "emerges": In(self._beats),
                "results": In(results),
                "kept": Out(1),
                "maxima_emerge": Out(self._beats),
                "maxima": Out(results),
            }
        )

    def elaborate(self, platform):
        """Return the module: a counter of vectors, and a comparison for each lane."""
        m = Module()
        number = Signal(2)
        last = number == 3
        passes = last | ~self.pools
        with m.If(self.emerges[-1] & self.pools):
            m.d.sync += number.eq(number + 1)
        emerges, first, leaving = self.emerges, number == 0, Mux(passes, self.emerges, 0)
        if self._registered:
            emerges, first, leaving = self._register(m, first, last)
        m.d.comb += [
            self.kept.eq(self.emerges[-1] & ~passes),
            self.maxima_emerge.eq(leaving),
        ]
        for lane in range(self._config.lanes):
            byte = self.results[lane][:8]
            compared = register(m, byte, f"byte_{lane}") if self._registered else byte
            larger = self._larger(m, lane, compared, (emerges, first))
            chosen = Mux(self.pools, larger, byte)
            m.d.comb += self.maxima[lane].eq(self.results[lane])
            m.d.comb += self.maxima[lane][:8].eq(chosen)
        return m

    def _register(self, m: Module, first, last):
        """Register the beat; return its copy, whether it begins a maximum, and the outgoing beat.

        Returns a tuple: the beat of the registered bytes, one-hot; whether it starts a maximum; and
        the beat that leaves, one-hot, which is the arriving one unless `pools` is set.
        """
        emerged = Signal.like(self.emerges)
        # Beats of a command that does not pool have been shown already.
        m.d.sync += emerged.eq(Mux(self.pools, self.emerges, 0))
        first, last = register(m, first, "first"), register(m, last, "last")
        maxima = Mux(last, emerged, 0)
        return emerged, first, Mux(self.pools, maxima, self.emerges)

    def _larger(self, m: Module, lane: int, byte, of_group):
        """Store and return the larger of a lane's byte and the maximum of its column so far.

        `of_group` is the beat, one-hot, and whether it belongs to the first vector of a group.
        """
        emerges, first = of_group
        held = [
            Signal(8, name=f"held_{lane}_{beat}", reset_less=True) for beat in range(self._beats)
        ]
        before = held[0]
        for beat in range(1, self._beats):
            before = Mux(emerges[beat], held[beat], before)
        larger = Signal(8, name=f"larger_{lane}")
        is_larger = first | (byte.as_signed() > before.as_signed())
        m.d.comb += larger.eq(Mux(is_larger, byte, before))
        for beat in range(self._beats):
            with m.If(emerges[beat]):
                m.d.sync += held[beat].eq(larger)
        return larger
