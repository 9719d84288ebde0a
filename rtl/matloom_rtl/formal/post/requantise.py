"""Proofs of requantising lanes: every shift, rounding and clamp, for any products."""

from amaranth.hdl import Array, Const, Fragment, Module, Mux, Signal, signed

from matloom.arch.numerics import Rounding
from matloom_rtl.formal.parts.pipeline import Pipeline
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.quotient import Quotient

__all__ = ["clamps", "products", "quotient", "requantise_proofs", "shifts"]

#: Cycles from value, bias and shift to the multiplier's input, from partial products to their sum,
#: and from the quotient to the result.
_BIASED, _SUMMED, _CLAMPED = 4, 2, 3

_HALF_WORD = 16

#: Inputs of a lane that are used after the quotient.
_LIMITS = ("limits", "low", "high", "zero")


def quotient(unit: Quotient | None = None) -> Claim:
    """Claim the quotient under each rounding rule of docs/numerics.md, for any 63-bit product."""
    m = Module()
    m.submodules.unit = unit = unit or Quotient()
    pipe = Pipeline(m, Quotient.LATENCY)
    product = Signal(signed(63))
    m.d.comb += [unit.product.eq(product >> _HALF_WORD), unit.below.eq(product[:_HALF_WORD].any())]
    pipe.constant(unit.rounding)
    old, right = pipe.before(product), pipe.before(unit.right)
    result = Signal(signed(33))
    m.d.comb += result.eq(unit.floor + unit.up)
    for rule, expected in _quotients(m, old, right).items():
        pipe.claim((unit.rounding != rule) | (result == expected))
    pipe.reach((right == 9) & (result == -3) & (unit.rounding == Rounding.DOUBLE))
    return Claim(module=m, ports=(product, unit.right, unit.rounding))


def _quotients(m: Module, product, right) -> dict:
    """Return `product` divided by 2**(31 + `right`), by rounding rule, from its definition."""
    half = Signal(63)
    m.d.comb += half.eq(Const(1 << 30, 63) << right)
    doubled = Signal(signed(34))
    magnitude = Signal(63)
    small_half = Signal(32)
    negative = product < 0
    m.d.comb += [
        # To the nearest multiple of 2**31, halves up; then halves of what is left away from zero.
        doubled.eq((product + (1 << 30)) >> 31),
        small_half.eq((Const(1, 32) << right) >> 1),
        magnitude.eq(Mux(negative, -product, product)),
    ]
    away = (Mux(doubled < 0, -doubled, doubled) + small_half) >> right
    towards = (magnitude >> 31) >> right
    return {
        Rounding.SINGLE: ((product + half) >> 31) >> right,
        Rounding.DOUBLE: Mux(doubled < 0, -away, away),
        Rounding.AVERAGE: Mux(negative, -towards, towards),
    }


class _Cut(Lane):
    """A lane without its multiplier: the multiplier's input is visible, its output is free.

    Members
    -------
    shifted: out
        The multiplier's input.
    total, below: inputs of the proof
        The multiplier's output: the product without its lowest 16 bits, and whether any of these is
        a one.
    """

    def __init__(self, bits: int = 8):
        super().__init__(bits)
        self.shifted = Signal(signed(32))
        self.total = Signal(signed(47))
        self.below = Signal()

    def _multiply(self, m: Module, value, multiplier):
        """Return free inputs as product and low bits; show the multiplier's input, `shifted`."""
        m.d.comb += self.shifted.eq(value)
        return self.total, self.below


def shifts() -> Claim:
    """Claim that the multiplier's input is the biased value, shifted left within 32 bits."""
    m = Module()
    m.submodules.unit = unit = _Cut()
    pipe = Pipeline(m, _BIASED)
    pipe.constant(unit.rounding, unit.pre_shift)
    value, bias, shift = (pipe.before(each) for each in (unit.value, unit.bias, unit.shift))
    away = (unit.rounding == Rounding.AVERAGE) & (value < 0)
    biased = Signal(signed(32))
    left = Signal(7)
    m.d.comb += [
        biased.eq(Mux(away, value - bias, value + bias)),
        left.eq(unit.pre_shift + Mux(shift > 0, shift, 0)),
    ]
    shifted = [(biased << places)[:32] for places in range(32)]
    choices = Array([*shifted, *[Const(0, 32)] * 32])
    pipe.claim(unit.shifted.as_unsigned() == choices[left])
    pipe.reach((unit.shifted == -(1 << 31)) & (left == 12) & (value == -1))
    ports = (unit.value, unit.bias, unit.shift, unit.rounding, unit.pre_shift)
    return Claim(module=m, ports=ports)


