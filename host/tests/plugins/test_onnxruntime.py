"""The execution provider in ONNX Runtime itself: outputs of its CPU kernels, and engine cycles."""

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import matloom
from matloom.arch.config import PRESETS
from matloom.plugins.library import compile_plugin, copy_chip
from matloom.plugins.networks import onnxruntime_bundle

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]


def _model(name, nodes, values, given, made):
    """Return a model from float input ``x`` to float output ``y``, with named constants."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    constants = [
        onnx.numpy_helper.from_array(np.asarray(value), at) for at, value in values.items()
    ]
    ends = [
        [helper.make_tensor_value_info(*end)] for end in (("x", kind, given), ("y", kind, made))
    ]
    graph = helper.make_graph(nodes, name, *ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _network(seed=1, weight=0):
    """Return a network of two int8 convolutions with a float sigmoid in between."""
    helper = onnx.helper
    draw = np.random.default_rng(seed)
    values, nodes = {}, []

    def scales(name, scale, zero):
        values[f"{name}_s"], values[f"{name}_z"] = np.float32(scale), np.int8(zero)
        return [f"{name}_s", f"{name}_z"]

    def conv(given, made, channels, output):
        values[f"{made}_w"] = draw.integers(-127, 128, (4, channels, 3, 3), np.int8)
        values[f"{made}_b"] = draw.integers(-500, 500, 4, np.int32)
        inputs = [f"{given}_q", *scales(given, 0.0161, 0), f"{made}_w"]
        inputs += [*scales(f"{made}_w", 0.0083, 0), *scales(output, 0.0607, -3), f"{made}_b"]
        nodes.append(helper.make_node("QLinearConv", inputs, [made], pads=[1, 1, 1, 1]))

    nodes.append(helper.make_node("QuantizeLinear", ["x", *scales("x", 0.0161, 0)], ["x_q"]))
    conv("x", "first", 3, "middle")
    nodes.append(helper.make_node("DequantizeLinear", ["first", "middle_s", "middle_z"], ["real"]))
    nodes.append(helper.make_node("Sigmoid", ["real"], ["between"]))
    nodes.append(
        helper.make_node(
            "QuantizeLinear", ["between", *scales("between", 0.0161, 0)], ["between_q"]
        )
    )
    conv("between", "second", 4, "end")
    nodes.append(helper.make_node("DequantizeLinear", ["second", "end_s", "end_z"], ["y"]))
    values["first_w"][0, 0, 0, 0] ^= weight
    return _model("two", nodes, values, [1, 3, 6, 6], [1, 4, 6, 6])


def _qdq_network(byte):
    """Return a QDQ network: two convolutions and a ReLU."""
    helper = onnx.helper
    draw = np.random.default_rng(6)
    # The limit at zero is ReLU itself.
    values = {"zero": np.array(np.iinfo(byte).min, byte), "bias_zero": np.int32(0)}
    nodes = []

    def real(name, scale, zero):
        values[f"{name}_s"] = np.float32(scale)
        nodes.append(
            helper.make_node("DequantizeLinear", [name, f"{name}_s", zero], [f"{name}_real"])
        )
        return f"{name}_real"

    def bytes_of(name, made, scale):
        values[f"{made}_s"] = np.float32(scale)
        nodes.append(helper.make_node("QuantizeLinear", [name, f"{made}_s", "zero"], [made]))

    def conv(given, scale, channels, made, **attributes):
        values[f"{made}_w"] = draw.integers(-127, 128, (4, channels, 3, 3), np.int8)
        values[f"{made}_w_z"] = np.int8(0)
        values[f"{made}_b"] = draw.integers(-500, 500, 4, np.int32)
        inputs = [real(given, scale, "zero"), real(f"{made}_w", 0.0083, f"{made}_w_z")]
        inputs.append(real(f"{made}_b", np.float32(scale) * np.float32(0.0083), "bias_zero"))
        nodes.append(helper.make_node("Conv", inputs, [f"{made}_sum"], **attributes))
        return f"{made}_sum"

    bytes_of("x", "x_q", 0.0161)
    nodes.append(helper.make_node("Relu", [conv("x_q", 0.0161, 3, "first")], ["positive"]))
    bytes_of("positive", "first_q", 0.0207)
    bytes_of(conv("first_q", 0.0207, 4, "second", strides=[2, 2]), "second_q", 0.0607)
    nodes.append(helper.make_node("DequantizeLinear", ["second_q", "second_q_s", "zero"], ["y"]))
    return _model("qdq", nodes, values, [1, 3, 9, 9], [1, 4, 3, 3])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the library, the chip of nano, and the network with its bundle."""
    if shutil.which("gcc") is None:
        pytest.skip("a plug-in needs gcc, which is absent")
    found = tmp_path_factory.mktemp("plugin")
    library = compile_plugin("onnxruntime", found)
    copy_chip(PRESETS["nano"], found)
    network = found / "two.onnx"
    onnx.save(_network(), network)
    program = matloom.compile(network, "nano")
    reasons = [layer.reason for layer in program.layers if layer.operator == "CONV_2D"]
    assert reasons == ["proven equal to ONNX Runtime"] * 2
    content, said = onnxruntime_bundle(network, program)
    assert said == ["2 of 7 operators run on the engine"]
    (found / "two.bundle").write_bytes(content)
    ort.register_execution_provider_library("matloom", str(library))
    yield found
    ort.unregister_execution_provider_library("matloom")


