"""The interpreter's requirements on inputs, and its results."""

from importlib import resources

import numpy as np
import pytest

from matloom import frontend
from matloom.kernels.interpreter import interpret

IMAGE = np.zeros((1, 8, 8, 1), np.int8)


@pytest.fixture
def graph():
    return frontend.load(resources.files("matloom.data").joinpath("digits.tflite").read_bytes())


def test_outputs_alone_or_every_tensor(graph):
    outputs = interpret(graph, {0: IMAGE})
    assert list(outputs) == list(graph.outputs)
    tensors = interpret(graph, {0: IMAGE}, keep=True)
    assert set(tensors) == {0, *(node.output for node in graph.nodes)}
    for number, array in tensors.items():
        assert array.shape == graph.tensors[number].shape
        assert array.dtype.name == graph.tensors[number].dtype


def test_missing_input(graph):
    with pytest.raises(ValueError, match=r"inputs must be tensors \[0\], not \[\]"):
        interpret(graph, {})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (IMAGE[0], r"input 'image' must be int8 \(1, 8, 8, 1\), not int8 \(8, 8, 1\)"),
        (IMAGE.astype(np.int32), r"must be int8 \(1, 8, 8, 1\), not int32 \(1, 8, 8, 1\)"),
    ],
)
def test_wrong_input(graph, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        interpret(graph, {0: given})
