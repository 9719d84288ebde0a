"""Accuracy on labelled samples: figures, devices, conversions, and mismatches."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import matloom
from matloom.cli import cli
from matloom.data import digits
from matloom.data.digits import NETWORK
from matloom.data.streaming import streaming_network
from matloom.errors import UserError
from matloom.kernels.interpreter import interpret

#: Known accuracies: counted by TensorFlow Lite Micro on the same samples.
LABELLED = {
    "dev_cifar_250": ("mlperf_tiny/pretrainedResnet_quant", 227, 250),
    "dev_kws_300": ("mlperf_tiny/kws_ref_model", 269, 300),
    "dev_micro_speech_100": ("tflm/micro_speech_quantized", 90, 100),
    "dev_mnist_lenet_300": ("tinyengine/ptq_mnist_lenet-300-100", 293, 300),
    "dev_person_detect_coco33": ("tflm/person_detect_qdimfix", 24, 33),
    "dev_str_ww_45": ("mlperf_tiny/str_ww_ref_model", 41, 45),
    "dev_vww_coco33": ("mlperf_tiny/vww_96_int8", 31, 33),
}


@pytest.fixture(scope="module")
def program():
    return matloom.compile(NETWORK, "nano", check="full")


@pytest.fixture(scope="module")
def held_out():
    """Return images of digits, float32, and their labels, some of them wrong."""
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn, which is absent")
    images, labels = digits.held_out()
    labels = labels[:60].copy()
    labels[::7] = (labels[::7] + 1) % 10
    return images[:60], labels


@pytest.fixture(scope="module")
def integers(held_out):
    return digits.quantise(held_out[0], *digits.input_quantisation())


def right_answers(graph_inputs, labels):
    """Return how many integer images the graph's interpreter classifies as labelled."""
    from matloom import frontend

    graph = frontend.load(NETWORK)
    (given,), (made,) = graph.inputs, graph.outputs
    shape = graph.tensors[given].shape
    outputs = [interpret(graph, {given: image.reshape(shape)})[made] for image in graph_inputs]
    return [int(np.argmax(output)) for output in outputs]


def test_digits_on_every_device_in_software(program, integers, held_out):
    labels = held_out[1]
    answers = right_answers(integers, labels)
    right = sum(answer == label for answer, label in zip(answers, labels, strict=True))
    assert 30 < right < 55
    for device in ("fast", "model"):
        made = matloom.evaluate(program, integers, labels, device=device)
        assert (made.value, made.samples) == (right / 60, 60)
        assert made.low < made.value <= made.high
        assert made.cycles_source == "predicted"
        assert made.computed_by == {"fast": "kernels", "model": "program"}[device]
        counted = np.zeros((10, 10), int)
        np.add.at(counted, (labels, answers), 1)
        assert np.array_equal(made.confusion, counted)
        for item in made.classes:
            assert item.samples == (labels == item.label).sum()
            assert item.taken == answers.count(item.label)
            assert item.right == counted[item.label, item.label]


def test_the_chip_is_counted(program, integers, held_out):
    made = matloom.evaluate(program, integers, held_out[1], device="rtl", first=3)
    assert made.samples == 3
    assert made.cycles_source == "counters"
    text = str(made)
    assert "3 samples on rtl" in text
    assert f"{made.cycles:,} cycles per sample" in text
    assert "(counted)" in text


def test_quantising_floats_is_reported(program, integers, held_out):
    images, labels = held_out
    wanted = matloom.evaluate(program, integers, labels)
    made = matloom.evaluate(program, images, labels)
    assert made.confusion == wanted.confusion
    (sentence,) = made.conversions
    scale, zero_point = digits.input_quantisation()
    assert sentence.endswith(
        f"float32 quantised to int8 by its scale {scale:.8g} and zero point {zero_point}"
    )
    assert sentence in " ".join(str(made).split())
    wide = matloom.evaluate(program, integers.astype(np.int64), labels)
    assert wide.confusion == wanted.confusion
    assert wide.conversions[0].endswith("int64 taken as int8")


def test_ways_to_give_samples(program, integers, held_out):
    labels = held_out[1]
    (info,) = program.inputs
    wanted = matloom.evaluate(program, integers, labels).confusion
    stacked = integers.reshape(-1, *info.shape)
    for given in (stacked, {"x": stacked}, {info.name: integers}, {"x": integers, "other": labels}):
        assert matloom.evaluate(program, given, labels).confusion == wanted
    floats = labels.astype(np.float64)[:, np.newaxis]
    assert matloom.evaluate(program, integers, floats).confusion == wanted


