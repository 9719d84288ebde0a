"""Scripts for other runtimes print the same after one import has changed."""

import functools
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from matloom.data.digits import NETWORK

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "drop_in"

#: How each script names its runtime: the line of Matloom, and the original's.
IMPORTS = {
    "classify_image": (
        "from matloom.compat import onnxruntime as ort",
        "import onnxruntime as ort",
    ),
    "spot_keyword": (
        "from matloom.compat.litert import Interpreter",
        "from ai_edge_litert.interpreter import Interpreter",
    ),
}


@pytest.fixture(autouse=True)
def functional_model(monkeypatch):
    monkeypatch.setenv("MATLOOM_DEVICE", "model")
    monkeypatch.setenv("MATLOOM_CONFIG", "nano")
    monkeypatch.setenv("MATLOOM_CHECK", "none")


@pytest.fixture
def output(monkeypatch, tmp_path, capsys):
    """Return a function that runs a script, with Matloom's import or the original one."""

    def run(name, original, *arguments):
        text = (EXAMPLES / f"{name}.py").read_text()
        mine, theirs = IMPORTS[name]
        assert len(re.findall(rf"^{re.escape(mine)}\b.*$", text, re.M)) == 1
        assert text.count("matloom") == text.count(mine) == 1
        if original:
            text = text.replace(mine, theirs)
        script = tmp_path / "script.py"
        script.write_text(text)
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        runpy.run_path(str(script), run_name="__main__")
        return capsys.readouterr().out

    return run


def classifier(onnx):
    """Return the file of a small network for 16x16 pictures, whose batch axis has a name."""
    helper, draw = onnx.helper, np.random.default_rng(4)
    held = {
        "w": draw.standard_normal((6, 3, 3, 3)).astype(np.float32),
        "d": draw.standard_normal((6, 12)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "d"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3, 16, 16])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 12])
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def test_images_are_classified_as_by_onnx_runtime(output, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (tmp_path / "net.onnx").write_bytes(classifier(onnx))
    pixels = np.random.default_rng(5).integers(0, 256, (40, 30, 3)).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "picture.png")
    arguments = [tmp_path / "net.onnx", tmp_path / "picture.png"]
    mine, theirs = (output("classify_image", original, *arguments) for original in (False, True))
    assert mine == theirs
    assert len(re.findall(r"^class \d+: 0\.\d{6}$", mine, re.M)) == 5


@pytest.fixture
def reference_kernels(monkeypatch):
    """Make LiteRT use its reference kernels; its optimised ones can differ by one step."""
    litert = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="ai-edge-litert is not installed"
    )
    chosen = litert.OpResolverType.BUILTIN_REF
    made = functools.partial(litert.Interpreter, experimental_op_resolver_type=chosen)
    monkeypatch.setattr(litert, "Interpreter", made)


@pytest.mark.usefixtures("reference_kernels")
def test_keywords_are_spotted_as_by_litert(output, tmp_path):
    windows = np.random.default_rng(6).integers(-128, 128, (3, 64)).astype(np.int8)
    np.save(tmp_path / "features.npy", windows)
    arguments = [NETWORK, tmp_path / "features.npy", "--threshold", "0.1"]
    mine, theirs = (output("spot_keyword", original, *arguments) for original in (False, True))
    assert mine == theirs
    assert len(re.findall(r"^window \d: .*, class \d with 0\.\d{4}$", mine, re.M)) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("reference_kernels")
def test_a_published_network_spots_the_words_that_litert_finds(output, tmp_path, models):
    golden = np.load(models / "golden" / "mlperf_tiny__kws_ref_model.npz")
    windows = golden[next(iter(golden))]
    np.save(tmp_path / "features.npy", windows.reshape(len(windows), -1))
    network = models / "models" / "mlperf_tiny" / "kws_ref_model.tflite"
    arguments = [network, tmp_path / "features.npy"]
    mine, theirs = (output("spot_keyword", original, *arguments) for original in (False, True))
    assert mine == theirs
