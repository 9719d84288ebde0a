"""Quantised networks on other runtimes and the engine, unusual data, and the command line."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import matloom
from matloom import frontend
from matloom.cli import cli
from matloom.data.digits import NETWORK
from matloom.errors import UserError
from matloom.ir.attributes import Reference
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op
from matloom.quantiser import quantise
from matloom.quantiser.options import ENDS, WEIGHT_SCALES
from matloom.quantiser.ranges import CALIBRATIONS
from support.float_network import FloatNetwork, float_network, float_samples
from support.oracles import litert, micro


@pytest.fixture(scope="module")
def network():
    return float_network()


@pytest.fixture(scope="module")
def content(network):
    return frontend.write(network)[1]


@pytest.fixture(scope="module")
def made(network):
    return quantise(network, float_samples(30), samples=20)


def integers(graph, images):
    tensor = graph.tensors[graph.inputs[0]]
    limits = np.iinfo(tensor.dtype)
    found = np.rint(images / tensor.scale) + tensor.zero_point
    return np.clip(found, limits.min, limits.max).astype(tensor.dtype)


def sqnr(exact, rounded):
    return 10 * np.log10(np.square(exact).sum() / np.square(exact - rounded).sum())


@pytest.mark.parametrize("precision", ["i8xi8", "i8xi4", "i16xi8"])
def test_other_runtimes_run_it(network, content, precision):
    """Float outputs equal LiteRT's; integer outputs equal TensorFlow Lite Micro's."""
    made = quantise(network, float_samples(20), precision=precision)
    images = float_samples(6, seed=2)
    inputs = integers(made.graph, images)
    results = np.array([micro(made.content, [image], 1)[0] for image in inputs])
    assert litert(made.content, [inputs[0]])[0].dtype == results.dtype
    exact = np.array([litert(content, [image])[0] for image in images])
    output = made.graph.tensors[made.graph.outputs[0]]
    real = (results.astype(np.float64) - output.zero_point) * output.scale
    assert sqnr(exact, real) > {"i8xi8": 28, "i8xi4": 15, "i16xi8": 30}[precision]
    session = matloom.load(made.content, "model", config="nano", check="none")
    with session:
        for image, result in zip(inputs, results, strict=True):
            (output,) = session.run({"image": image}).values()
            assert np.array_equal(output, result)


def test_four_bits_are_four_bits(network):
    graph = quantise(network, float_samples(5), precision={"*": "i8xi4"}).graph
    for node in graph.nodes:
        if node.op in (Op.CONV_2D, Op.FULLY_CONNECTED):
            weights = graph.tensors[node.inputs[1]].data
            assert -8 <= weights.min() < -1
            assert 1 < weights.max() <= 7


def test_a_layer_may_stay_float(network, content):
    name = network.tensors[network.nodes[0].output].name
    made = quantise(network, float_samples(10), precision={name: "float32"}, ends="floats")
    images = float_samples(2, seed=3)
    for image in images:
        exact, rounded = litert(content, [image])[0], litert(made.content, [image])[0]
        assert rounded.dtype == np.float32
        assert sqnr(exact, rounded) > 25


def test_the_same_seed_gives_the_same_file(network, made):
    again = quantise(network, float_samples(30), samples=20)
    assert again.content == made.content
    assert quantise(network, float_samples(30), samples=20, seed=1).content != made.content


def test_samples_to_measure_are_others(made):
    report = made.report
    assert len(report.calibrated) == 20
    assert sorted(report.calibrated + report.tested) == list(range(30))
    assert report.outputs[0].samples == 10
    assert not report.outputs[0].calibrated


def test_measured_on_the_same_samples_where_there_are_no_others(network):
    report = quantise(network, float_samples(3)).report
    assert report.outputs[0].calibrated
    assert "the calibration samples" in str(report)


def test_agreement_equals_that_of_other_runtimes(content, made):
    """Count it again with LiteRT and TensorFlow Lite Micro."""
    images = float_samples(30)[list(made.report.tested)]
    wanted = [litert(content, [image])[0].argmax() for image in images]
    inputs = integers(made.graph, images)
    found = [micro(made.content, [image], 1)[0].argmax() for image in inputs]
    share = made.report.outputs[0].agreement
    assert share.value == np.mean(np.array(wanted) == found)
    assert share.low <= share.value <= share.high


def test_one_sample_is_enough(network, content):
    image = float_samples(1, seed=4)
    made = quantise(network, image)
    exact = litert(content, [image[0]])[0]
    output = made.graph.tensors[made.graph.outputs[0]]
    result = micro(made.content, list(integers(made.graph, image)), 1)[0]
    assert sqnr(exact, (result - float(output.zero_point)) * output.scale) > 25


def odd_network(change):
    """Return a convolution of 8 channels with changed weights and bias."""
    network = FloatNetwork()
    image = network.input("image", (1, 8, 8, 3), "float32")
    first = network.convolution(image, 8, kernel=3)
    graph = network.graph(network.convolution(first, 4))
    weights, bias = (graph.tensors[at] for at in graph.nodes[0].inputs[1:])
    data = weights.data.copy(), bias.data.copy()
    change(*data)
    changed = (replace(weights, data=data[0]), replace(bias, data=data[1]))
    tensors = {**graph.tensors, **dict(zip(graph.nodes[0].inputs[1:], changed, strict=True))}
    return replace(graph, tensors=tensors)


def dead(weights, bias):
    bias[:4] = -1000


def constant(weights, bias):
    weights[:4] = 0


def all_constant(weights, bias):
    weights[:] = 0


def nothing(weights, bias):
    weights[:] = 0
    bias[:] = 0


def minute(weights, bias):
    weights[:4] *= 1e-25


def unequal(weights, bias):
    weights[:4] *= 1e4


@pytest.mark.parametrize("change", [dead, constant, all_constant, nothing, minute, unequal])
@pytest.mark.parametrize("weight_scales", ["per-channel", "per-tensor"])
def test_odd_weights_give_a_correct_result(change, weight_scales):
    graph = odd_network(change)
    images = float_samples(10)
    made = quantise(graph, images, weight_scales=weight_scales)
    for tensor in made.graph.tensors.values():
        for scale in () if tensor.quantisation is None else tensor.quantisation.scale:
            assert 0 < scale < float("inf")
    image = images[:1]
    exact = litert(frontend.write(graph)[1], [image[0]])[0]
    output = made.graph.tensors[made.graph.outputs[0]]
    result = micro(made.content, list(integers(made.graph, image)), 1)[0]
    error = exact - (result - float(output.zero_point)) * output.scale
    assert np.abs(error).max() <= max(0.03 * np.abs(exact).max(), 1e-6)


def test_constant_data_gives_a_correct_result(network, content):
    images = np.full((4, 1, 8, 8, 3), 0.5, np.float32)
    made = quantise(network, images)
    result = micro(made.content, list(integers(made.graph, images[:1])), 1)[0]
    output = made.graph.tensors[made.graph.outputs[0]]
    exact = litert(content, [images[0]])[0]
    assert sqnr(exact, (result - float(output.zero_point)) * output.scale) > 25


def with_nan():
    images = float_samples(4)
    images[2, 0, 3, 3, 1] = np.nan
    return images


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": with_nan()}, r"input 'image' must be finite, but sample 2 has NaN or infinity"),
        ({"data": np.zeros((2, 9, 8, 3), np.float32)}, r"must have shape \(samples, 1, 8, 8, 3\)"),
        ({"data": float_samples(4).astype(np.int8)}, "input 'image' must be float32, not int8"),
        ({"data": float_samples(0)}, "the inputs have no sample"),
        ({"samples": 0}, "samples must be at least 1, not 0"),
        ({"labels": [1, 2]}, "labels must be 4 integers, one for each sample, not 2 of int64"),
        ({"labels": [0, 4, 5, -1]}, "labels must be classes of small, 0 to 4, not 5"),
        ({"precision": "i8xi2"}, "a precision must be one of i8xi8, i8xi4, i16xi8, float32"),
        ({"precision": {"tensor": "i8xi4"}}, "precision must name layers of small, not 'tensor'"),
        ({"calibration": "entropy"}, "calibration must be one of minmax, percentile, mse, kl"),
        ({"rounding": 1}, "an option must be one of calibration"),
        ({"model": NETWORK}, "digits is quantised already: its layers read int8"),
    ],
)
def test_wrong_input_gets_a_sentence(network, given, message):
    with pytest.raises(UserError, match=message):
        quantise(**{"model": network, "data": float_samples(4), **given})


def test_operators_of_another_runtime_get_a_sentence():
    network = GraphBuilder("opaque")
    image = network.input("x", (1, 4), "float32")
    file = network.constant(np.zeros(4, np.uint8))
    opaque = Reference(operators=("Conv", "Relu", "Conv"), reasons=("no kernel",) * 3)
    made = network.add(Op.REFERENCE, [image, file], opaque, shape=(1, 4))
    message = "opaque cannot be quantised yet: another runtime runs its operators Conv, Relu"
    with pytest.raises(UserError, match=message):
        quantise(network.graph(made), np.zeros((2, 1, 4), np.float32))


def test_too_many_samples_for_the_memory(network, monkeypatch):
    """The size is checked before anything is computed."""
    monkeypatch.setattr("matloom.quantiser.samples._MOST_BYTES", 100_000)
    with pytest.raises(UserError, match="40 samples of small need more than 0 MiB") as told:
        quantise(network, float_samples(40))
    assert told.value.hint == "use at most 7 samples to calibrate: --samples 7"


def test_command_line(content, tmp_path):
    (tmp_path / "net.tflite").write_bytes(content)
    np.savez(tmp_path / "data.npz", x=float_samples(20), y=np.arange(20) % 5)
    options = ["--data", "data.npz", "--labels", "y", "--samples", "10", "--config", "nano"]
    for report in ("report.json", "report.html"):
        words = ["quantise", "net.tflite", *options, "-o", "out.tflite", "--report", report]
        words = [str(tmp_path / word) if "." in word else word for word in words]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
    assert "agrees with the float network on" in done.output
    assert "McNemar" in done.output
    written = json.loads((tmp_path / "report.json").read_text())
    program = matloom.compile(tmp_path / "out.tflite", "nano", check="none")
    assert written["cycles"] == program.predicted_cycles
    cycles = [each["predicted_cycles"] for each in written["layers"]]
    assert all(cycles[:3])
    assert "http" not in (tmp_path / "report.html").read_text().replace("http-equiv", "")
    assert frontend.load(tmp_path / "out.tflite").nodes[0].op is Op.CONV_2D


def test_choices_of_the_command_line_are_those_of_the_function():
    choices = {item.name: item.type for item in cli.commands["quantise"].params}
    assert set(choices["calibration"].choices) == set(CALIBRATIONS)
    assert set(choices["weight_scales"].choices) == set(WEIGHT_SCALES)
    assert set(choices["ends"].choices) == set(ENDS)
