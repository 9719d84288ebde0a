"""The numbers that training with integers sees are the engine's; so is what it trains."""

import importlib.util
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.quantiser import quantise
from support.float_network import float_network, float_samples
from support.oracles import micro

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "training"


@pytest.fixture(scope="module")
def integer_network():
    spec = importlib.util.spec_from_file_location("integer_network", FOLDER / "integer_network.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.IntegerNetwork


@pytest.mark.parametrize("precision", ["i8xi8", "i8xi4"])
def test_values_are_those_of_the_engine(integer_network, precision):
    """Weights that a training moved, on the functional model and TensorFlow Lite Micro."""
    images = float_samples(3)
    made = quantise(float_network(), float_samples(10), precision=precision)
    network = integer_network(made.graph, precision)
    (output,) = made.graph.outputs
    # Untrained, it is the network that was made.
    same = network.graph().tensors
    assert all(
        np.array_equal(tensor.data, same[number].data)
        for number, tensor in made.graph.tensors.items()
        if tensor.data is not None
    )
    before = network.values(images)[output]
    random = np.random.default_rng(4)
    for array in network.weights.values():
        array += random.normal(0, 0.2 * np.abs(array).max(), array.shape)
    values = network.values(images)[output]
    assert not np.array_equal(values, before)
    content = frontend.write(network.graph())[1]
    with matloom.load(content, "model", config="nano+i8xi4", check="none") as session:
        for image, expected in zip(images, values, strict=True):
            integers = session.quantise(image)
            results = session.dequantise(session.run(integers))
            assert np.array_equal(results, expected)
            assert np.array_equal(session.dequantise(micro(content, [integers], 1)[0]), expected)


def test_rounded_weights_are_those_of_the_graph(integer_network):
    made = quantise(float_network(), float_samples(10), precision="i8xi4")
    network = integer_network(made.graph, "i8xi4")
    layer = network.layers[0]
    weights = layer.inputs[1]
    network.weights[weights] = network.weights[weights] * 100
    tensor = network.graph().tensors[weights]
    assert np.abs(tensor.data).max() == 7
    scales = np.array(tensor.quantisation.scale).reshape(-1, 1, 1, 1)
    assert np.array_equal(network.rounded_weights()[weights], tensor.data * scales)


@pytest.mark.slow
def test_the_example_trains(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed: extra train")
    monkeypatch.syspath_prepend(str(FOLDER))
    options = ["--count", "500", "--epochs", "6", "--more", "1", "--output", "shapes.tflite"]
    monkeypatch.setattr(sys, "argv", ["train.py", *options])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(FOLDER / "train.py"), run_name="__main__")
    assert end.value.code == 0
    assert "5 results of the model equal those of the training" in capsys.readouterr().out
