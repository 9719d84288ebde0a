"""What is proven equal to ONNX Runtime, what can differ and by how much, and the option `exact`."""

import re

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.kernels.onnx_sessions import onnx_session
from matloom.tools.compare import compare
from support.quantised_onnx import (
    QuantisedFile,
    expected,
    in_qdq,
    inputs,
    residual,
)

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT


def twice(shared):
    """Return two layers of uint8 and the same weights, as one constant or as two, in QDQ."""
    network = QuantisedFile([3, 8], np.uint8)
    for _ in range(2):
        network.random = np.random.default_rng(5)
        network.weighted("QLinearMatMul", (8, 8), 0.0131137, (0.0313717, 7))
    first, second = (node for node in network.nodes if node.op_type == "QLinearMatMul")
    if shared:
        second.input[3:6] = first.input[3:6]
    return in_qdq(network.content())


def test_shared_weights_do_not_saturate():
    """ONNX Runtime alone would take kernels that saturate, without VNNI."""
    content = twice(shared=True)
    given = np.random.default_rng(8).standard_normal((3, 8)).astype(np.float32) * 9
    wanted = expected(twice(shared=False), given)
    np.testing.assert_array_equal(expected(content, given), wanted)
    with matloom.load(content, device="fast", config="nano", exact=True, check="none") as session:
        np.testing.assert_array_equal(session.run(given), wanted)


@pytest.mark.parametrize(("made", "there"), [(0.4127391, False), (0.3911713, True)])
def test_averages_that_are_halves_too_often_stay_with_onnx_runtime(made, there):
    network = QuantisedFile([1, 4, 6, 6], np.int8)
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    network.function("QLinearAveragePool", (made, -3), kernel_shape=[2, 2], strides=[2, 2])
    content = network.content()
    graph = frontend.load(content)
    assert (Op.DEPTHWISE_CONV_2D in [node.op for node in graph.nodes]) == there
    with matloom.load(content, device="model", config="nano") as session:
        for x in inputs((1, 4, 6, 6), 5):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_exact_qdq_equals_onnx_runtime():
    content = in_qdq(residual(np.int8))
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        for x in inputs((1, 4, 6, 5), 5):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


def pairs_file(scales, zeros, constant=None):
    """Return a QLinearAdd of two inputs, or of one input and a constant for each column."""
    kind, arrays = onnx.TensorProto.INT8, {}
    for at, (scale, zero) in enumerate(zip(scales, zeros, strict=True)):
        arrays[f"s{at}"], arrays[f"z{at}"] = np.float32(scale), np.int8(zero)
    names = ["a", "s0", "z0", "b", "s1", "z1", "s2", "z2"]
    ends = {name: helper.make_tensor_value_info(name, kind, [256, 256]) for name in "aby"}
    if constant is not None:
        arrays["b"] = constant
    node = helper.make_node("QLinearAdd", names, ["y"], domain="com.microsoft")
    given = [ends["a"]] if constant is not None else [ends["a"], ends["b"]]
    tensors = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()]
    graph = helper.make_graph([node], "net", given, [ends["y"]], tensors)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


@pytest.mark.parametrize(
    ("scales", "zeros"),
    [
        ((0.0313717, 0.0471131, 0.0613177), (3, -7, 12)),
        ((0.0063741, 0.0104364, 0.0063170), (-128, 21, -128)),
    ],
)
def test_the_stated_number_of_sums_differs(scales, zeros):
    every = np.arange(-128, 128).astype(np.int8)
    first, second = np.meshgrid(every, every)
    content = pairs_file(scales, zeros)
    graph = frontend.load(content)
    found = interpret(graph, dict(zip(graph.inputs, (first, second), strict=True)))
    wanted = onnx_session(content).run(None, {"a": first, "b": second})[0]
    differing = int((found[graph.outputs[0]] != wanted).sum())
    (remark,) = graph.remarks.values()
    if differing:
        assert f"in {differing:,} of 65,536 pairs of inputs" in remark
    else:
        assert remark == "proven equal to ONNX Runtime"


@pytest.mark.parametrize(
    ("scales", "zeros"), [((0.5, 0.25, 0.5), (0, 0, 0)), ((0.75, 0.25, 1.5), (-5, 4, 9))]
)
def test_sums_that_are_halves_are_left_to_onnxruntime(scales, zeros):
    """ONNX Runtime rounds half of these ties differently, so more than 1 in 100 would differ."""
    every = np.arange(-128, 128).astype(np.int8)
    first, second = np.meshgrid(every, every)
    content = pairs_file(scales, zeros)
    graph = frontend.load(content)
    assert not graph.remarks
    assert [node.op for node in graph.nodes] == ["REFERENCE"]
    found = interpret(graph, dict(zip(graph.inputs, (first, second), strict=True)))
    wanted = onnx_session(content).run(None, {"a": first, "b": second})[0]
    assert np.array_equal(found[graph.outputs[0]], wanted)


def test_a_constant_is_added_to_each_byte_that_it_can_meet():
    every = np.arange(-128, 128).astype(np.int8)
    given = np.repeat(every, 256).reshape(256, 256)
    content = pairs_file((0.0313717, 0.0471131, 0.0613177), (3, -7, 12), every[::-1].copy())
    graph = frontend.load(content)
    found = interpret(graph, {graph.inputs[0]: given})[graph.outputs[0]]
    assert [node.op for node in graph.nodes].count(Op.ADD) == 1
    np.testing.assert_array_equal(found, onnx_session(content).run(None, {"a": given})[0])


