"""Maxima of four results each, between the lanes and the writer."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config


class Maxima(wiring.Component):
    """Replace every four vectors of results by one, of the larger signed byte in each column.

    Only while `pools`; else results pass unchanged. A command that pools makes a multiple of four
    vectors.

    Latency: none; the first three results of a group are kept. Throughput: one beat per cycle.
    Never stalls. Reset forgets the results that are kept.

    Members
    -------
    pools: in
        Constant from the first result of a command to the last.
    emerges, results: in
        One-hot: the beat of a vector whose results are valid; 32 bits per lane.
    kept: out
        The last beat of a vector that is kept: it needs no place in a queue.
    maxima_emerge, maxima: out
        Like `emerges` and `results`, for the maxima.
    """

    def __init__(self, config: Config):
        self._config = config
        self._beats = config.columns // config.lanes
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
        m = Module()
        number = Signal(2)
        last = number == 3
        passes = last | ~self.pools
        with m.If(self.emerges[-1] & self.pools):
            m.d.sync += number.eq(number + 1)
        m.d.comb += [
            self.kept.eq(self.emerges[-1] & ~passes),
            self.maxima_emerge.eq(Mux(passes, self.emerges, 0)),
        ]
        for lane in range(self._config.lanes):
            byte = self.results[lane][:8]
            larger = self._larger(m, lane, byte, number == 0)
            chosen = Mux(self.pools, larger, byte)
            m.d.comb += self.maxima[lane].eq(self.results[lane])
            m.d.comb += self.maxima[lane][:8].eq(chosen)
        return m

    def _larger(self, m: Module, lane: int, byte, first):
        """Return the larger one of a lane's byte and what is kept of its column; keep it."""
        held = [
            Signal(8, name=f"held_{lane}_{beat}", reset_less=True) for beat in range(self._beats)
        ]
        before = held[0]
        for beat in range(1, self._beats):
            before = Mux(self.emerges[beat], held[beat], before)
        larger = Signal(8, name=f"larger_{lane}")
        is_larger = first | (byte.as_signed() > before.as_signed())
        m.d.comb += larger.eq(Mux(is_larger, byte, before))
        for beat in range(self._beats):
            with m.If(self.emerges[beat]):
                m.d.sync += held[beat].eq(larger)
        return larger