@pytest.fixture
def counts(folder):
    """Return a function that gives parts and cycles since the start of the test."""
    library = ctypes.CDLL(str(folder / "libmatloom_onnxruntime.so"))
    library.matloom_ort_cycles.restype = ctypes.c_uint64
    before = library.matloom_ort_parts(), library.matloom_ort_cycles()
    return lambda: (
        library.matloom_ort_parts() - before[0],
        library.matloom_ort_cycles() - before[1],
    )


def _session(content, *, optimised=True, wide=False, int8=False, **options):
    """Return a session on the engine, or, without a bundle, on the runtime's kernels."""
    found = ort.SessionOptions()
    if wide:
        # As on processors with VNNI: sums that do not saturate.
        found.add_session_config_entry("session.x64quantprecision", "1")
    if int8:
        found.add_session_config_entry("session.qdqisint8allowed", "1")
    if not optimised:
        found.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    found.log_severity_level = 3
    found.intra_op_num_threads = 1
    if options:
        devices = [item for item in ort.get_ep_devices() if item.ep_vendor == "Matloom"]
        found.add_provider_for_devices(devices, options)
    return ort.InferenceSession(content, found)


def _options(folder, **changed):
    return {"bundle": f"{folder}/two.bundle", "device": f"rtl:{folder}/chip.so", **changed}


def test_two_parts(folder, counts):
    content = _network().SerializeToString()
    ours, plain = _session(content, **_options(folder)), _session(content)
    assert "MatloomExecutionProvider" in ours.get_providers()
    draw = np.random.default_rng(2)
    for _ in range(5):
        x = draw.uniform(-2, 2, (1, 3, 6, 6)).astype(np.float32)
        assert np.array_equal(ours.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])
    parts, cycles = counts()
    assert parts == 2
    assert cycles > 0


@pytest.mark.parametrize("byte", [np.uint8, np.int8])
@pytest.mark.parametrize("optimised", [True, False])
def test_quantised_in_floats(folder, counts, tmp_path, byte, optimised):
    """QDQ operators run on the engine, as the file has them."""
    network = tmp_path / "qdq.onnx"
    onnx.save(_qdq_network(byte), network)
    content, said = onnxruntime_bundle(network, matloom.compile(network, "nano"))
    assert said == ["11 of 13 operators run on the engine"]
    (tmp_path / "qdq.bundle").write_bytes(content)
    options = _options(folder, bundle=str(tmp_path / "qdq.bundle"))
    ours = _session(network.read_bytes(), optimised=optimised, wide=True, **options)
    plain = _session(network.read_bytes(), wide=True)
    assert counts()[0] == 1
    draw = np.random.default_rng(7)
    for _ in range(5):
        x = draw.uniform(-1, 4, (1, 3, 9, 9)).astype(np.float32)
        assert np.array_equal(ours.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])


