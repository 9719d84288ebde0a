"""One requantising lane: bias, scale, round, offset, clamp."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.numerics import Rounding

__all__ = ["Lane"]


class Lane(wiring.Component):
    """Compute `numerics.requantize` of a biased value, then the byte made of it.

    Thirteen registered stages; a value enters in every cycle and its result leaves `LATENCY` cycles
    later. Nothing ever holds. `rounding`, `pre_shift`, `zero`, `low` and `high` must be constant
    while values are inside; bias, multiplier and shift travel with their value.

    The 32 x 32 bit product is made of four products of 16 bits, each between registers, as the
    multipliers of FPGAs are. `pre_shift` plus a positive `shift` above 31 leaves nothing.

    Parameters
    ----------
    bits: int
        Of the limits, and so of what they let through: 8, or 16 where there are words.

    Members
    -------
    value, bias, multiplier, shift: in
    rounding, pre_shift, zero, low, high: in
    result: out
        Signed, 32 bits.
    byte: out
        ``clamp(result + zero, low, high)``, without wrap.
    word: out
        The same in 16 bits, where there are words.
    """

    #: Cycles from a value to its result.
    LATENCY = 13

    def __init__(self, bits: int = 8):
        self._bits = bits
        super().__init__(
            {
                "value": In(signed(32)),
                "bias": In(signed(32)),
                "multiplier": In(32),
                "shift": In(signed(8)),
                "rounding": In(3),
                "pre_shift": In(5),
                "zero": In(signed(8)),
                "low": In(signed(bits)),
                "high": In(signed(bits)),
                "result": Out(signed(32)),
                "byte": Out(8),
                **({"word": Out(16)} if bits > 8 else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # The settings beside the lane: `keep`, for those of other lanes are the same.
        settings = {
            name: Signal.like(getattr(self, name), name=name, reset_less=True, attrs={"keep": 1})
            for name in ("rounding", "pre_shift", "zero", "low", "high")
        }
        m.d.sync += [here.eq(getattr(self, name)) for name, here in settings.items()]
        # What is clamped without its zero point: no sum before the comparisons.
        for name in ("low", "high"):
            limit = Signal(signed(self._bits + 1), name=f"{name}_limit", reset_less=True)
            m.d.sync += limit.eq(settings[name] - settings["zero"])
            settings[f"{name}_limit"] = limit
        self._settings = settings
        average = Signal()
        m.d.comb += average.eq(settings["rounding"] == Rounding.AVERAGE)
        magnitude, negative, left, right, multiplier = self._bias(m, average)
        shifted, multiplier, right, negative = self._shift_left(
            m, magnitude, left, multiplier, right, negative
        )
        high, carry, halves, right, negative = self._multiply(
            m, shifted, multiplier, right, negative
        )
        quotient, negative = self._divide(m, halves, high, carry, right, negative)
        result, limited = self._finish(m, quotient, negative)
        m.d.comb += [self.result.eq(result), self.byte.eq(limited)]
        if self._bits > 8:
            m.d.comb += self.word.eq(limited)
        return m

    def _register(self, m: Module, value, name: str):
        """Return the value one cycle later."""
        later = Signal.like(value, name=name, reset_less=True)
        m.d.sync += later.eq(value)
        return later

    def _bias(self, m: Module, average):
        """Stages 1 to 3: add the bias, split the shift; for averages take the magnitude.

        First into registers: where the values wait is far away.
        """
        value, bias = self._register(m, self.value, "value_1"), self._register(m, self.bias, "bias")
        away = average & (value < 0)
        # Minus the bias is its complement and one more: a single carry chain.
        addend = bias ^ away.replicate(32)
        biased = Signal(signed(32), reset_less=True)
        left, right = Signal(6, reset_less=True), Signal(5, reset_less=True)
        shift = self._register(m, self.shift, "shift_1")
        m.d.sync += [
            biased.eq(value + addend.as_signed() + away),
            left.eq(self._settings["pre_shift"] + Mux(shift > 0, shift, 0).as_unsigned()[:5]),
            right.eq(Mux(shift < 0, -shift, 0)),
        ]
        multiplier = self.multiplier
        for stage in (1, 2, 3):
            multiplier = self._register(m, multiplier, f"multiplier_{stage}")

        minus = average & (biased < 0)
        magnitude = Signal(signed(32), reset_less=True)
        m.d.sync += magnitude.eq((biased ^ minus.replicate(32)) + minus)
        return (
            magnitude,
            self._register(m, minus, "negative_3"),
            self._register(m, left, "left_3"),
            self._register(m, right, "right_3"),
            multiplier,
        )

    def _shift_left(self, m: Module, value, left, multiplier, right, negative):
        """Stage 4: shift by up to 7, and by multiples of 8; 32 bits remain."""
        fine, coarse = Signal(32), Signal(32, reset_less=True)
        m.d.comb += fine.eq(value << left[:3])
        with m.Switch(left[3:]):
            for count in range(4):
                with m.Case(count):
                    m.d.sync += coarse.eq(fine << 8 * count)
            with m.Default():
                m.d.sync += coarse.eq(0)
        return (
            coarse,
            self._register(m, multiplier, "multiplier_4"),
            self._register(m, right, "right_4"),
            self._register(m, negative, "negative_4"),
        )

    def _multiply(self, m: Module, value, multiplier, right, negative):
        """Stages 5 to 8: four products, two sums; what rounds goes on to the next adder."""
        value_low, value_high = value[:16], value[16:].as_signed()
        low, high = multiplier[:16], multiplier[16:]
        low_low = self._product(m, value_low, low, "low_low")
        low_high = self._product(m, value_low, high, "low_high")
        high_low = self._product(m, value_high, low, "high_low")
        high_high = self._product(m, value_high, high, "high_high")
        right = self._register(m, right, "right_5")
        right = self._register(m, right, "right_6")
        double = self._settings["rounding"] == Rounding.DOUBLE
        rounds = double | ((self._settings["rounding"] == Rounding.SINGLE) & (right == 0))
        for stage in (7, 8):
            rounds = self._register(m, rounds, f"rounds_{stage}")
        middle, outer = Signal(signed(35), reset_less=True), Signal(signed(64), reset_less=True)
        m.d.sync += [
            middle.eq(low_high + high_low),
            outer.eq(Cat(low_low, high_high)),
        ]
        total = Signal(signed(48), reset_less=True)
        m.d.sync += total.eq(outer[16:].as_signed() + middle)
        right = self._register(m, right, "right_7")
        halves = self._halves(m, right, double)
        right = self._register(m, right, "right_8")
        for stage in (5, 6, 7, 8):
            negative = self._register(m, negative, f"negative_{stage}")
        # 2**30 in the product is 2**14 here: it carries where that bit is one.
        return total[15:].as_signed(), rounds & total[14], halves, right, negative

    def _halves(self, m: Module, right, double):
        """Return half of what is shifted out, for values of either sign, a cycle later.

        For negative ones it is one less under DOUBLE. Whether a value is negative may be told
        before it is rounded: from -1 to 0, both come to 0.
        """
        halves = [Signal(31, name=f"half_{name}", reset_less=True) for name in ("above", "below")]
        m.d.sync += [half.eq(0) for half in halves]
        with m.If(self._settings["rounding"] != Rounding.AVERAGE), m.Switch(right):
            for count in range(1, 32):
                with m.Case(count):
                    half = 1 << (count - 1)
                    m.d.sync += [halves[0].eq(half), halves[1].eq(Mux(double, half - 1, half))]
        return halves

    def _product(self, m: Module, value, multiplier, name: str):
        """Return a product two cycles later.

        By the names `fpga.multipliers` finds what multiplier blocks hold, registers and all.
        """
        value = self._register(m, value, f"product_value_{name}")
        multiplier = self._register(m, multiplier, f"product_multiplier_{name}")
        return self._register(m, value * multiplier, f"product_{name}")

    def _divide(self, m: Module, halves, value, carry, right, negative):
        """Stages 9 to 11: add half, away from zero for DOUBLE, and shift right."""
        above, below = halves
        rounded, fine = Signal(signed(34), reset_less=True), Signal(signed(34), reset_less=True)
        half = Mux(value < 0, below, above)
        m.d.sync += [
            # A single adder, with the carry below its lowest bit.
            rounded.eq((Cat(carry, value).as_signed() + Cat(carry, half))[1:].as_signed()),
            fine.eq(rounded >> self._register(m, right[:3], "right_fine")),
        ]
        coarse_right = self._register(m, self._register(m, right[3:], "right_9"), "right_10")
        coarse = Signal(signed(32), reset_less=True)
        with m.Switch(coarse_right):
            for count in range(4):
                with m.Case(count):
                    m.d.sync += coarse.eq(fine >> 8 * count)
        for stage in (9, 10, 11):
            negative = self._register(m, negative, f"negative_{stage}")
        return coarse, negative

    def _finish(self, m: Module, value, negative):
        """Stages 12 and 13: restore an average's sign; add the zero point and clamp."""
        result = Signal(signed(32), reset_less=True)
        m.d.sync += result.eq((value ^ negative.replicate(32)).as_signed() + negative)
        settings = self._settings
        clamped = Signal(signed(self._bits), reset_less=True)
        with m.If(result > settings["high_limit"]):
            m.d.sync += clamped.eq(settings["high"])
        with m.Elif(result < settings["low_limit"]):
            m.d.sync += clamped.eq(settings["low"])
        with m.Else():
            m.d.sync += clamped.eq(result[: self._bits] + settings["zero"])
        return self._register(m, result, "result_13"), clamped
