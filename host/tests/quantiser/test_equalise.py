"""Equalised channels: float results stay the same, and one scale suffices for all weights."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.quantiser import quantise
from matloom.quantiser.equalise import equalised, equalised_tensors
from support.float_network import FloatNetwork, float_samples


@pytest.fixture(scope="module")
def unbalanced():
    """Return a network whose channel ranges differ by 2**12, without effect in floats."""
    network = FloatNetwork("unbalanced")
    image = network.input("image", (1, 8, 8, 3), "float32")
    first = network.convolution(image, 16, kernel=3)
    last = network.convolution(network.depthwise(first), 8)
    graph = network.graph(network.classes(last, 5))
    factors = 2.0 ** np.linspace(-7, 7, 16).astype(np.float32)
    tensors = dict(graph.tensors)

    def scale(at, factor):
        tensors[at] = replace(tensors[at], data=tensors[at].data * factor)

    convolution, depthwise, pointwise = graph.nodes[:3]
    scale(convolution.inputs[1], factors.reshape(-1, 1, 1, 1))
    scale(convolution.inputs[2], factors)
    scale(depthwise.inputs[2], factors)
    scale(pointwise.inputs[1], 1 / factors)
    return replace(graph, tensors=tensors)


@pytest.mark.parametrize("by_weights", [True, False])
def test_the_float_network_stays_the_same(unbalanced, by_weights):
    image = {unbalanced.inputs[0]: float_samples(1)[0]}
    known = interpret(unbalanced, image, keep=True)
    tensors = equalised_tensors(unbalanced)
    assert len(tensors) == 3
    peaks = {at: np.abs(known[at]).max(axis=(0, 1, 2)) for at in tensors}
    changed = equalised(unbalanced, None if by_weights else peaks)
    (before,), (after,) = (interpret(each, image).values() for each in (unbalanced, changed))
    assert np.allclose(before, after, rtol=1e-3)
    made = interpret(changed, image, keep=True)[unbalanced.nodes[0].output]
    spread = made.max(axis=(0, 1, 2))
    assert spread[spread > 0].max() / spread[spread > 0].min() < 2**6


def test_one_scale_for_all_weights_is_rescued(unbalanced):
    images = float_samples(40)
    ratios = {}
    for equalise in (False, True):
        made = quantise(
            unbalanced, images, samples=20, weight_scales="per-tensor", equalise=equalise
        )
        ratios[equalise] = made.report.outputs[0].sqnr_db
        weights = [made.graph.tensors[n.inputs[1]] for n in made.graph.nodes if n.op is Op.CONV_2D]
        assert all(len(tensor.quantisation.scale) == 1 for tensor in weights)
    assert ratios[True] > max(25, ratios[False] + 10)


def test_channels_are_balanced_where_that_leaves_less_noise(unbalanced):
    """Four large channels beside small ones, in a layer with one scale for each: it is a loss."""
    images = float_samples(80)
    made = FloatNetwork("large")
    image = made.input("image", (1, 8, 8, 3), "float32")
    first = made.convolution(image, 16, kernel=3)
    graph = made.graph(made.classes(made.convolution(first, 8), 5))
    large = np.where(np.arange(16) < 4, np.float32(16), np.float32(1))
    weights, bias = (graph.tensors[number] for number in graph.nodes[0].inputs[1:])
    scaled = {
        graph.nodes[0].inputs[1]: replace(weights, data=weights.data * large.reshape(-1, 1, 1, 1)),
        graph.nodes[0].inputs[2]: replace(bias, data=bias.data * large),
    }
    graph = replace(graph, tensors={**graph.tensors, **scaled})
    for network, scales, expected in (
        (unbalanced, "per-tensor", True),
        (graph, "per-channel", False),
    ):
        ratios = {}
        for equalise in (None, True, False):
            report = quantise(
                network, images, samples=40, weight_scales=scales, equalise=equalise
            ).report
            ratios[equalise] = report.outputs[0].sqnr_db
            assert report.options.equalise == (expected if equalise is None else equalise)
        assert ratios[None] == ratios[expected] > ratios[not expected]


def test_one_sample_decides_nothing(unbalanced):
    assert quantise(unbalanced, float_samples(1)).report.options.equalise
