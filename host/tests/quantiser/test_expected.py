"""Expected shares against counts, and losses by layer against the whole loss."""

import numpy as np
import pytest

from matloom import frontend
from matloom.quantiser import quantise
from matloom.quantiser.expected import expected_share
from support.float_network import float_network, float_samples


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_a_few_rows_tell_what_many_would_count(noise):
    """Many draws of noise on the same rows keep the class as often as was expected."""
    draw = np.random.default_rng(3)
    exact = draw.normal(0, 1, (200, 6)).astype(np.float32)
    labels = np.where(draw.random(200) < 0.8, exact.argmax(axis=1), draw.integers(0, 6, 200))
    expected = expected_share(exact, exact + draw.normal(0, noise, exact.shape), labels)
    drawn = exact + draw.normal(0, noise, (300, *exact.shape))
    counted = (drawn.argmax(axis=2) == labels).mean()
    assert expected == pytest.approx(counted, abs=0.01)


def test_losses_of_layers_add_up():
    network, images = float_network(), float_samples(20)
    report = quantise(network, images, losses=True, precision="i8xi4").report
    lost = [layer.lost for layer in report.layers]
    assert all(each is not None for each in lost)
    assert 0 < sum(lost) < 30
    whole = report.outputs[0].agreement
    assert 100 * (1 - whole.high) < sum(lost) < 100 * (1 - whole.low)
    wide = quantise(network, images, losses=True, precision="i16xi8").report
    assert abs(sum(layer.lost for layer in wide.layers)) < sum(lost) / 3
    assert "of the results are expected to change" in str(report)
    assert all(layer.lost is None for layer in quantise(network, images).report.layers)


def test_the_narrow_layer_causes_the_loss():
    network, images = float_network(), float_samples(20)
    narrow = network.tensors[network.nodes[0].output].name
    precision = {narrow: "i8xi4", "*": "i16xi8"}
    made = quantise(network, images, losses=True, precision=precision)
    assert max(made.report.layers, key=lambda layer: layer.lost).name == narrow
    tensors = {tensor.dtype for tensor in frontend.load(made.content).tensors.values()}
    assert {"int8", "int16", "float32"} <= tensors
