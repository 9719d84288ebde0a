"""Samples and networks that no one calibrates with: a correct result or a sentence."""

import numpy as np
import pytest

from matloom import frontend
from matloom.errors import UserError
from matloom.quantiser import quantise
from support.float_network import FloatNetwork, float_network, float_samples
from support.oracles import litert, micro

#: Options of `quantise`; searches take the first sample alone, too.
MODES = {
    "int8": {},
    "i8xi4": {"precision": "i8xi4"},
    "i16xi8": {"precision": "i16xi8"},
    "per tensor": {"weight_scales": "per-tensor"},
    "minmax": {"calibration": "minmax"},
    "percentile": {"calibration": "percentile"},
    "kl": {"calibration": "kl"},
    "to nearest": {"adaptive_rounding": False, "correct_bias": False},
    "losses": {"losses": True},
    "floats": {"ends": "floats"},
    "target": {"target": "points=1", "config": "small+i8xi4"},
    "compress": {"compress": "sqnr=20", "config": "small"},
}


def samples():
    """Return odd samples by name."""
    images = float_samples(6)
    beyond = images.copy()
    beyond[-1] *= 1e6
    return {
        "one": images[:1],
        "zeros": np.zeros_like(images),
        "a constant": np.full_like(images, 0.5),
        "repeated": np.repeat(images[:1], 6, axis=0),
        "minute": images * np.float32(1e-30),
        "huge": images * np.float32(1e30),
        "one far beyond the others": beyond,
    }


@pytest.fixture(scope="module")
def network():
    return float_network()


@pytest.mark.parametrize("name", samples())
def test_scales_stay_finite(network, name):
    check_scales(network, samples()[name], MODES["i16xi8"])


@pytest.mark.slow
@pytest.mark.parametrize("name", samples())
@pytest.mark.parametrize("mode", MODES)
def test_scales_stay_finite_in_each_mode(network, name, mode):
    if (mode, name) != ("floats", "minute"):
        check_scales(network, samples()[name], MODES[mode])


def check_scales(network, images, options):
    """Quantise; every scale must be a positive number, and the file must run elsewhere."""
    made = quantise(network, images, samples=4, **options)
    for tensor in made.graph.tensors.values():
        for scale in () if tensor.quantisation is None else tensor.quantisation.scale:
            assert 0 < scale < float("inf")
    given = made.graph.tensors[made.graph.inputs[0]]
    litert(made.content, [np.zeros(given.shape, given.dtype)])


def test_scales_that_an_operator_cannot_have_get_a_sentence(network):
    images = samples()["minute"]
    with pytest.raises(UserError, match="small cannot be quantised with these samples") as told:
        quantise(network, images, ends="floats")
    assert told.value.hint == "check that the samples are preprocessed as in training"


@pytest.mark.parametrize("kind", ["relu", "far"])
def test_data_outside_the_range_saturates(kind):
    """Results for samples beyond the calibrated ones are those of the nearest that is in range."""
    network = FloatNetwork("range")
    image = network.input("image", (1, 4, 4, 2), "float32")
    graph = network.graph(network.convolution(image, 3))
    images = np.random.default_rng(0).uniform(-1, 1, (20, 1, 4, 4, 2)).astype(np.float32)
    made = quantise(graph, images, calibration="minmax")
    given = made.graph.tensors[made.graph.inputs[0]]
    assert given.scale * 255 == pytest.approx(np.ptp(images), rel=0.01)
    wild = images[0] * (3 if kind == "relu" else 1e6)
    integers = np.clip(np.rint(wild / given.scale) + given.zero_point, -128, 127).astype(np.int8)
    limited = (integers - np.float32(given.zero_point)) * np.float32(given.scale)
    exact = litert(frontend.write(graph)[1], [limited])[0]
    output = made.graph.tensors[made.graph.outputs[0]]
    found = (micro(made.content, [integers], 1)[0] - float(output.zero_point)) * output.scale
    most = (127 - output.zero_point) * output.scale
    assert np.abs(np.minimum(exact, most) - found).max() <= 0.02 * most + 2 * output.scale


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("mode", ["int8", "target", "compress"])
def test_values_that_are_not_finite(network, value, mode):
    images = float_samples(6)
    images[3, 0, 1, 1, 0] = value
    with pytest.raises(UserError, match="must be finite, but sample 3 has NaN or infinity"):
        quantise(network, images, **MODES[mode])
