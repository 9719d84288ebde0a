"""LOGISTIC and TANH with results of 16 bits, interpolated linearly in a fixed table."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.curves import FRACTION_BITS, RESULT_BITS, SIGMOIDS
from matloom_rtl.arith.stages import delay, register

__all__ = ["Curves"]

#: Differences between each entry and the next; the last entry has none.
_RISES = tuple(after - before for before, after in pairwise(SIGMOIDS))
_RISE_BITS = max(_RISES).bit_length()

#: Bits of an entry that are stored. The bit above these is always one, because the sigmoid of a
#: number that is not negative is at least one half.
_ENTRY_BITS = 15

#: Bits of the index of an entry, and of a magnitude within the table.
_PLACE_BITS = (len(SIGMOIDS) - 1).bit_length()
_MAGNITUDE_BITS = _PLACE_BITS + FRACTION_BITS


class Curves(wiring.Component):
    """Compute `arch.curves.apply_curve`, with a table and a small multiplier for each lane.

    A block RAM for each lane holds entries and their differences, and is never written.

    Latency: `LATENCY` cycles from `values` to `results`. Throughput: a value for each lane and
    cycle. Never stalls; reset clears nothing.

    Parameters
    ----------
    lanes: int

    Members
    -------
    tanh: in
        TANH instead of LOGISTIC. Constant while values are in the pipeline.
    values, results: in, out
        A signed 32-bit value for each lane, and its 16-bit result.
    """

    #: Cycles from a value to its result: magnitude, entry, product, sum, sign.
    LATENCY = 5

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "tanh": In(1),
                "values": In(data.ArrayLayout(signed(32), lanes)),
                "results": Out(data.ArrayLayout(16, lanes)),
            }
        )

    def elaborate(self, platform):
        """Return the module: for each lane a table of sigmoids, and their interpolation."""
        m = Module()
        contents = [
            entry - (1 << _ENTRY_BITS) | rise << _ENTRY_BITS
            for entry, rise in zip(SIGMOIDS, (*_RISES, 0), strict=True)
        ]
        for lane in range(self._lanes):
            magnitude, negative = self._magnitude(m, lane, self.values[lane])
            memory = Memory(shape=_ENTRY_BITS + _RISE_BITS, depth=len(contents), init=contents)
            m.submodules[f"table_{lane}"] = memory
            read = memory.read_port()
            m.d.comb += read.addr.eq(magnitude[FRACTION_BITS:])
            part, last = (
                register(m, value, f"{name}_{lane}")
                for name, value in (
                    ("part", magnitude[:FRACTION_BITS]),
                    ("last", magnitude[FRACTION_BITS:].all()),
                )
            )
            entry, rise = read.data[:_ENTRY_BITS], read.data[_ENTRY_BITS:]
            # The last entry of LOGISTIC is even.
            entry = Cat(entry[0] & (self.tanh | ~last), entry[1:])
            product = register(m, part * rise, f"product_{lane}")
            entry = register(m, entry, f"entry_{lane}")
            half = Mux(self.tanh, 1 << FRACTION_BITS - 1, 1 << FRACTION_BITS)
            line = (entry << FRACTION_BITS) + product + half
            height = register(m, line[FRACTION_BITS:][: _ENTRY_BITS + 1], f"height_{lane}")
            below_zero = delay(m, negative, 3, f"below_zero_{lane}")
            # The highest bit of the entry is one: it is what TANH subtracts, and what LOGISTIC has
            # as a half.
            size = Mux(self.tanh, height[:RESULT_BITS], Cat(height[1:RESULT_BITS], 1))
            minus = (-size)[:16]
            minus = Cat(minus[:RESULT_BITS], minus[RESULT_BITS] & self.tanh)
            m.d.sync += self.results[lane].eq(Mux(below_zero, minus, size))
        return m

    def _magnitude(self, m: Module, lane: int, value):
        """Return a value's magnitude and whether it is negative, both one cycle later.

        TANH doubles the magnitude. Magnitudes beyond the table become the largest within it.
        """
        negative = value[-1]
        flipped = (value ^ negative.replicate(32))[:_MAGNITUDE_BITS]
        beyond = (value[_MAGNITUDE_BITS:] ^ negative.replicate(32 - _MAGNITUDE_BITS)).any()
        size = Signal(_MAGNITUDE_BITS + 1, name=f"size_{lane}")
        m.d.comb += size.eq(flipped + negative)
        # TANH doubles it.
        shown = Mux(self.tanh, size << 1, size)[: _MAGNITUDE_BITS + 2]
        beyond |= shown[_MAGNITUDE_BITS:].any()
        magnitude = shown[:_MAGNITUDE_BITS] | beyond.replicate(_MAGNITUDE_BITS)
        return (
            register(m, magnitude, f"magnitude_{lane}"),
            register(m, negative, f"negative_{lane}"),
        )
