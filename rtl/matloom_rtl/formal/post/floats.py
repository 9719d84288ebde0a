"""Proofs of conversions between fp32 and narrow formats, for every number of every format."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from matloom.arch.floats import FLOAT_FORMATS, FP32, NAN, FloatFormat
from matloom_rtl.arith.narrow import Narrow
from matloom_rtl.arith.widen import Widen
from matloom_rtl.formal.parts.pipeline import Pipeline
from matloom_rtl.formal.proof import Claim, Proof

__all__ = ["float_proofs", "narrows", "widen_exactly", "widens"]


def widens(formats: tuple[str, ...], unit: Widen | None = None) -> Claim:
    """Claim that widening to fp32 preserves any number of any of the formats, infinity and NaN."""
    m = Module()
    m.submodules.unit = unit = unit or Widen(formats)
    pipe = Pipeline(m, Widen.LATENCY)
    bits, chosen = pipe.before(unit.bits), pipe.before(unit.format)
    for index, name in enumerate(formats):
        pipe.claim(
            (chosen != index) | (unit.o.as_value() == widen_exactly(bits, FLOAT_FORMATS[name]))
        )
    # The smallest number: its lowest bit alone.
    last, form = len(formats) - 1, FLOAT_FORMATS[formats[-1]]
    pipe.reach((bits[: form.bits] == 1) & (chosen == last) & unit.o.as_value().any())
    return Claim(module=m, ports=(unit.bits, unit.format))


def widen_exactly(bits, form: FloatFormat):
    """Return the fp32 bits of a number of a narrow format, from the format's definition."""
    fraction = bits[: form.fraction_bits]
    exponent = bits[form.fraction_bits : form.bits - 1]
    sign, rest = bits[form.bits - 1], FP32.fraction_bits - form.fraction_bits
    more = FP32.bias - form.bias
    normal = Cat(Const(0, rest), fraction, (exponent + more)[:8])
    # A subnormal number: its highest one leads, the bits below it are the fraction.
    tiny = Const(0, 31)
    for leading in range(form.fraction_bits):
        power = more + 1 - form.fraction_bits + leading
        if power < 1:
            # fp32's own subnormals: the same exponent, so the same places.
            here = Cat(Const(0, rest), fraction, Const(0, 8))
        else:
            below = Cat(Const(0, FP32.fraction_bits - leading), fraction[:leading])
            here = Cat(below, Const(power, 8))
        tiny = Mux(fraction[leading], here, tiny)
    finite = Cat(Mux(exponent == 0, tiny, normal), sign)
    if form.finite:
        return Mux(exponent.all() & fraction.all(), NAN, finite)
    infinite = Cat(Const(0, 23), Const(255, 8), sign)
    special = Mux(fraction.any(), NAN, infinite)
    return Mux(exponent.all(), special, finite)


def narrows(formats: tuple[str, ...], unit: Narrow | None = None) -> Claim:
    """Claim that any fp32 number is rounded to the nearest of each format, ties to even."""
    m = Module()
    m.submodules.unit = unit = unit or Narrow(formats)
    pipe = Pipeline(m, Narrow.LATENCY)
    number, chosen = pipe.before(unit.a.as_value()), pipe.before(unit.format)
    for index, name in enumerate(formats):
        expected = _reference_narrow(m, number, FLOAT_FORMATS[name])
        pipe.claim((chosen != index) | (unit.o == expected))
    # A fraction of all ones is carried into the exponent.
    pipe.reach(number[:23].all() & (number[23:31] == 127) & ~unit.o[0] & (chosen == 0))
    return Claim(module=m, ports=(unit.a.as_value(), unit.format))


def _reference_narrow(m: Module, number, form: FloatFormat):
    """Return the bits of the nearest number of a format, by comparing dropped bits with a half."""
    fraction, exponent, sign = number[:23], number[23:31], number[31]
    dropped, below = FP32.fraction_bits - form.fraction_bits, FP32.bias - form.bias
    # Number of dropped bits; beyond a certain number the value is below a half.
    power = Mux(exponent == 0, 1, exponent)
    tiny = power < below + 1
    places = Signal(9)
    all_gone = FP32.fraction_bits + 3
    m.d.comb += places.eq(dropped + Mux(tiny, below + 1 - power, 0)[:8])
    few = Mux(places > all_gone, all_gone, places)[:5]
    significand = Cat(fraction, exponent != 0)
    kept = Signal(24)
    lost = Signal(27)
    half = Signal(27)
    m.d.comb += [
        kept.eq(significand >> few),
        lost.eq(significand - (kept << few)),
        half.eq((Const(1, 27) << few) >> 1),
    ]
    up = (lost > half) | ((lost == half) & kept[0])
    # The leading one of a normal number counts as one in the exponent.
    base = Mux(tiny, 0, power - below - 1)[:8]
    magnitude = Signal(32)
    m.d.comb += magnitude.eq((base << form.fraction_bits) + kept + up)
    limited = Mux(magnitude >= form.above, form.above, magnitude)[: form.bits - 1]
    infinite = exponent.all() & ~fraction.any()
    finite = Mux(infinite, form.above, limited)[: form.bits - 1]
    return Mux(exponent.all() & fraction.any(), form.nan, Cat(finite, sign))


def float_proofs(units: list) -> list[Proof]:
    """Return the proofs about the units of a chip that convert fp32 to narrower formats or back."""
    table = {}
    for unit in units:
        if isinstance(unit, Widen):
            names = unit._formats
            table[f"Widen, {' '.join(names)}"] = (
                "the fp32 number equals the narrow one, for every number of up to 16 bits",
                lambda names=names: widens(names),
                Widen.LATENCY,
            )
        if isinstance(unit, Narrow):
            names = tuple(form.name for form in unit._formats)
            table[f"Narrow, {' '.join(names)}"] = (
                "the narrow number is the nearest to the fp32 one, ties to even, for all 2**32",
                lambda names=names: narrows(names),
                Narrow.LATENCY,
            )
    return [
        Proof(
            kind="conversions",
            unit=unit,
            statement=statement,
            build=build,
            depth=latency + 2,
            cover_depth=latency + 4,
        )
        for unit, (statement, build, latency) in sorted(table.items())
    ]
