"""Networks quantised from ONNX files, and written as ONNX files."""

import numpy as np
import pytest
from click.testing import CliRunner

import matloom
from matloom import frontend
from matloom.cli import cli
from matloom.errors import UserError
from matloom.quantiser import quantise
from support.float_onnx import FloatFile, float_onnx
from support.oracles import micro
from support.transformer_onnx import transformer_onnx

pytest.importorskip("onnx", reason="onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def images(count, seed=0):
    return np.random.default_rng(seed).normal(0.3, 1, (count, 1, 3, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def made():
    return quantise(float_onnx(), images(30), samples=20)


def run(content, samples):
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.array([session.run(None, {name: sample})[0] for sample in samples])


def sqnr(exact, rounded):
    return 10 * np.log10(np.square(exact).sum() / np.square(exact - rounded).sum())


def test_the_onnx_file_is_equal_on_both_runtimes(made):
    """Loaded exactly, Matloom computes what ONNX Runtime does, with integer operators."""
    content, samples = made.onnx(), images(12, seed=1)
    wanted = run(content, samples)
    assert sqnr(run(float_onnx(), samples), wanted) > 25
    graph = frontend.load(content, exact=True)
    assert sum(node.op == "CONV_2D" for node in graph.nodes) == 2
    with matloom.load(graph, "model", config="nano", check="none") as session:
        for sample, result in zip(samples, wanted, strict=True):
            (found,) = session.run({"image": sample}).values()
            assert np.array_equal(found, result)


def test_micro_runs_the_tflite_file(made):
    """Its input has the shape of the ONNX file's."""
    samples = images(6, seed=2)
    tensor, output = (made.graph.tensors[end[0]] for end in (made.graph.inputs, made.graph.outputs))
    integers = np.clip(np.rint(samples / tensor.scale) + tensor.zero_point, -128, 127)
    found = np.array([micro(made.content, [each], 1)[0] for each in integers.astype(np.int8)])
    real = (found.astype(np.float64) - output.zero_point) * output.scale
    assert sqnr(run(float_onnx(), samples), real) > 25


def test_words_do_not_fit_an_onnx_file():
    made = quantise(float_onnx(), images(4), precision="i16xi8")
    with pytest.raises(UserError, match=r"cannot be written as an .onnx file: '.*' is int16"):
        made.onnx()


def odd(kind):
    """Return a network with channels that never change, or that no ReLU passes."""
    file = FloatFile()
    weights = file.random.normal(0, 0.3, (6, 3, 3, 3)).astype(np.float32)
    bias = np.zeros(6, np.float32)
    if kind == "constant":
        weights[:3] = 0
    if kind == "dead":
        bias[:3] = -1000
    if kind == "nan":
        weights[0, 0, 0, 0] = np.nan
    first = file.add("Relu", file.add("Conv", "image", *map(file.constant, (weights, bias))))
    last = file.add("Conv", first, file.weights(4, 6, 1, 1))
    return file.content((1, 3, 8, 8), file.add("GlobalAveragePool", last))


@pytest.mark.parametrize("kind", ["constant", "dead", "one sample"])
def test_odd_networks_give_a_correct_result(kind):
    samples = images(1 if kind == "one sample" else 8)
    made = quantise(odd(kind), samples)
    exact, found = (run(content, samples[:1]) for content in (odd(kind), made.onnx()))
    assert np.isfinite(found).all()
    assert np.abs(exact - found).max() <= 0.05 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("content", "data", "message"),
    [
        (odd("nan"), images(2), "must be finite, but has NaN or infinity"),
        (float_onnx(), images(2) * np.nan, "input 'image' must be finite, but sample 0 has NaN"),
        (float_onnx(), np.zeros((2, 8, 8, 3), np.float32), "must have shape"),
    ],
)
def test_wrong_input_gets_a_sentence(content, data, message):
    with pytest.raises(UserError, match=message):
        quantise(content, data)


def quantised_by_onnx_runtime(content, samples, name, folder, **options):
    """Return a float network as ONNX Runtime's `quantize_static` quantises it."""
    from onnxruntime import quantization

    class Samples(quantization.CalibrationDataReader):
        def __init__(self):
            self._left = iter(samples)

        def get_next(self):
            sample = next(self._left, None)
            return None if sample is None else {name: sample}

    paths = [folder / "float.onnx", folder / "quantised.onnx"]
    paths[0].write_bytes(content)
    quantization.quantize_static(*map(str, paths), Samples(), per_channel=True, **options)
    return paths[1].read_bytes()


@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
def test_a_qdq_file_is_quantised_anew(kind, tmp_path):
    """ONNX Runtime's tool drops the Relu, which its QuantizeLinear replaces."""
    import onnx
    from onnxruntime.quantization import QuantType

    content, samples = float_onnx(), images(30)
    chosen = {"activation_type": getattr(QuantType, kind), "weight_type": QuantType.QInt8}
    rounded = quantised_by_onnx_runtime(content, samples, "image", tmp_path, **chosen)
    operators = {node.op_type for node in onnx.load_from_string(rounded).graph.node}
    assert "QuantizeLinear" in operators
    assert "Relu" not in operators
    made = quantise(rounded, samples, samples=20)
    assert [made.graph.tensors[number].name for number in made.graph.outputs] == [
        value.name for value in onnx.load_from_string(content).graph.output
    ]
    others = images(12, seed=1)
    assert sqnr(run(content, others), run(made.onnx(), others)) > 25


def test_attention_in_a_qdq_file_runs_wholly_on_the_engine(tmp_path):
    """As it is, ONNX Runtime computes its SOFTMAX and normalisations in floating point."""
    shape = (6, 1, 8, 48)
    samples = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    content = transformer_onnx(8, 16, 2, blocks=1)
    rounded = quantised_by_onnx_runtime(content, samples, "image", tmp_path)
    config = "reference+products=3+softmax=16+transposed_weights=1+zero_points=1"
    before = matloom.compile(rounded, config, check="none").layers
    assert any(layer.where == "host" for layer in before)
    made = quantise(rounded, {"image": samples[:, 0]}, samples=6)
    after = matloom.compile(made.graph, config, check="none").layers
    assert {layer.where for layer in after} == {"engine"}


def test_integer_operators_get_a_sentence(tmp_path):
    from onnxruntime.quantization import QuantFormat

    samples = images(4)
    form = {"quant_format": QuantFormat.QOperator}
    rounded = quantised_by_onnx_runtime(float_onnx(), samples, "image", tmp_path, **form)
    with pytest.raises(UserError, match="is quantised already"):
        quantise(rounded, samples)


def test_command_line(tmp_path):
    (tmp_path / "net.onnx").write_bytes(float_onnx())
    np.save(tmp_path / "data.npy", images(12))
    names = [str(tmp_path / name) for name in ("net.onnx", "data.npy", "out.onnx")]
    words = ["quantise", names[0], "--data", names[1], "-o", names[2], "--samples", "6"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert run((tmp_path / "out.onnx").read_bytes(), images(1)).shape == (1, 1, 5)
