"""Adder of fp32 numbers."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.floats import NAN
from matloom_rtl.arith.stages import (
    FP32_LAYOUT,
    delay,
    leading_zeros,
    register,
    shift_left,
    shift_right,
)

__all__ = ["FloatAdd"]

#: Guard, round and sticky bit below a significand of 24 bits.
_BELOW = 3
_WIDTH = 24 + _BELOW


class FloatAdd(wiring.Component):
    """Compute `floats.add`: rounded to nearest even, with subnormals, infinities and NaN.

    Latency: seven cycles (`LATENCY`). Throughput: one sum per cycle. Never stalls. The smaller
    magnitude is aligned to the larger one. If normalisation would pass the smallest exponent, a
    marker bit limits the count of leading zeros, so that subnormal results need no separate path.

    About 640 LUT4 (including carry chains) and 400 flip-flops on ECP5; on its own 150 MHz in speed
    grade 6.

    Members
    -------
    a, b: in
    o: out
    """

    #: Cycles from two numbers to their sum.
    LATENCY = 7

    a: In(FP32_LAYOUT)
    b: In(FP32_LAYOUT)
    o: Out(FP32_LAYOUT)

    def elaborate(self, platform):
        """Return the module: a pipeline that orders, aligns, adds, normalises and rounds."""
        m = Module()
        larger, smaller, distance, flags = self._order(m)
        total, marker, exponent = self._align(m, larger, smaller, distance, flags.subtract)
        flags = delay(m, flags, 2, "flags")
        self._normalise(m, total, marker, exponent, flags)
        return m

    def _order(self, m: Module):
        """Stages 1 and 2: compare, then put the larger magnitude first.

        Return the larger and the smaller magnitude, their distance in exponents, and flags.
        """
        sides = (self.a, self.b)
        a, b = (register(m, side, f"given_{name}") for side, name in zip(sides, "ab", strict=True))
        swap = register(
            m,
            Cat(self.a.fraction, self.a.exponent) < Cat(self.b.fraction, self.b.exponent),
            "swap",
        )
        exponents = [_effective(side.exponent) for side in sides]
        a_less_b = register(m, exponents[0] - exponents[1], "a_less_b")
        b_less_a = register(m, exponents[1] - exponents[0], "b_less_a")
        infinite, nan = [], []
        for side, name in zip(sides, "ab", strict=True):
            ones = side.exponent == 255
            infinite.append(register(m, ones & (side.fraction == 0), f"infinite_{name}"))
            nan.append(register(m, ones & (side.fraction != 0), f"nan_{name}"))

        distance = Mux(swap, b_less_a, a_less_b)[:8]
        far = Signal(5, reset_less=True)
        m.d.sync += far.eq(distance[:5] | distance[5:].any().replicate(5))
        flags = Signal(_FLAGS, reset_less=True)
        subtract = a.sign ^ b.sign
        m.d.sync += [
            flags.sign.eq(Mux(swap, b.sign, a.sign)),
            flags.subtract.eq(subtract),
            flags.infinite.eq(Cat(infinite).any()),
            flags.nan.eq(Cat(nan).any() | (Cat(infinite).all() & subtract)),
        ]
        larger = register(m, Mux(swap, b.as_value(), a.as_value())[:31], "larger")
        smaller = register(m, Mux(swap, a.as_value(), b.as_value())[:31], "smaller")
        return larger, smaller, far, flags

    def _align(self, m: Module, larger, smaller, distance, subtract):
        """Stages 3 and 4: shift the smaller number, then add or subtract it.

        Return the total, a marker that limits its leading zeros, and its exponent.
        """
        near = register(m, shift_right(_significand(smaller), distance[:4]), "near")
        far = register(m, distance[4], "far")
        significand = register(m, _significand(larger), "significand")
        subtract = register(m, subtract, "subtract_3")
        exponent = register(m, _effective(larger[23:]), "exponent_3")

        aligned = shift_right(near, far, 16) ^ subtract.replicate(_WIDTH)
        total = Signal(_WIDTH + 1, reset_less=True)
        # One bit below both is the carry of a complement, in a single chain.
        complement = Cat(subtract, aligned, subtract)
        m.d.sync += total.eq((Cat(subtract, significand) + complement)[1 : _WIDTH + 2])
        # Bit 27 of the total belongs to the exponent above: the shift is limited to as many places.
        marker = Signal(_WIDTH + 1, reset_less=True)
        few = exponent[5:] == 0
        m.d.sync += marker.eq(
            Cat(few & (exponent[:5] == _WIDTH - place) for place in range(_WIDTH + 1))
        )
        return total, marker, register(m, exponent, "exponent_4")

    def _normalise(self, m: Module, total, marker, exponent, flags):
        """Stages 5 to 7: count leading zeros, shift, round."""
        zeros = register(m, leading_zeros(total | marker), "zeros")
        kept = register(m, total, "total_5")
        exponent = register(m, (exponent + 1)[:8], "exponent_5")
        cancelled = flags.subtract & ~total.any()
        flags, cancelled = register(m, flags, "flags_5"), register(m, cancelled, "cancelled")

        shifted = shift_left(kept, zeros)
        normal = register(m, shifted, "normal")
        exponent = register(m, (exponent - zeros)[:8], "exponent_6")
        sign = register(m, flags.sign & ~cancelled, "sign")
        flags = register(m, flags, "flags_6")

        top, lost = normal[-1], normal[:4]
        up = lost[3] & (lost[:3].any() | normal[4])
        magnitude = Cat(normal[4:-1], exponent & top.replicate(8)) + up
        infinite = flags.infinite | ((exponent == 255) & top)
        m.d.sync += self.o.eq(Cat(magnitude[:31], sign))
        with m.If(flags.nan):
            m.d.sync += self.o.eq(NAN)
        with m.Elif(infinite):
            m.d.sync += [self.o.fraction.eq(0), self.o.exponent.eq(255)]


_FLAGS = data.StructLayout({"sign": 1, "subtract": 1, "infinite": 1, "nan": 1})


def _effective(exponent):
    """Return the exponent of the leading bit: subnormals share the smallest one."""
    return Cat(exponent[0] | ~exponent.any(), exponent[1:])


def _significand(magnitude):
    """Return a significand with its leading bit, and `_BELOW` zeros below it for rounding."""
    return Cat(magnitude[:23] << _BELOW, magnitude[23:].any())