def halves():
    """Return a layer whose sums are ties, which ONNX rounds to even, and another layer."""
    network = QuantisedFile([1, 4, 6, 6], np.int8)
    network.quantised = network.quantisation(0.5, 0)
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.25, (0.25, 0))
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.0131137, (0.3071913, 0))
    return network.content()


def test_a_layer_that_cannot_be_proven_says_how_many_sums_can_differ():
    program = matloom.compile(halves(), "nano")
    reasons = [layer.reason for layer in program.layers if layer.where == "engine" and layer.reason]
    assert re.fullmatch(
        r"can differ from ONNX Runtime by one step in [\d,]+ of [\d,]+ sums, in 4 of 4 channels",
        reasons[0],
    )
    assert reasons[1] == "proven equal to ONNX Runtime"


def test_a_file_may_ask_for_exactness_itself():
    """The option --exact writes such a file for every command."""
    content = halves()
    asked = frontend.reshape(content, exact=True)
    operators = [[node.op for node in frontend.load(each).nodes] for each in (content, asked)]
    assert [each.count(Op.CONV_2D) for each in operators] == [2, 1]
    assert len(frontend.load(content, exact=True).nodes) == len(operators[1])


def test_exact_leaves_a_layer_that_cannot_be_proven_to_onnx_runtime():
    content = halves()
    program = matloom.compile(content, "nano", exact=True)
    reasons = [layer.reason for layer in program.layers if layer.operator == "QLinearConv"]
    assert len(reasons) == 1
    assert "QLinearConv can differ from ONNX Runtime by one step" in reasons[0]
    assert [layer.operator for layer in program.layers if layer.where == "engine"] != []
    with matloom.load(program, device="model") as session:
        for x in inputs((1, 4, 6, 6), 5):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_channels_that_cannot_be_proven_leave_alone(dtype, groups):
    network = QuantisedFile([1, 8, 6, 5], dtype)
    network.quantised = network.quantisation(0.5, 3)
    scales = [0.25, 0.0131137, 0.25, *[0.0217131] * 5]
    shape, bias = (8, 8 // groups, 3, 3), 300
    more = {"pads": [1, 1, 1, 1], "group": groups}
    network.weighted("QLinearConv", shape, scales, (0.25, -7), bias=bias, **more)
    network.weighted("QLinearConv", (4, 8, 1, 1), 0.0131137, (0.3071913, 0))
    content = network.content()
    graph = frontend.load(content, exact=True)
    remark = "proven equal to ONNX Runtime, which runs 2 of 8 channels"
    assert sorted(graph.remarks.values()) == ["proven equal to ONNX Runtime", remark]
    operators = [node.op for node in graph.nodes]
    assert operators.count(Op.TRANSPOSE) == 0
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        for x in inputs((1, 8, 6, 5), 3):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_no_difference_is_silent(dtype):
    """The first layer that differs is one of which `explain` says so, and how often it can."""
    network = QuantisedFile([1, 4, 12, 12], dtype)
    network.quantised = network.quantisation(0.5, 3)
    pads = {"pads": [1, 1, 1, 1]}
    network.weighted("QLinearConv", (8, 4, 3, 3), [0.1131137] * 8, (4.0, 5), **pads)
    # One sum in 256 is half-way between two results.
    network.weighted("QLinearConv", (8, 8, 3, 3), [0.25] * 8, (256.0, -7), **pads)
    network.weighted("QLinearConv", (4, 8, 1, 1), [0.0131137] * 4, (73.1713717, 0))
    content = network.content()
    can, *proven = sorted(frontend.load(content).remarks.values())
    assert can.startswith("can differ from ONNX Runtime by one step in ")
    assert proven == ["proven equal to ONNX Runtime"] * 2
    found = compare(content, samples=4)
    assert "CONV_2D" in found.first.operator
    assert found.first.expected - found.first.given in (-1, 1)
    assert f"CONV_2D {can}; --exact leaves such layers" in str(found)


@pytest.mark.parametrize("op", ["QLinearMatMul", "QGemm"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_columns_that_cannot_be_proven_leave_alone(dtype, op):
    network = QuantisedFile([3, 8], dtype)
    network.quantised = network.quantisation(0.5, 3)
    scales = [0.25, 0.0131137, 0.25, *[0.0217131] * 5]
    network.weighted("QLinearMatMul", (8, 8), scales, (0.25, -7))
    if op == "QGemm":
        node = network.nodes[-1]
        node.op_type, node.domain = op, "com.microsoft"
        node.input.insert(6, network.constant(np.arange(-4, 4, dtype=np.int32) * 31))
    content = network.content()
    graph = frontend.load(content, exact=True)
    assert [*graph.remarks.values()] == ["proven equal to ONNX Runtime, which runs 2 of 8 channels"]
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        assert session.program.engine_macs == session.program.macs
        for x in inputs((3, 8), 3):
            np.testing.assert_array_equal(session.run(x), expected(content, x))
