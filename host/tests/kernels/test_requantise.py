"""Requantisation of sums in few passes equals the rule of the lanes."""

import numpy as np
import pytest

from matloom.arch.numerics import clamp, multiply_by_quantized_multiplier, wrap32
from matloom.ir.attributes import Activation, Conv2D
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.scales import activation_range, channel_multipliers
from matloom.kernels.requantise import requantise_sums

CHANNELS = 7
NODE = Node(
    op=Op.CONV_2D,
    inputs=(0, 1),
    outputs=(2,),
    attributes=Conv2D(),
    index=0,
)


def layer(scales, zero_point=3):
    """Return a layer of 1x1 weights with these ratios of scales."""
    one = Quantisation(scale=(1.0,), zero_point=(0,))
    output = Quantisation(scale=(1.0,), zero_point=(zero_point,))
    weights = Quantisation(scale=tuple(scales), zero_point=(0,) * CHANNELS, axis=0)
    tensors = {
        0: Tensor(name="x", shape=(1, 1, 9, 1), dtype="int8", quantisation=one),
        1: Tensor(name="w", shape=(CHANNELS, 1, 1, 1), dtype="int8", quantisation=weights),
        2: Tensor(name="y", shape=(1, 1, 9, CHANNELS), dtype="int8", quantisation=output),
    }
    return Graph(name="", inputs=(0,), outputs=(2,), tensors=tensors, nodes=(NODE,))


def by_the_rule(graph, sums, bias, activation):
    """Return the output by the rule, element by element, in Python integers."""
    multipliers, shifts = channel_multipliers(graph, NODE)
    low, high = activation_range(activation, graph.tensors[2])
    found = []
    for row in sums:
        for channel, value in enumerate(row):
            total = wrap32(int(value) + (0 if bias is None else int(bias[channel])))
            scaled = multiply_by_quantized_multiplier(
                total, int(multipliers[channel]), int(shifts[channel])
            )
            found.append(clamp(scaled + graph.tensors[2].zero_point, low, high))
    return np.array(found, np.int8).reshape(graph.tensors[2].shape)


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU, Activation.RELU6])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("bits", [4, 12, 20, 31])
@pytest.mark.parametrize(
    "scales",
    [
        [2.0**-at for at in range(1, 8)],
        [0.9 * 2.0**-at for at in (0, 1, 5, 9, 17, 25, 30)],
        [0.7 * 2.0**at for at in (-20, -3, -1, 0, 1, 2, 9)],
        [2.0**-40, 1.0, 0.5, 0.25, 3e-9, 0.999999, 1e-3],
    ],
)
def test_sums_are_scaled_by_the_rule(scales, bits, biased, activation):
    draw = np.random.default_rng(bits)
    sums = draw.integers(-(2**bits), 2**bits, (9, CHANNELS), np.int64)
    ends = [-(2**31), 2**31 - 1, 0, 1, -1, 2**30, -(2**30), 2**31 + 5, -(2**31) - 5]
    sums[:, 0] = ends if biased else np.clip(ends, -(2**31), 2**31 - 1)
    # Halves, which are rounded away from zero.
    sums[0, 1:] = 2 ** np.arange(CHANNELS - 1)
    sums[1, 1:] = -(2 ** np.arange(CHANNELS - 1))
    bias = draw.integers(-(2**31), 2**31, CHANNELS).astype(np.int32) if biased else None
    graph = layer(scales)
    expected = by_the_rule(graph, sums, bias, activation)
    found = requantise_sums(graph, NODE, sums.copy(), bias, activation)
    np.testing.assert_array_equal(found, expected)


def test_sums_beyond_32_bits_wrap_without_a_bias():
    graph = layer([1.0] * CHANNELS, zero_point=0)
    sums = np.full((9, CHANNELS), 2**32 + 7, np.int64)
    found = requantise_sums(graph, NODE, sums, None, Activation.NONE)
    np.testing.assert_array_equal(found, 7)
