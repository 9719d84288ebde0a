"""Exact conversion of numbers of the narrow formats to fp32."""

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.floats import FLOAT_FORMATS, NAN
from matloom_rtl.arith.stages import FP32_LAYOUT, delay
from matloom_rtl.arith.unpack import Unpack

__all__ = ["Widen"]


class Widen(wiring.Component):
    """Compute `floats.widen`: a number of a narrow format as fp32, exactly.

    Latency: three cycles. Throughput: one number per cycle. Never stalls.

    About 185 LUT4 and 80 flip-flops on ECP5 with all formats.

    Parameters
    ----------
    formats: tuple of str
        Names from `floats.FLOAT_FORMATS`, selected by `format`.

    Members
    -------
    bits, format: in
        As in `Unpack`.
    o: out
    """

    #: Cycles from a number to its fp32 pattern.
    LATENCY = Unpack.LATENCY + 1

    def __init__(self, formats: tuple[str, ...]):
        self._formats = formats
        self._bits = max(FLOAT_FORMATS[name].bits for name in formats)
        super().__init__(
            {"bits": In(self._bits), "format": In(range(len(formats))), "o": Out(FP32_LAYOUT)}
        )

    def elaborate(self, platform):
        """Return the module: an `Unpack`, and a register for the fields of the fp32 number."""
        m = Module()
        m.submodules.unpack = unpack = Unpack(self._formats)
        m.d.comb += [unpack.bits.eq(self.bits), unpack.format.eq(self.format)]
        o = unpack.o
        finite = Cat(Const(0, 13), o.fraction, o.exponent[:8])
        if "bf16" in self._formats:
            # Its subnormals are also subnormal in fp32.
            given = delay(m, self.bits, Unpack.LATENCY, "given")
            subnormal = Cat(Const(0, 16), given[:7], Const(0, 8))
            finite = Mux(o.exponent < 1, subnormal, finite)
        m.d.sync += self.o.eq(Cat(finite, o.sign))
        with m.If(o.zero & o.infinite):
            m.d.sync += self.o.eq(NAN)
        with m.Elif(o.zero | o.infinite):
            m.d.sync += [self.o.fraction.eq(0), self.o.exponent.eq(o.infinite.replicate(8))]
        return m
