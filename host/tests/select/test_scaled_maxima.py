"""PReLU written as MUL and MAXIMUM is one stage without products in the scratchpad."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.ir.attributes import Arithmetic
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.select.limited_scales import limited_scales
from support.chain import exact_programs, executes

REFERENCE, NANO = PRESETS["reference"], PRESETS["nano"]


def prelus(shape, zero=-20, factor=0.006, count=2, seed=0):
    """Return a network of PReLUs, one after another, with slopes below 0 and above 1."""
    generator, builder = np.random.default_rng([seed, *shape]), GraphBuilder()
    scale = Quantisation(scale=(0.05,), zero_point=(zero,))
    last = builder.input("x", shape, "int8", scale)
    for _ in range(count):
        data = generator.integers(-128, 128, (1,) * (len(shape) - 2) + shape[-1:], np.int8)
        slopes = builder.constant(data, Quantisation(scale=(factor,), zero_point=(-30,)))
        attributes = Arithmetic()
        product = builder.add(Op.MUL, [last, slopes], attributes, quantisation=scale)
        last = builder.add(Op.MAXIMUM, [product, last], quantisation=scale)
    return builder.graph(last)


@pytest.mark.parametrize("config", [REFERENCE, NANO], ids=["reference", "nano"])
@pytest.mark.parametrize(
    "shape",
    [(1, 7, 9, 16), (1, 5, 6, 24), (1, 1, 3, 7), (2, 6, 4, 40), (1, 33)],
    ids=str,
)
@pytest.mark.fast_cases(3)
def test_results_are_the_interpreters(shape, config):
    for program in exact_programs(prelus(shape), config, (None, 1, 2)):
        found = executes(program)
        assert all(each.maximum and each.accumulate for each in found)


@pytest.mark.slow
def test_several_tiles():
    assert list(exact_programs(prelus((1, 96, 96, 16)), REFERENCE, (None, 1)))


@pytest.mark.parametrize("zero", [-128, 0, 55])
def test_zero_points(zero):
    (program,) = exact_programs(prelus((1, 4, 5, 16), zero, count=1), NANO, (None,))
    assert all(each.maximum for each in executes(program))


def test_slopes_without_a_scale_are_multiplied_first():
    """EXEC compares 17 bits of the sums, which is too few for slopes below a thousandth."""
    (program,) = exact_programs(prelus((1, 4, 5, 16), factor=0.0001, count=1), REFERENCE, (None,))
    found = executes(program)
    assert {each.maximum for each in found} == {0, 1}
    # Nothing is copied: products are compared where they are.
    assert all(each.maximum for each in found if each.weights_fixed)


def test_engines_without_maxima_leave_it_to_the_host():
    config = load_config("nano+maximum=0")
    (program,) = exact_programs(prelus((1, 4, 4, 8), count=1), config, (None,))
    assert program.layers[-1].where == "host"


def test_a_wrong_product_has_no_scale():
    every = np.arange(-128, 128).reshape(-1, 1)
    products = np.clip(np.round(every * 0.27), -128, 127).astype(np.int8)
    assert limited_scales(products, np.array([0.27]), 0, -24) is not None
    products[5] += 7
    assert limited_scales(products, np.array([0.27]), 0, -24) is None
