"""Floating-point lane of post-processing: widen, add the bias, limit, narrow."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.floats import FLOAT_FORMATS
from matloom_rtl.arith.add import FloatAdd
from matloom_rtl.arith.narrow import Narrow
from matloom_rtl.arith.stages import delay
from matloom_rtl.arith.widen import Widen

__all__ = ["FloatLane"]


class FloatLane(wiring.Component):
    """Compute ``floats.limit(floats.add(value, bias), low, high)`` as fp32 and in a format.

    Latency: fifteen cycles (`LATENCY`). Throughput: one value per cycle. Never stalls. All inputs
    except `value` and `bias` must be constant while values are in the pipeline.

    Parameters
    ----------
    formats: tuple of str
        Names from `floats.FLOAT_FORMATS`.

    Members
    -------
    value: in
        An fp32 number, or with `narrow` a number of the format in the low bits.
    narrow: in
        Values are numbers of the format, not fp32.
    format: in
        Index of the format in `formats`.
    bias: in
        fp32; -0 changes nothing.
    low, high: in
        fp32 limits.
    result, element: out
        The result as fp32, and in the format.
    """

    #: Cycles from a value to its result.
    LATENCY = Widen.LATENCY + FloatAdd.LATENCY + 1 + Narrow.LATENCY

    def __init__(self, formats: tuple[str, ...]):
        self._formats = formats
        self._bits = max(FLOAT_FORMATS[name].bits for name in formats)
        super().__init__(
            {
                "value": In(32),
                "narrow": In(1),
                "format": In(range(len(formats))),
                "bias": In(32),
                "low": In(32),
                "high": In(32),
                "result": Out(32),
                "element": Out(self._bits),
            }
        )

    def elaborate(self, platform):
        """Return the module: widening, addition, limits, and conversion to the result's format."""
        m = Module()
        m.submodules.widen = widen = Widen(self._formats)
        m.submodules.add = add = FloatAdd()
        m.submodules.to_format = to_format = Narrow(self._formats)
        given = delay(m, self.value, Widen.LATENCY, "given")
        m.d.comb += [
            widen.bits.eq(self.value),
            widen.format.eq(self.format),
            add.a.eq(Mux(self.narrow, widen.o.as_value(), given)),
            add.b.eq(delay(m, self.bias, Widen.LATENCY, "bias")),
        ]

        biased = add.o.as_value()
        limited = Signal(32, reset_less=True)
        key, low, high = (_ordered(each) for each in (biased, self.low, self.high))
        # The adder produces a single NaN pattern, which is kept.
        nan = biased[22:31].all()
        m.d.sync += limited.eq(biased)
        with m.If(~nan & (key > high)):
            m.d.sync += limited.eq(self.high)
        with m.Elif(~nan & (key < low)):
            m.d.sync += limited.eq(self.low)

        m.d.comb += [
            to_format.a.eq(limited),
            to_format.format.eq(self.format),
            self.element.eq(to_format.o),
            self.result.eq(delay(m, limited, Narrow.LATENCY, "limited")),
        ]
        return m


def _ordered(pattern):
    """Return a signed number that orders like the floating-point number; -0 is just below +0."""
    return Cat(pattern[:31] ^ pattern[31].replicate(31), pattern[31]).as_signed()
