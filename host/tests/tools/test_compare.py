"""Comparison with TensorFlow Lite Micro: what is equal, and where the first difference lies."""

import sys
from importlib import resources

import numpy as np
import pytest

from matloom.frontend.tflite import load_tflite
from matloom.kernels.interpreter import interpret
from matloom.tools.compare import compare

DIGITS = resources.files("matloom.data").joinpath("digits.tflite").read_bytes()


@pytest.fixture
def reference():
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "digits.tflite"
    path.write_bytes(DIGITS)
    return path


@pytest.mark.usefixtures("reference")
def test_equal_on_random_inputs(path):
    outcome = compare(path)
    assert outcome.equal
    assert [layer.different for layer in outcome.layers] == [0] * 9
    assert str(outcome).startswith("digits: 4")
    assert str(outcome).endswith("of 9 of 9 operators, 1 samples: equal")


@pytest.mark.usefixtures("reference")
def test_samples_along_the_leading_axis(path, seed):
    images = np.random.default_rng(seed).integers(-128, 128, (5, 1, 8, 8, 1), np.int8)
    for stacked in (images, images[:, 0]):
        outcome = compare(path, {"image": stacked})
        assert outcome.equal
        assert outcome.samples == 5


@pytest.mark.usefixtures("reference")
def test_first_difference(path):
    graph = load_tflite(path)
    calls = []

    def run(inputs):
        tensors = interpret(graph, inputs, keep=True)
        if calls:
            wrong = tensors[10].copy()
            wrong[0, 1, 2, 3] ^= 1
            tensors[10] = wrong
            del tensors[14]
        calls.append(None)
        return tensors

    outcome = compare(path, {"image": np.zeros((2, 8, 8, 1), np.int8)}, run)
    assert not outcome.equal
    first = outcome.first
    assert (first.operator, first.sample, first.index) == ("operator 3 (ADD)", 1, (0, 1, 2, 3))
    assert first.expected ^ first.given == 1
    assert outcome.layers[3].different == 1
    assert outcome.layers[5].elements == 32
    assert str(first).startswith("sample 1, operator 3 (ADD), tensor ")
    assert f"TensorFlow Lite Micro has {first.expected}, Matloom {first.given}" in str(outcome)


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"picture": np.zeros((1, 8, 8, 1), np.int8)}, r"inputs must be \['image'\], not \['pict"),
        ({"image": np.zeros((1, 8, 7, 1), np.int8)}, r"'image' must be int8 .* not .*7, 1\)"),
        ({"image": np.zeros((1, 8, 8, 1), np.int16)}, r"'image' must be int8 .* not int16"),
    ],
)
def test_wrong_inputs(path, inputs, sentence):
    with pytest.raises(ValueError, match=sentence):
        compare(path, inputs)


@pytest.mark.usefixtures("reference")
def test_wrong_tensor(path):
    with pytest.raises(ValueError, match=r"a tensor must be int8 \(1, 8, 8, 16\), not float64"):
        compare(path, run=lambda inputs: {3: np.zeros((1, 8, 8, 16))})


def test_missing_reference(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tflite_micro.python.tflite_micro", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "matloom\[reference\]"'):
        compare(path)


def test_missing_file(tmp_path):
    with pytest.raises(ValueError, match="cannot read"):
        compare(tmp_path / "none.tflite")
