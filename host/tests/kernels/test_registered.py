"""Registered operators in TensorFlow Lite and ONNX files, and all kinds of mismatch.

Expected numbers come from the operators' own definitions in NumPy.
"""

import numpy as np
import pytest
import tflite
from flatbuffers import flexbuffers

import matloom
from matloom.errors import UserError
from matloom.frontend.errors import ModelError
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Arithmetic
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.kernels.cut import plain_model, serialise

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")

NAME = "Positive"
SHAPE = (1, 3, 4, 4)
FAST = {"device": "model", "config": "nano", "check": "full"}
X = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)


def same(x, **attributes):
    return x


def positive(use, x):
    return np.maximum(x, np.int8(use.inputs[0].zero_point))


def as_relu(use, builder, x):
    return builder.add(Op.RELU, [x])


@pytest.fixture(autouse=True)
def forgotten():
    """Unregister the operators of a test."""
    yield
    for name in (NAME, "com.example.Shift"):
        try:
            matloom.unregister_operator(name)
        except UserError:
            continue


def file(options=b""):
    """Return a file with RELU, a custom operator instead of a second RELU, and RELU6."""
    builder = GraphBuilder()
    x = builder.input("x", SHAPE, "int8", Quantisation(scale=(0.1,), zero_point=(-10,)))
    inner = builder.add(Op.RELU6, [builder.add(Op.RELU, [builder.add(Op.RELU6, [x])])])
    model = plain_model(write_tflite(builder.graph(inner)), "ai-edge-litert")
    for code in model.operatorCodes:
        if code.builtinCode == tflite.BuiltinOperator.RELU:
            code.builtinCode = code.deprecatedBuiltinCode = tflite.BuiltinOperator.CUSTOM
            code.customCode = NAME.encode()
    model.subgraphs[0].operators[1].customOptions = np.frombuffer(options, np.uint8)
    return serialise(model)


def run(content, x=X):
    with matloom.load(content, **FAST) as session:
        return session.run(x), session.program


@pytest.mark.parametrize("stages", [None, as_relu])
def test_a_custom_operator_runs(stages):
    matloom.register_operator(NAME, shape=same, kernel=positive, stages=stages)
    found, program = run(file())
    np.testing.assert_array_equal(found, np.clip(X, -10, 50))
    places = [layer.where for layer in program.layers]
    assert places == ["engine", "engine" if stages else "host", "engine"]
    reasons = " ".join(layer.reason for layer in program.layers)
    assert ("on the kernel that is registered for it" in reasons) == (stages is None)


def test_attributes_reach_shape_and_kernel():
    seen = []

    def noted(x, **attributes):
        seen.append(attributes)
        return x

    def kernel(use, x):
        assert use.attributes == seen[-1]
        return positive(use, x)

    matloom.register_operator(NAME, shape=noted, kernel=kernel)
    run(file(bytes(flexbuffers.Dumps({"k": 3, "names": ["a", "b"]}))))
    assert seen[-1] == {"k": 3, "names": ["a", "b"]}
    run(file(b"\x01plain\xff"))
    assert seen[-1] == {"options": b"\x01plain\xff"}


def test_a_program_s_file_runs_where_the_operator_is_registered():
    matloom.register_operator(NAME, shape=same, kernel=positive)
    program = matloom.Program.from_bytes(matloom.compile(file(), "nano").to_bytes())
    with matloom.load(program, device="model") as session:
        np.testing.assert_array_equal(session.run(X), np.clip(X, -10, 50))
    matloom.unregister_operator(NAME)
    with pytest.raises(UserError, match=f"{NAME} is not registered here") as told:
        matloom.load(program, device="model")
    assert "register_operator" in told.value.hint


def test_without_registration_the_file_is_refused_as_before():
    with pytest.raises(UserError, match=f"{NAME} must run on a reference interpreter"):
        matloom.compile(file(), "nano")


def wrong(use, builder, x):
    return builder.add(Op.RELU6, [x])


def no_operator(use, builder, x):
    return x


def rescaled(use, builder, x):
    scale = Quantisation(scale=(0.2,), zero_point=(0,))
    return builder.add(Op.QUANTIZE, [x], quantisation=scale)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"shape": lambda x: (1, 2)}, r"must return \(1, 3, 4, 4\), as the file declares, not"),
        ({"shape": lambda x: 7}, "must return a tuple of sizes, or a list of such tuples, not 7"),
        ({"shape": lambda x: x[9]}, f"shape of {NAME} failed: IndexError"),
        ({"kernel": lambda use, x: x[0]}, r"must return int8 \(1, 3, 4, 4\), not int8 \(3, 4, 4\)"),
        ({"kernel": lambda use, x: x / 2}, r"must return int8 .*, not float64"),
        ({"kernel": lambda use: 0}, f"kernel of {NAME} failed: TypeError"),
        ({"stages": wrong}, "must give what its kernel gives: .*elements differ"),
        ({"stages": no_operator}, "must make each output by an operator"),
        ({"stages": rescaled}, "must make int8 .* of scale .*, not int8 .* of scale"),
        ({"stages": lambda use, builder, x: builder.add(Op.RELU, [99])}, "failed: KeyError: 99"),
    ],
)
def test_oversized_programs_are_refused_at_load(change, sentence):
    matloom.register_operator(NAME, **{"shape": same, "kernel": positive, **change})
    with pytest.raises(ModelError, match=sentence) as told:
        matloom.compile(file(), "nano")
    assert "operator 1" in str(told.value)
    assert "\n" not in str(told.value)


def test_names_are_registered_once():
    matloom.register_operator(NAME, shape=same, kernel=positive)
    with pytest.raises(UserError, match="is registered already"):
        matloom.register_operator(NAME, shape=same, kernel=positive)
    with pytest.raises(UserError, match="CONV_2D is an operator of Matloom"):
        matloom.register_operator("CONV_2D", shape=same, kernel=positive)
    with pytest.raises(UserError, match="must be a string, not ''"):
        matloom.register_operator("", shape=same, kernel=positive)
    matloom.unregister_operator(NAME)
    with pytest.raises(UserError, match=f"{NAME} is not registered"):
        matloom.unregister_operator(NAME)


def shift(use, x, by):
    return x + by * np.float32(use.attributes["times"])


def as_sum(use, builder, x, by):
    times = use.attributes["times"]
    moved = builder.constant(use.inputs[1].data * np.float32(times))
    return builder.add(Op.ADD, [x, moved], Arithmetic())


@pytest.mark.parametrize("stages", [None, as_sum])
def test_a_node_of_another_domain_runs(stages):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info("x", kind, ["n", 4])]
    ends.append(helper.make_tensor_value_info("y", kind, None))
    by = np.arange(4, dtype=np.float32)
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Shift", ["a", "by"], ["b"], domain="com.example", times=2.0),
        helper.make_node("Abs", ["b"], ["y"]),
    ]
    held = [onnx.numpy_helper.from_array(by, "by")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], held)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    content = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    matloom.register_operator(
        "com.example.Shift", shape=lambda x, by, times: x, kernel=shift, stages=stages
    )
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    with matloom.load(content, dims={"n": 3}, **FAST) as session:
        np.testing.assert_array_equal(session.run(x), np.abs(-x + 2 * by))
    matloom.unregister_operator("com.example.Shift")
    matloom.register_operator("com.example.Shift", shape=lambda x, by, times: (1,), kernel=shift)
    with pytest.raises(ModelError, match=r"kernel of com.example.Shift must return float32 \(1,\)"):
        matloom.compile(content, "nano", dims={"n": 3})
