"""Proof of the decoder of POST's number formats, against the instruction set's specification."""

from amaranth.hdl import Assert, Module, Mux

from matloom.arch.floats import FLOAT_FORMATS
from matloom.arch.modes import FP32_FORMAT, MAC_MODES, MODES
from matloom.arch.numerics import Rounding
from matloom_rtl.arith.widen import Widen
from matloom_rtl.formal.parts.pipeline import Pipeline
from matloom_rtl.formal.parts.whitebox import inputs_of
from matloom_rtl.formal.post.floats import widen_exactly
from matloom_rtl.formal.proof import Claim, Proof
from matloom_rtl.post.numbers import Numbers

__all__ = ["numbers", "numbers_proofs"]


def numbers(unit: Numbers) -> Claim:
    """Claim how `Numbers` decodes the number format of any command.

    Claimed are the smallest and the largest result, the bytes of an element, and the floating-point
    format, each in the cycle in which the unit shows it. Formats that the chip lacks are excluded,
    because instructions with them are refused.
    """
    m = Module()
    m.submodules.unit = unit
    config = unit._config
    pipe = Pipeline(m, Widen.LATENCY if config.has_float else 1)
    _limits(m, unit, pipe)
    if config.element_size_bits:
        _sizes(unit, pipe)
    if config.has_float:
        _floats(unit, pipe)
    return Claim(module=m, ports=inputs_of(unit))


def _limits(m: Module, unit: Numbers, pipe: Pipeline) -> None:
    """Claim the integer limits: bytes, or 16-bit words whose lower byte is a separate field."""
    words = unit.command.words if unit._config.has_words else None
    for side in ("low", "high"):
        limit = unit.command[f"clamp_{side}"]
        if words is not None:
            limit = Mux(words, limit * 256 + unit.command[f"{side}_byte"], limit)
        m.d.comb += Assert(unit.o[side] == limit)
    pipe.reach((unit.o.low == (-100 if words is None else -300)) & (unit.o.high == 7))


def _sizes(unit: Numbers, pipe: Pipeline) -> None:
    """Claim the bytes of an element: its format's under FLOAT, else two with `words`, or one."""
    config, size = unit._config, 1 << unit.o.size
    rule, form = (pipe.before(unit.command[name], 1) for name in ("rounding", "pre_shift"))
    words = pipe.before(unit.command.words, 1) if config.has_words else 0
    floats = (rule == Rounding.FLOAT) & int(config.has_float)
    pipe.claim(floats | (size == Mux(words, 2, 1)))
    sizes = {MAC_MODES.index(name): MODES[name].activation_bits // 8 for name in config.float_modes}
    for number, count in {**sizes, FP32_FORMAT: 4}.items():
        pipe.claim(~floats | (form != number) | (size == count))


def _floats(unit: Numbers, pipe: Pipeline) -> None:
    """Claim whether the rule is FLOAT, the format's index in `float_modes`, and fp32 limits."""
    command, o = unit.command, unit.o
    rule, form = (pipe.before(command[name], 1) for name in ("rounding", "pre_shift"))
    pipe.claim(o.floating == (rule == Rounding.FLOAT))
    pipe.claim(o.fp32 == (form == FP32_FORMAT))
    for index, name in enumerate(unit._config.float_modes):
        pipe.claim((form != MAC_MODES.index(name)) | (o.format == index))
    for side in ("low", "high"):
        bits = pipe.before(command[f"clamp_{side}"].as_unsigned())
        pipe.claim(o[f"float_{side}"] == widen_exactly(bits, FLOAT_FORMATS["fp8_e5m2"]))
    pipe.reach(o.floating & o.fp32 & (o.float_low == 0xC000_0000) & (o.float_high == 0x3F80_0000))


def numbers_proofs(units: list) -> list[Proof]:
    """Return a proof for each decoder of POST's number formats."""
    return [
        Proof(
            kind="requantising",
            unit="Numbers",
            statement="limits, element size, format and rule are those of the command: integer "
            "limits in the same cycle, fp32 limits after their conversion, the rest one cycle "
            "later",
            build=lambda unit=unit: numbers(unit),
            depth=Widen.LATENCY + 2,
            cover_depth=Widen.LATENCY + 4,
        )
        for unit in units
        if isinstance(unit, Numbers)
    ]
