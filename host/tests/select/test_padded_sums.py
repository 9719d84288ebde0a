"""ADD of a tensor whose channels a PAD extends reads the tensor itself."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.ir.attributes import Arithmetic, Conv2D, Pad
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from support.chain import exact_programs, executes


def padded_sum(channels, scales, *, swapped=False, value=None, before=0):
    """Return ADD of a convolution's result and of its input, of which PAD extends the channels."""
    narrow, wide = channels
    builder, generator = GraphBuilder(), np.random.default_rng(channels)
    first, second, output = (
        Quantisation(scale=(scale,), zero_point=(zero,))
        for scale, zero in zip(scales, (-7, 12, 3), strict=True)
    )
    x = builder.input("x", (1, 6, 5, narrow), "int8", first)
    weights = builder.constant(
        generator.integers(-127, 128, (wide, 1, 1, narrow), np.int8),
        Quantisation(scale=(0.01,), zero_point=(0,)),
    )
    attributes = Conv2D()
    y = builder.add(Op.CONV_2D, [x, weights], attributes, quantisation=second)
    ends = {"before": (0, 0, 0, before), "after": (0, 0, 0, wide - narrow - before)}
    padded = builder.add(Op.PAD, [x], Pad(**ends, value=value), quantisation=first)
    terms = [y, padded] if swapped else [padded, y]
    last = builder.add(Op.ADD, terms, Arithmetic(), quantisation=output)
    return builder.graph(last)


@pytest.mark.parametrize("config", ["reference", "nano"])
@pytest.mark.parametrize("channels", [(24, 28), (3, 40), (16, 32), (5, 6)], ids=str)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    "scales", [(0.05, 0.03, 0.06), (0.02, 0.04, 0.05), (0.03, 0.03, 0.03)], ids=str
)
@pytest.mark.fast_cases(6)
def test_sums_are_the_interpreters(config, channels, swapped, scales):
    graph = padded_sum(channels, scales, swapped=swapped)
    for program in exact_programs(graph, PRESETS[config], (None, 1, 2)):
        # The convolution's alone: nothing copies the padded tensor.
        assert not any(each.weights_fixed for each in executes(program))


@pytest.mark.parametrize("other", [{"value": 5}, {"before": 2}], ids=str)
def test_other_padding_is_a_copy(other):
    graph = padded_sum((8, 12), (0.05, 0.03, 0.06), **other)
    (program,) = exact_programs(graph, PRESETS["reference"], (None,))
    assert any(each.weights_fixed for each in executes(program))
