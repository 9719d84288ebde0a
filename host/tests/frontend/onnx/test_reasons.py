"""Why operators stay on ONNX Runtime, as `explain` says it."""

import numpy as np
import pytest

import matloom

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

SCALES = {"scale": np.float32(0.05), "zero": np.int8(3), "other": np.float32(0.03)}


def file_of(op, weights, attributes):
    """Return a file with one operator between DequantizeLinear and QuantizeLinear."""
    from onnx import TensorProto, helper, numpy_helper

    arrays = SCALES | {f"weight_{at}": each for at, each in enumerate(weights)}
    inputs = ["real", *(f"weight_{at}" for at in range(len(weights)))]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["bytes"]),
        helper.make_node("DequantizeLinear", ["bytes", "scale", "zero"], ["real"]),
        helper.make_node(op, inputs, ["result"], **attributes),
        helper.make_node("QuantizeLinear", ["result", "other", "zero"], ["result bytes"]),
        helper.make_node("DequantizeLinear", ["result bytes", "other", "zero"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8, 16)) for name in "xy"]
    constants = [numpy_helper.from_array(np.array(each), name) for name, each in arrays.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


@pytest.mark.parametrize(
    ("op", "weights", "attributes"),
    [
        ("LayerNormalization", (np.ones(16, np.float32),) * 2, {}),
        ("InstanceNormalization", (np.ones(8, np.float32),) * 2, {}),
        ("LogSoftmax", (), {}),
        ("Softmax", (), {}),
    ],
)
def test_an_operator_in_floating_point_says_that_quantise_changes_it(
    op, weights, attributes, tmp_path
):
    path = tmp_path / "net.onnx"
    path.write_bytes(file_of(op, weights, attributes))
    reasons = {layer.operator: layer.reason for layer in matloom.compile(path, "nano").layers}
    assert reasons[op].startswith(
        f"{op} computes in floating point; matloom quantise makes it an integer operator"
    )
    for edge in ("QuantizeLinear", "DequantizeLinear"):
        assert reasons[edge].startswith(f"{edge} converts between floating point and integers")


def test_an_unknown_operator_has_no_kernel(tmp_path):
    """Another reason would promise what `quantise` does not do."""
    path = tmp_path / "net.onnx"
    path.write_bytes(file_of("CumSum", (np.int64(2),), {}))
    reasons = {layer.operator: layer.reason for layer in matloom.compile(path, "nano").layers}
    assert reasons["CumSum"].startswith("CumSum has no kernel here")