def test_integers_beside_the_engine(folder, counts, tmp_path):
    """A Softmax of int8, of which the engine has the QuantizeLinear before it."""
    model, network = _qdq_network(np.int8), tmp_path / "softmax.onnx"
    helper, numbers = onnx.helper, onnx.numpy_helper
    values = {"p_s": np.float32(1 / 255), "p_z": np.int8(-128)}
    model.graph.initializer.extend(numbers.from_array(np.asarray(v), n) for n, v in values.items())
    model.graph.node.extend(
        [
            helper.make_node("Softmax", ["y"], ["soft"]),
            helper.make_node("QuantizeLinear", ["soft", *values], ["p_q"]),
            helper.make_node("DequantizeLinear", ["p_q", *values], ["p"]),
        ]
    )
    model.graph.output[0].name = "p"
    onnx.save(model, network)
    content, _ = onnxruntime_bundle(network, matloom.compile(network, "nano"))
    (tmp_path / "net.bundle").write_bytes(content)
    options = _options(folder, bundle=str(tmp_path / "net.bundle"))
    ours = _session(network.read_bytes(), wide=True, int8=True, **options)
    plain = _session(network.read_bytes(), wide=True)
    assert counts()[0] == 1
    draw = np.random.default_rng(7)
    for _ in range(5):
        x = draw.uniform(-1, 4, (1, 3, 9, 9)).astype(np.float32)
        assert np.array_equal(ours.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])


def test_another_model_stays_with_the_runtime(folder, counts):
    """With one changed weight, the first part does not match the bundle; the second does."""
    content = _network(weight=1).SerializeToString()
    ours, plain = _session(content, **_options(folder)), _session(content)
    x = np.random.default_rng(3).uniform(-2, 2, (1, 3, 6, 6)).astype(np.float32)
    assert np.array_equal(ours.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])
    assert counts()[0] == 1


def test_another_network_stays_with_the_runtime(folder, counts):
    content = _network(seed=4).SerializeToString()
    _session(content, **_options(folder))
    assert counts() == (0, 0)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"bundle": ""}, "matloom: options bundle and device must be given"),
        ({"bundle": "none.bundle"}, "matloom: bundle none.bundle cannot be read"),
        ({"device": "gpu"}, "matloom: device must be rtl:LIBRARY or uio:REGISTERS,MEMORY, not gpu"),
        ({"device": "uio:uio77,udmabuf77"}, "matloom: device uio:uio77,udmabuf77 cannot be opened"),
    ],
)
def test_files_that_cannot_be_opened(folder, changed, sentence):
    with pytest.raises(Exception, match=re.escape(sentence)) as caught:
        _session(_network().SerializeToString(), **_options(folder, **changed))
    assert type(caught.value).__module__.startswith("onnxruntime.")


def test_a_device_that_stops_answering(folder, tmp_path, monkeypatch):
    library = tmp_path / "failing.so"
    source = ROOT / "firmware" / "tests" / "failing_chip.c"
    command = ["gcc", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    monkeypatch.setenv("MATLOOM_SIMULATOR", str(folder / "chip.so"))
    monkeypatch.setenv("MATLOOM_ACCESSES", "30")
    ours = _session(_network().SerializeToString(), **_options(folder, device=f"rtl:{library}"))
    x = np.zeros((1, 3, 6, 6), np.float32)
    with pytest.raises(Exception, match="matloom: the engine's run failed: a register access"):
        ours.run(None, {"x": x})


def test_page(folder, monkeypatch, tmp_path):
    """Run the script of docs/plug-ins.md in its own process: a library registers only once."""
    text = (ROOT / "docs" / "plug-ins.md").read_text()
    _, script = re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "plugin").symlink_to(folder)
    shutil.copy(folder / "two.bundle", folder / "net.bundle")
    shutil.copy(folder / "two.onnx", tmp_path / "net.onnx")
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(1, 4, 6, 6)")


def test_published_network(folder, models, counts, tmp_path):
    """A ResNet-8: 16 of 19 nodes run on the engine, with ONNX Runtime's outputs in every bit."""
    network = models / "models" / "derived_onnx" / "resnet8_qop_s8s8_pc.onnx"
    bundle, said = onnxruntime_bundle(network, matloom.compile(network, "nano"))
    assert said == ["16 of 19 operators run on the engine"]
    (tmp_path / "net.bundle").write_bytes(bundle)
    content = network.read_bytes()
    ours = _session(content, **_options(folder, bundle=str(tmp_path / "net.bundle")))
    plain = _session(content)
    (given,) = ours.get_inputs()
    x = np.random.default_rng(5).uniform(-128, 128, given.shape).astype(np.float32)
    assert np.array_equal(ours.run(None, {given.name: x})[0], plain.run(None, {given.name: x})[0])
    assert counts()[0] == 1