def test_samples_of_a_network_that_remembers_do_not_know_of_each_other():
    graph = streaming_network(5)
    shape = graph.tensors[graph.inputs[0]].shape
    frames = np.random.default_rng(0).integers(-128, 128, (6, *shape), np.int8)
    outputs = [interpret(graph, {graph.inputs[0]: frame})[graph.outputs[0]] for frame in frames]
    labels = [int(output.argmax()) for output in outputs]
    if outputs[0].shape[:-1] == (1,) * (outputs[0].ndim - 1):
        made = matloom.evaluate(graph, frames, labels, config="nano")
        assert made.value == 1
    stacked = np.stack(outputs).astype(np.float64)
    quantisation = graph.tensors[graph.outputs[0]].quantisation
    numbers = (stacked - quantisation.zero_point[0]) * quantisation.scale[0]
    made = matloom.evaluate(graph, frames, numbers, "mse", config="nano")
    assert made.value == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": [1, 2]}, r"there must be one label per sample \(60\), not 2"),
        ({"labels": [10] * 60}, "labels must be classes of the output, 0 to 9, not 10"),
        ({"labels": [-1] * 60}, "labels must be classes of the output, 0 to 9, not -1"),
        ({"labels": [0.5] * 60}, "labels of top1 must be integers, not float64"),
        ({"labels": ["a"] * 60}, "labels of top1 must be integers, not <U1"),
        ({"metric": "top11"}, "metric must be at most top10 for 10 classes, not top11"),
        ({"metric": "auc"}, "the output of auc must have 1 or 2 elements, not 10"),
        (
            {"metric": "mse"},
            "labels of mse must be numbers for 60 samples of .*, 600 in all, not 60",
        ),
        ({"metric": "best"}, "metric must be one of top1, top5, auc, mse, mae, not 'best'"),
        ({"output": "probability"}, "digits has no output 'probability', but probabilities"),
        ({"inputs": np.zeros((60, 7, 8, 1), np.int8)}, r"must have shape \(samples, 1, 8, 8, 1\)"),
        ({"inputs": np.zeros((0, 8, 8, 1), np.int8)}, "the inputs have no sample"),
        ({"inputs": np.full((60, 8, 8, 1), 200)}, "must be int8, not int64 of 200 to 200"),
        ({"inputs": np.zeros((60, 8, 8, 1), "U1")}, "must be int8, not <U1"),
        ({"inputs": np.full((60, 8, 8, 1), np.nan)}, "must be finite"),
        ({"inputs": {"y": np.zeros(3), "z": np.zeros(3)}}, "no array for input .* or 'x' among"),
    ],
)
def test_misfits(program, integers, held_out, changes, sentence):
    given = {"inputs": integers, "labels": held_out[1], **changes}
    with pytest.raises(ValueError, match=sentence):
        matloom.evaluate(program, **given)


def test_classes_from_1_get_a_hint(program, integers, held_out):
    with pytest.raises(UserError, match="not 10") as caught:
        matloom.evaluate(program, integers, held_out[1] + 1)
    assert caught.value.hint == "classes are counted from 0"


@pytest.mark.slow
@pytest.mark.parametrize("samples", LABELLED)
def test_known_accuracies(models, samples):
    network, right, count = LABELLED[samples]
    with np.load(models / "labelled" / f"{samples}.npz") as kept:
        path = models / "models" / f"{network}.tflite"
        made = matloom.evaluate(path, {"x": kept["x"]}, kept["y"], config="small")
        expected = kept["out_tflm"].reshape(len(kept["y"]), -1).argmax(axis=1)
        assert (expected == kept["y"]).sum() == right
        counted = np.zeros_like(made.confusion)
        np.add.at(counted, (kept["y"].astype(int), expected), 1)
    assert (made.samples, made.value) == (count, right / count)
    assert np.array_equal(made.confusion, counted)


@pytest.fixture
def files(tmp_path, integers, held_out):
    """Return a folder with samples and labels in several file formats."""
    labels = held_out[1]
    np.savez(tmp_path / "test.npz", x=integers, y=labels)
    np.save(tmp_path / "x.npy", integers)
    np.save(tmp_path / "y.npy", labels)
    rows = [f"img{at}.png,{label}" for at, label in enumerate(labels)]
    (tmp_path / "headed.csv").write_text("\n".join(["file,class", *rows]))
    (tmp_path / "bare.csv").write_text("\n".join(map(str, labels)) + "\n")
    return tmp_path


def ran(*arguments):
    return CliRunner().invoke(cli, ["evaluate", str(NETWORK), "--config", "nano", *arguments])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("source", "labels"),
    [
        ("test.npz", "y"),
        ("x.npy", "y.npy"),
        ("x.npy", "headed.csv:class"),
        ("x.npy", "headed.csv:1"),
        ("x.npy", "headed.csv"),
        ("x.npy", "bare.csv"),
    ],
)
def test_the_command_line(files, source, labels, program, integers, held_out):
    report = files / "report.json"
    where = labels if labels == "y" else str(files / labels)
    done = ran("--input", str(files / source), "--labels", where, "--report", str(report))
    assert done.exit_code == 0, done.output
    wanted = matloom.evaluate(program, integers, held_out[1])
    kept = json.loads(report.read_text())
    assert kept["value"] == wanted.value
    assert kept["computed_by"] == "kernels"
    assert kept["cycles_source"] == "predicted"
    text = " ".join(done.output.split())
    assert f"top1 {wanted.value:.4g} (95 % interval {wanted.low:.4g} to {wanted.high:.4g}," in text
    assert "cycles per sample" in text
    assert "(predicted, not counted)" in text
    assert "outputs are those of the operators' kernels" in text


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ("z", "no labels 'z': it is neither an array of the input file (x, y) nor a .npy or .csv"),
        ("headed.csv:klass", "has no column 'klass', but file, class"),
        ("headed.csv:file", "row 2 of"),
        ("no.csv", "cannot read labels from"),
        ("no.npy", "--labels cannot be read: no.npy: no such file"),
    ],
)
def test_labels_that_are_not_there(files, labels, sentence, monkeypatch):
    monkeypatch.chdir(files)
    done = ran("--input", "test.npz", "--labels", labels)
    assert sentence in str(done.exception)
