"""Multipliers and limits compared with exact fractions."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from matloom.ir.attributes import Activation
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.scales import (
    activation_range,
    addition_scales,
    channel_multipliers,
    round_half_away,
)


def tensor(scale, zero_point=0, shape=(1, 2), axis=None):
    scales = scale if isinstance(scale, tuple) else (scale,)
    quantisation = Quantisation(scale=scales, zero_point=(zero_point,) * len(scales), axis=axis)
    return Tensor(name="t", shape=shape, dtype="int8", quantisation=quantisation)


def value(multiplier, shift):
    return Fraction(int(multiplier), 2**31) * Fraction(2) ** int(shift)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (Activation.NONE, (-128, 127)),
        (Activation.RELU, (-5, 127)),
        (Activation.RELU6, (-5, 19)),
        (Activation.RELU_N1_TO_1, (-9, -1)),
    ],
)
def test_activation_range(activation, expected):
    assert activation_range(activation, tensor(0.25, -5)) == expected


def test_activation_limit_rounds_away_from_zero():
    # 6 / 0.8 is 7.5 in float32.
    assert activation_range(Activation.RELU6, tensor(0.8)) == (0, 8)


def test_round_half_away():
    given = np.array([0.5, -0.5, 1.5, 2.5, -2.5, np.nextafter(np.float32(0.5), np.float32(0))])
    assert round_half_away(given).tolist() == [1, -1, 2, 3, -3, 0]


@pytest.mark.parametrize("op", [Op.CONV_2D, Op.FULLY_CONNECTED])
def test_channel_multipliers(op):
    weights = tensor((0.1, 0.03), shape=(2, 1, 1, 3), axis=0)
    tensors = {0: tensor(0.7), 1: weights, 2: tensor(0.9, shape=(1, 2))}
    graph = Graph(name="g", inputs=(0,), outputs=(2,), tensors=tensors, nodes=())
    node = Node(op=op, inputs=(0, 1), outputs=(2,), index=0)
    pairs = zip(*channel_multipliers(graph, node), strict=True)
    for pair, scale in zip(pairs, (0.1, 0.03), strict=True):
        exact = Fraction(0.7) * Fraction(scale) / Fraction(0.9)
        assert abs(value(*pair) / exact - 1) < Fraction(1, 2**30)
    single = replace(graph, tensors={**tensors, 1: tensor(0.1, shape=(2, 3))})
    multipliers, shifts = channel_multipliers(single, node)
    exact = Fraction(0.7) * Fraction(0.1) / Fraction(0.9)
    assert abs(value(multipliers[0], shifts[0]) / exact - 1) < Fraction(1, 2**30)
    assert len(set(multipliers.tolist())) == len(set(shifts.tolist())) == 1
    assert multipliers.shape == (2,)


def test_addition():
    tensors = {0: tensor(0.5), 1: tensor(0.125), 2: tensor(0.25)}
    graph = Graph(name="g", inputs=(0, 1), outputs=(2,), tensors=tensors, nodes=())
    scales = addition_scales(graph, Node(op=Op.ADD, inputs=(0, 1), outputs=(2,), index=0))
    assert scales.left_shift == 20
    assert [value(*pair) for pair in scales.inputs] == [Fraction(1, 2), Fraction(1, 8)]
    assert value(*scales.output) == Fraction(4, 2**20)


@pytest.mark.parametrize(
    ("op", "dtype", "rounded"),
    [
        *((op, "uint8", True) for op in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.TRANSPOSE_CONV)),
        *((Op.FULLY_CONNECTED, "uint8", False), (Op.CONV_2D, "int8", False)),
    ],
)
def test_products_of_scales_in_float32(op, dtype, rounded):
    """Source: `GetQuantizedConvolutionMultipler` of LiteRT multiplies two C floats."""
    first, second = (float(np.float32(x)) for x in (0.10006000101566315, 0.03903907537460327))
    assert np.float32(first) * np.float32(second) == 2**-8
    assert Fraction(first) * Fraction(second) < Fraction(1, 2**8)
    tensors = {0: tensor(first), 1: tensor(second, shape=(2, 1, 1, 3)), 2: tensor(2**-3)}
    tensors = {at: replace(item, dtype=dtype) for at, item in tensors.items()}
    graph = Graph(name="g", inputs=(0,), outputs=(2,), tensors=tensors, nodes=())
    node = Node(op=op, inputs=(0, 1), outputs=(2,), index=0)
    multipliers, shifts = channel_multipliers(graph, node)
    assert (value(multipliers[0], shifts[0]) == Fraction(1, 32)) == rounded
