"""Multiplier of unpacked numbers, with an fp32 product."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.floats import FLOAT_FORMATS, FP32, NAN
from matloom_rtl.arith.stages import FP32_LAYOUT, delay, register, shift_right
from matloom_rtl.arith.unpack import OPERAND

__all__ = ["FloatMultiply"]


def _leaves_range(name: str) -> bool:
    """Return whether a product of two numbers of a format may not be a normal fp32 number."""
    form = FLOAT_FORMATS[name]
    return 2 * (form.bias + form.fraction_bits) > FP32.bias


class FloatMultiply(wiring.Component):
    """Compute `floats.multiply` of two operands that `Unpack` produced from the same format.

    Latency: `latency_of` cycles: two if every product of the formats is a normal fp32 number, and
    so exact; five with bf16, whose products may overflow or be subnormal and are then rounded.
    Throughput: one product per cycle. Never stalls. The first stage is an 11 x 11 bit multiplier
    followed by a register.

    On ECP5 with bf16 about 360 LUT4 and 180 flip-flops, without it 55 and 65, and one
    MULT18X18D; on its own 130 MHz in speed grade 6.

    Parameters
    ----------
    formats: tuple of str
        Names of the formats to support.

    Members
    -------
    a, b: in
        `OPERAND`.
    o: out
    """

    def __init__(self, formats: tuple[str, ...]):
        self._may_leave_range = self.latency_of(formats) > 2
        super().__init__({"a": In(OPERAND), "b": In(OPERAND), "o": Out(FP32_LAYOUT)})

    @staticmethod
    def latency_of(formats: tuple[str, ...]) -> int:
        """Return the cycles from two operands of the formats to their product."""
        return 5 if any(_leaves_range(name) for name in formats) else 2

    def elaborate(self, platform):
        """Return the module: a pipeline that multiplies, denormalises if necessary, and rounds."""
        m = Module()
        a, b = self.a, self.b
        product = Signal(22, reset_less=True)
        m.d.sync += product.eq(Cat(a.fraction, 1) * Cat(b.fraction, 1))
        raised = register(m, a.exponent + b.exponent, "raised")
        sign = register(m, a.sign ^ b.sign, "sign_1")
        zero = register(m, a.zero | b.zero, "zero_1")
        infinite = register(m, a.infinite | b.infinite, "infinite_1")

        # Both factors are in [1, 2), so the product has one or two bits before the point.
        two = product[-1]
        fraction = Mux(two, product[:21], product[:20] << 1)
        exponent = Signal(signed(11))
        # One bit below both is the carry, in a single chain.
        raised_two, bias = Cat(two, raised).as_signed(), Cat(two, Const(-FP32.bias, 11))
        m.d.comb += exponent.eq((raised_two + bias.as_signed())[1:])
        if self._may_leave_range:
            exponent = register(m, exponent, "exponent_2")
            fraction = register(m, fraction, "fraction_2")
            fraction, exponent, above = self._denormalise(m, fraction, exponent)
            sign, zero, infinite = (
                delay(m, flag, 3, name)
                for flag, name in ((sign, "sign"), (zero, "zero"), (infinite, "infinite"))
            )
            fraction, exponent = self._round(fraction, exponent)
            infinite_all = infinite | above
        else:
            fraction, exponent = Cat(Const(0, 2), fraction), exponent[:8]
            infinite_all = infinite

        m.d.sync += self.o.eq(Cat(fraction, exponent, sign))
        with m.If(infinite & zero):
            m.d.sync += self.o.eq(NAN)
        with m.Elif(infinite_all | zero):
            m.d.sync += [
                self.o.fraction.eq(0),
                self.o.exponent.eq(infinite_all.replicate(8)),
            ]
        return m

    def _denormalise(self, m: Module, fraction, exponent):
        """Stages 3 and 4: shift results below the smallest normal number to the right.

        Return the significand, the exponent field, and whether the result is above all numbers.
        """
        missing = Signal(signed(11))
        m.d.comb += missing.eq(1 - exponent)
        tiny = ~missing[-1] & missing.any()
        # Beyond 25 places, no remaining bit can round the result up.
        count = missing[:5] | missing[5:].any().replicate(5)
        count = register(m, count & tiny.replicate(5), "count")
        normal = register(m, ~tiny, "normal_3")
        above = register(m, ~exponent[-1] & (exponent >= 255), "above_3")
        exponent = register(m, exponent[:8], "exponent_3")
        fraction = register(m, fraction, "fraction_3")

        significand = Cat(Const(0, 4), fraction, 1)
        shifted = register(m, shift_right(significand, count), "shifted")
        above = register(m, above, "above_4")
        exponent = register(m, exponent & normal.replicate(8), "exponent_4")
        return shifted, exponent, above

    def _round(self, shifted, exponent):
        """Return fraction and exponent of stage 5; only shifted results need rounding."""
        lost, kept = shifted[:2], shifted[2:-1]
        up = lost[1] & (lost[0] | kept[0])
        magnitude = Cat(kept, exponent) + up
        return magnitude[:23], magnitude[23:31]
