"""Unpack and FloatMultiply in sequence, compared with the number rules."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.floats import FLOAT_FORMATS, multiply
from matloom_rtl.arith.multiply import FloatMultiply
from matloom_rtl.arith.stages import FP32_LAYOUT
from matloom_rtl.arith.unpack import Unpack

FORMATS = tuple(FLOAT_FORMATS)


class Product(wiring.Component):
    """Two operands unpacked and multiplied."""

    def __init__(self, formats):
        self._formats = formats
        bits = max(FLOAT_FORMATS[name].bits for name in formats)
        super().__init__(
            {"a": In(bits), "b": In(bits), "format": In(range(len(formats))), "o": Out(FP32_LAYOUT)}
        )

    @property
    def latency(self):
        return Unpack.LATENCY + FloatMultiply.latency_of(self._formats)

    def elaborate(self, platform):
        m = Module()
        m.submodules.multiply = product = FloatMultiply(self._formats)
        for name in ("a", "b"):
            m.submodules[f"unpack_{name}"] = unpack = Unpack(self._formats)
            m.d.comb += [
                unpack.bits.eq(getattr(self, name)),
                unpack.format.eq(self.format),
                getattr(product, name).eq(unpack.o),
            ]
        m.d.comb += self.o.eq(product.o)
        return m


def gather(numbers, formats, count, pick=None):
    """Return operands of all formats in turn, with the expected products."""
    columns = []
    for index, name in enumerate(formats):
        a, b = numbers.operands(count, name)
        if pick is not None:
            a, b = (each[pick(len(each))] for each in (a, b))
        columns.append((a, b, np.full(len(a), index), multiply(a, b, FLOAT_FORMATS[name])))
    a, b, form, wanted = map(np.concatenate, zip(*columns, strict=True))
    return wanted, {"a": a, "b": b, "format": form}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("formats", [FORMATS, FORMATS[1:], ("bf16",), ("fp8_e5m2", "fp8_e4m3")])
def test_products(seed, numbers, check, formats):
    generator = np.random.default_rng(seed)
    wanted, inputs = gather(
        numbers, formats, 800, lambda length: generator.choice(length, 800, replace=False)
    )
    unit = Product(formats)
    check(unit, unit.latency, wanted, **inputs)


def test_stages_of_a_product():
    """A product that is always a normal fp32 number needs neither shift nor rounding."""
    assert FloatMultiply.latency_of(FORMATS[1:]) == 2
    assert FloatMultiply.latency_of(FORMATS) == 5


@pytest.mark.slow
def test_a_million_products_and_all_of_8_bits(numbers, check_all):
    wanted, inputs = gather(numbers, FORMATS, 1_000_000)
    unit = Product(FORMATS)
    check_all(unit, unit.latency, wanted, **inputs)
