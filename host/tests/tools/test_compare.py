"""Comparison with TensorFlow Lite Micro: equality, and the place of the first difference."""

import json
import sys
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from click.testing import CliRunner

from matloom import frontend
from matloom.cli import cli
from matloom.errors import UserError
from matloom.frontend.tflite.write import write_tflite
from matloom.kernels.interpreter import interpret
from matloom.tools.compare import compare
from matloom.tools.parent_comparison import compare_with_parent
from matloom.tools.references import LiteReference, MicroReference

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
    assert str(outcome).endswith("of 9 of 9 operators, 1 sample: equal")


@pytest.mark.usefixtures("reference")
def test_samples_along_the_leading_axis(path, seed):
    images = np.random.default_rng(seed).integers(-128, 128, (5, 1, 8, 8, 1), np.int8)
    for stacked in (images, images[:, 0]):
        outcome = compare(path, {"image": stacked})
        assert outcome.equal
        assert outcome.samples == 5


@pytest.mark.usefixtures("reference")
def test_first_difference(path):
    graph = frontend.load(path)
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
    monkeypatch.setitem(sys.modules, "tflite_micro.python.tflite_micro.runtime", None)
    with pytest.raises(
        ModuleNotFoundError,
        match="comparing needs the package tflite-micro, which is not installed",
    ):
        compare(path)


def test_missing_file(tmp_path):
    with pytest.raises(ValueError, match="cannot read"):
        compare(tmp_path / "none.tflite")


@pytest.mark.usefixtures("reference")
def test_figures_of_layers(path):
    """One element of one sample is off by one, so its scale is the largest error."""
    graph = frontend.load(path)
    squares = []

    def run(inputs):
        tensors = interpret(graph, inputs, keep=True)
        tensor = graph.tensors[10]
        numbers = (tensors[10].astype(float) - tensor.zero_point) * tensor.scale
        squares.append((numbers**2).sum())
        wrong = tensors[10].copy()
        wrong[0, 1, 2, 3] ^= 1
        return {**tensors, 10: wrong}

    outcome = compare(path, run=run, samples=3)
    assert outcome.samples == 3
    layer = outcome.layers[3]
    scale = graph.tensors[10].scale
    assert layer.different == 3
    assert layer.largest == pytest.approx(scale)
    assert layer.sqnr_db == pytest.approx(10 * np.log10(sum(squares) / (3 * scale**2)))
    assert [each.sqnr_db for each in outcome.layers[:3]] == [None] * 3


@pytest.mark.usefixtures("reference")
def test_litert_replaces_tensorflow_lite_micro(path, monkeypatch):
    """Its dense layers differ by one from there on, and the report says so."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

    def refuse(self, content, graph):
        raise ValueError("TensorFlow Lite Micro refused digits: no such kernel")

    monkeypatch.setattr(MicroReference, "__init__", refuse)
    outcome = compare(path, samples=20)
    assert outcome.reference == "LiteRT's reference kernels"
    assert all(layer.elements for layer in outcome.layers)
    assert [layer.different for layer in outcome.layers[:7]] == [0] * 7
    assert outcome.layers[7].largest <= 1.01 * frontend.load(path).tensors[14].scale
    if not outcome.equal:
        assert str(outcome).endswith("from a FULLY_CONNECTED on are its own")
        assert "LiteRT's reference kernels has" in str(outcome)
    monkeypatch.setattr(LiteReference, "__init__", refuse)
    with pytest.raises(ValueError, match="no such kernel; TensorFlow"):
        compare(path)


def changed(path, number):
    """Write the network with other weights in an operator; return its path."""
    graph = frontend.load(path)
    weights = graph.nodes[number].inputs[1]
    tensors = dict(graph.tensors)
    data = tensors[weights].data.copy()
    data[..., 0] ^= 3
    tensors[weights] = replace(tensors[weights], data=data)
    other = path.with_name("changed.tflite")
    other.write_bytes(write_tflite(replace(graph, tensors=tensors)))
    return other


def test_against_another_network(path):
    outcome = compare_with_parent(path, path)
    assert len(outcome.layers) == 9
    assert all(layer.different == 0 for layer in outcome.layers)
    assert str(outcome).endswith("all of them are equal")
    outcome = compare_with_parent(path, changed(path, 4), samples=2)
    assert [layer.different > 0 for layer in outcome.layers] == [False] * 4 + [True] * 5
    assert outcome.samples == 2
    assert "farthest off: " in str(outcome)


def test_a_parent_of_open_sizes_gets_those_of_the_network(tmp_path):
    """The float file has a batch of any size, and the quantised one a batch of one."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    weights = onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    paths = []
    for name, batch in (("made", 1), ("parent", "N")):
        ends = [
            onnx.helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, [batch, length])
            for end, length in (("x", 3), ("y", 2))
        ]
        node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
        graph = onnx.helper.make_graph([node], name, ends[:1], ends[1:], [weights])
        opset = onnx.helper.make_opsetid("", 17)
        model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(model, paths[-1])
    outcome = compare_with_parent(*paths)
    assert len(outcome.layers) == 1
    assert str(outcome).endswith("all of them are equal")


def test_comparing_unrelated_networks(path, tmp_path, small_product):
    other = tmp_path / "product.tflite"
    other.write_bytes(write_tflite(small_product))
    with pytest.raises(UserError, match="both networks must have inputs of one shape, not"):
        compare_with_parent(path, other)


def test_errors_against_floats_are_those_between_two_interpreters(models, reference):
    """TensorFlow Lite Micro runs the quantised network, LiteRT the float one."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    paths = [models / f"models/mlperf_tiny/kws_ref_model{end}.tflite" for end in ("", "_float32")]
    with np.load(models / "labelled" / "dev_kws_300.npz") as kept:
        given = kept["x"][:3]
    outcome = compare_with_parent(*paths, {"x": given})
    graph, floats = map(frontend.load, paths)
    ours = MicroReference(paths[0].read_bytes(), graph)
    theirs = LiteReference(paths[1].read_bytes(), floats)
    source, target = graph.tensors[graph.inputs[0]], graph.tensors[graph.nodes[0].outputs[0]]
    signal = noise = 0.0
    for sample in given:
        numbers = ((sample.astype(float) - source.zero_point) * source.scale).astype(np.float32)
        integers = ours.run({graph.inputs[0]: sample})[graph.nodes[0].outputs[0]]
        expected = theirs.run({floats.inputs[0]: numbers})[floats.nodes[0].outputs[0]]
        found = (integers.astype(float) - target.zero_point) * target.scale
        signal += float((expected.astype(float) ** 2).sum())
        noise += float(((found - expected) ** 2).sum())
    layer = outcome.layers[0]
    assert layer.operator == "CONV_2D"
    assert layer.sqnr_db == pytest.approx(10 * np.log10(signal / noise), abs=0.01)
    assert layer.sqnr_db > 15


@pytest.mark.usefixtures("reference")
def test_the_command_line(path, tmp_path):
    images = np.random.default_rng(0).integers(-128, 128, (3, 8, 8, 1), np.int8)
    np.savez(tmp_path / "in.npz", image=images)
    report = tmp_path / "report.json"
    for more, samples in (
        (["--input", str(tmp_path / "in.npz")], 3),
        (["--samples", "2", "--seed", "5"], 2),
        (["--against", str(changed(path, 4))], 4),
    ):
        done = CliRunner().invoke(cli, ["compare", str(path), *more, "--report", str(report)])
        assert done.exit_code == 0, done.output
        kept = json.loads(report.read_text())
        assert kept["samples"] == samples
        assert len(kept["layers"]) == 9
        assert "SQNR" in done.output