class _Parts(Lane):
    """A lane whose four partial products, `parts`, are free inputs of the proof."""

    def __init__(self):
        super().__init__()
        self.parts = []
        #: Sum of the products without its lowest 16 bits, and whether any of these is a one.
        self.total = Signal(signed(47))
        self.below = Signal()

    def _product(self, m: Module, value, multiplier, name: str):
        """Return a free signal instead of a partial product, as an input of the proof."""
        part = Signal.like(value * multiplier, name=name)
        self.parts.append(part)
        return part

    def _multiply(self, m: Module, value, multiplier):
        """Return the lane's product and the bits below, and show both as `total` and `below`."""
        total, below = super()._multiply(m, value, multiplier)
        m.d.comb += [self.total.eq(total), self.below.eq(below)]
        return total, below


def products() -> Claim:
    """Claim that any four partial products are added up with the weights of 16-bit halves.

    Nothing is claimed of the upper bits if the sum exceeds 63 bits, as no product of 32 by 31 bits
    does.
    """
    m = Module()
    unit = _Parts()
    m.submodules.unit = Fragment.get(unit, None)
    pipe = Pipeline(m, _SUMMED)
    low_low, low_high, high_low, high_high = (pipe.before(part) for part in unit.parts)
    total = Signal(signed(66))
    m.d.comb += total.eq(
        low_low + ((low_high + high_low) << _HALF_WORD) + (high_high << 2 * _HALF_WORD)
    )
    fits = (total >= -(1 << 62)) & (total < 1 << 62)
    pipe.claim(~fits | (unit.total == total >> _HALF_WORD))
    pipe.claim(unit.below == total[:_HALF_WORD].any())
    pipe.reach(fits & (unit.total < 0) & unit.below & (low_high != 0))
    return Claim(module=m, ports=tuple(unit.parts))


class _Rounded(Lane):
    """A lane after its quotient, whose outputs, `floor` and `up`, are free inputs of the proof."""

    def __init__(self, bits: int):
        super().__init__(bits)
        self.floor = Signal(signed(32))
        self.up = Signal()

    def elaborate(self, platform):
        """Return the module: only the last stages of the lane: zero point and clamp."""
        m = Module()
        self._settings = {name: getattr(self, name) for name in _LIMITS}
        m.d.comb += self.result.eq(self._finish(m, self.floor, self.up))
        return m


def clamps(bits: int) -> Claim:
    """Claim that a limited result of `bits` is the quotient plus the zero point, clamped.

    An unlimited result is the 32-bit sum of both. If `low` exceeds `high`, sums above `high` become
    `high`, and all others `low`.
    """
    m = Module()
    m.submodules.unit = unit = _Rounded(bits)
    pipe = Pipeline(m, _CLAMPED)
    limits, low, high, zero = (getattr(unit, name) for name in _LIMITS)
    pipe.constant(limits, low, high, zero)
    total = Signal(signed(34))
    m.d.comb += total.eq(pipe.before(unit.floor) + pipe.before(unit.up) + zero)
    clamped = Mux(total > high, high, Mux(total < low, low, total))
    pipe.claim(limits | (unit.result == total[:32].as_signed()))
    pipe.claim(~limits | (unit.result[:bits] == clamped[:bits]))
    pipe.reach(limits & (total > high) & (high > low))
    return Claim(module=m, ports=(unit.floor, unit.up, zero, limits, low, high))


def requantise_proofs(units: list) -> list[Proof]:
    """Return the proofs for the lanes among a chip's units."""
    lanes = [each for each in units if isinstance(each, Lane)]
    bits = {lane._bits for lane in lanes}
    told = "of the product of value and multiplier, for any 63-bit product"
    table = [
        (
            "Quotient",
            f"floor and carry are the quotient {told}, under each rounding rule",
            quotient,
            Quotient.LATENCY,
        ),
        (
            "Lane, shifts",
            "the multiplicand is the biased value shifted left, in 32 bits",
            shifts,
            _BIASED,
        ),
        (
            "Lane, products",
            "any four partial products of 16 x 16 bits add up to one product",
            products,
            _SUMMED,
        ),
        *(
            (
                f"Lane, clamps of {width} bits",
                "a result is the quotient plus the zero point, within the limits, or in 32 bits",
                lambda width=width: clamps(width),
                _CLAMPED,
            )
            for width in sorted(bits)
        ),
    ]
    return [
        Proof(
            kind="requantising",
            unit=unit,
            statement=statement,
            build=build,
            depth=latency + 2,
            cover_depth=latency + 4,
        )
        for unit, statement, build, latency in table
        if bits
    ]
