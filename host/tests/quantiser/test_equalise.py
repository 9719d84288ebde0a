"""Equalised channels: float results stay the same, and one scale suffices for all weights."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.quantiser import quantise
from matloom.quantiser.balance import _loss, decide_equalise
from matloom.quantiser.equalise import equalise, equalised_tensors
from matloom.quantiser.judge import watched_tensors
from matloom.quantiser.options import WEIGHT_SCALES, Options
from matloom.quantiser.run_nodes import outputs_of
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
    changed = equalise(unbalanced, None if by_weights else peaks)
    (before,), (after,) = (interpret(each, image).values() for each in (unbalanced, changed))
    assert np.allclose(before, after, rtol=1e-3)
    made = interpret(changed, image, keep=True)[unbalanced.nodes[0].output]
    spread = made.max(axis=(0, 1, 2))
    assert spread[spread > 0].max() / spread[spread > 0].min() < 2**6


@pytest.mark.parametrize("shared", [1, 2], ids=["weights", "bias"])
def test_what_two_layers_share_stays(unbalanced, shared):
    """Another layer reads the same constant, so nothing may be divided."""
    first, *rest = unbalanced.nodes
    tensors, inputs = dict(unbalanced.tensors), list(first.inputs)
    for at in {1, 2} - {shared}:
        own = max(tensors) + 1
        tensors[own], inputs[at] = replace(tensors[inputs[at]], name="own"), own
    made = max(tensors) + 1
    tensors[made] = replace(tensors[first.output], name="other")
    other = replace(first, inputs=tuple(inputs), outputs=(made,), index=99)
    graph = replace(
        unbalanced,
        tensors=tensors,
        nodes=(first, other, *rest),
        outputs=(*unbalanced.outputs, made),
    )
    changed = equalise(graph)
    image = {graph.inputs[0]: float_samples(1)[0]}
    before, after = (interpret(each, image) for each in (graph, changed))
    for number in graph.outputs:
        assert np.allclose(before[number], after[number], rtol=1e-3)


def test_one_scale_for_all_weights_is_rescued(unbalanced):
    images = float_samples(40)
    ratios = {}
    for option in (False, True):
        made = quantise(unbalanced, images, samples=20, weight_scales="per-tensor", equalise=option)
        ratios[option] = made.report.outputs[0].sqnr_db
        weights = [made.graph.tensors[n.inputs[1]] for n in made.graph.nodes if n.op is Op.CONV_2D]
        assert all(len(tensor.quantisation.scale) == 1 for tensor in weights)
    assert ratios[True] > max(25, ratios[False] + 10)


@pytest.mark.parametrize("scales", WEIGHT_SCALES)
def test_the_better_way_is_chosen(unbalanced, scales):
    """Balanced channels lose fewer results there, on samples that decide nothing, too."""
    images, found = float_samples(80), {}
    for option in (None, True, False):
        found[option] = quantise(
            unbalanced, images, samples=40, weight_scales=scales, equalise=option
        )
    assert found[None].report.options.equalise
    assert found[None].content == found[True].content
    ratios = {way: made.report.outputs[0].sqnr_db for way, made in found.items()}
    assert ratios[None] > ratios[False]


@pytest.mark.parametrize("better", [True, False])
def test_both_halves_of_the_samples_decide(unbalanced, better):
    """A way that loses more on one half may lose less on both."""
    lost = [0.1, 0.3, 0.2, 0.2] if better else [0.3, 0.1, 0.1, 0.2]
    with mock.patch("matloom.quantiser.balance._loss", side_effect=lost):
        assert decide_equalise(unbalanced, samples_of(unbalanced), Options()).equalise == better


def samples_of(graph):
    return {graph.inputs[0]: float_samples(4)}


def test_classes_count_rather_than_noise(unbalanced):
    """Before SOFTMAX, what all elements have in common changes no result."""
    given = samples_of(unbalanced)
    (number,) = watched_tensors(unbalanced)
    exact = outputs_of(replace(unbalanced, outputs=(number,)), given)
    with mock.patch("matloom.quantiser.balance.rounded_outputs", return_value=[exact[0] + 5]):
        assert _loss(unbalanced, given, given, Options(equalise=False)) < 1e-6


def test_one_sample_decides_nothing(unbalanced):
    assert quantise(unbalanced, float_samples(1)).report.options.equalise
