"""Quantised ONNX layers on the engine: equal to ONNX Runtime, without needless transposes."""

from collections import Counter

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
    attention,
    chain,
    expected,
    in_qdq,
    inputs,
    line,
    of_integers,
    residual,
)

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT


def check_results(session, content, samples, golden):
    """Compare a session with the results that `golden` gives for a file's content."""
    for x in samples:
        np.testing.assert_array_equal(session.run(x), golden(content, x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_chain_is_on_the_engine_and_equal(dtype):
    content = chain(dtype)
    program = matloom.compile(content, "nano", check="full")
    on_engine = {layer.operator for layer in program.layers if layer.where == "engine"}
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "FULLY_CONNECTED"} <= on_engine
    with matloom.load(program, device="model") as session:
        check_results(session, content, inputs((1, 3, 12, 10), 5), expected)


def is_loaded(content):
    """Return whether ONNX Runtime loads a file."""
    try:
        onnx_session(content)
    except RuntimeError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("opset", range(11, onnx.defs.onnx_opset_version() + 1))
@pytest.mark.parametrize("form", [lambda content: content, in_qdq], ids=["qoperator", "qdq"])
def test_every_version_of_the_operators_gives_the_same_results(form, opset):
    """ONNX Runtime optimises no QDQ network of a version that it does not know yet."""
    network = QuantisedFile([1, 3, 9, 8], np.uint8)
    network.weighted("QLinearConv", (8, 3, 3, 3), 0.0113411, (0.4127391, -3), bias=900)
    network.weighted("QLinearConv", (8, 1, 3, 3), 0.0131137, (0.3071913, 5), group=8)
    network.move("Flatten")
    network.weighted("QLinearMatMul", (160, 5), 0.0171137, (1.1313737, 0))
    content = form(network.content(opset))
    with matloom.load(content, device="model", config="nano") as session:
        if form is not in_qdq or is_loaded(content):
            assert session.program.engine_macs == session.program.macs > 0
        for x in inputs((1, 3, 9, 8), 3):
            np.testing.assert_array_equal(session.run(x), expected(form(network.content()), x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("form", [lambda content: content, in_qdq], ids=["qoperator", "qdq"])
def test_products_of_two_computed_tensors_are_on_the_engine(form, dtype):
    content = form(attention(dtype))
    program = matloom.compile(content, "nano")
    kinds = Counter(layer.operator for layer in program.layers if layer.where == "engine")
    # Keys are read transposed; heads are moved as rows.
    assert (kinds["BATCH_MATMUL"], kinds["TRANSPOSE"]) == (2, 4)
    assert program.engine_macs == program.macs
    with matloom.load(program, device="model") as session:
        check_results(session, content, inputs((1, 9, 10), 5), of_integers)


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 1), (1, 0)])
def test_gemm_of_two_computed_tensors_is_on_the_engine(trans_a, trans_b):
    network = QuantisedFile([7, 7], np.uint8)
    network.weighted("QLinearMatMul", (7, 7), 0.0131137, (0.4127391, -3))
    first, quantised = network.last, network.quantised
    network.weighted("QLinearMatMul", (7, 7), 0.0171137, (0.2127391, 9))
    network.product(first, quantised, (2.7137131, 5), transA=trans_a, transB=trans_b)
    content = network.content()
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        assert session.program.engine_macs == session.program.macs == 3 * 7**3
        check_results(session, content, inputs((7, 7), 3), expected)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
def test_attention_on_the_chip_equals_onnx_runtime(preset):
    content = attention(np.uint8, tokens=33, heads=2, depth=16)
    with matloom.load(content, device="rtl", config=preset, exact=True) as session:
        check_results(session, content, inputs((1, 33, 32), 3), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_convolutions_over_one_dimension_are_on_the_engine_and_equal(dtype):
    content = line(dtype)
    program = matloom.compile(content, "nano", exact=True)
    assert program.engine_macs == program.macs
    with matloom.load(program, device="model") as session:
        check_results(session, content, inputs((1, 3, 23), 3), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(
    ("shape", "window"), [([1, 6, 7, 5], (3, 3)), ([1, 6, 9], (3,))], ids=["images", "lines"]
)
def test_groups_of_channels_are_on_the_engine_and_equal(shape, window, dtype):
    network = QuantisedFile(shape, dtype)
    network.weighted("QLinearConv", (12, 2, *window), 0.0113411, (0.4127391, -3), bias=99, group=3)
    network.weighted("QLinearConv", (4, 6, *window), 0.0091137, (0.8391173, 9), group=2)
    content = network.content()
    program = matloom.compile(content, "nano", exact=True)
    kinds = Counter(layer.operator for layer in program.layers if layer.where == "engine")
    assert kinds["CONV_2D"] == 3 + 2
    assert program.engine_macs == program.macs
    with matloom.load(program, device="model") as session:
        check_results(session, content, inputs(tuple(shape), 3), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("form", [lambda content: content, in_qdq], ids=["qoperator", "qdq"])
def test_sums_and_averages_are_on_the_engine(form, dtype):
    content = form(residual(dtype))
    program = matloom.compile(content, "nano")
    kinds = Counter(layer.operator for layer in program.layers if layer.where == "engine")
    assert kinds["ADD"] == kinds["DEPTHWISE_CONV_2D"] == kinds["FULLY_CONNECTED"] == 1
    # ONNX Runtime transposes the input, whose channels are in front.
    assert kinds["TRANSPOSE"] == 0
    with matloom.load(program, device="model") as session:
        check_results(session, content, inputs((1, 4, 6, 5), 5), of_integers)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("kept", [0, 1])
def test_means_of_floats_are_on_the_engine(kept, dtype):
    """ONNX Runtime leaves ReduceMean of QDQ networks in floating point."""
    network = QuantisedFile([1, 4, 7, 5], dtype)
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    real = network.add("DequantizeLinear", [network.last, *network.quantised])
    mean = network.add("ReduceMean", [real], axes=[2, 3], keepdims=kept)
    network.quantised = network.quantisation(0.2117131, 4)
    network.last = network.add("QuantizeLinear", [mean, *network.quantised])
    network.move("Flatten")
    network.weighted("QLinearMatMul", (8, 5), 0.0171137, (1.1313737, 0))
    content = network.content()
    program = matloom.compile(content, "nano")
    layers = {layer.operator: layer for layer in program.layers}
    assert "ReduceMean" not in layers
    assert layers["DEPTHWISE_CONV_2D"].where == "engine"
    with matloom.load(program, device="model") as session:
        check_results(session, content, inputs((1, 4, 7, 5), 5), expected)


@pytest.mark.parametrize(
    ("shape", "axes", "kept"),
    [((5, 12), [-1], 1), ((2, 5, 12), [1], 0), ((2, 3, 5, 4), [2, 3], 1), ((7, 3, 4), [0], 1)],
)
@pytest.mark.parametrize(("op", "opset"), [("ReduceMean", 17), ("ReduceSum", 12)])
def test_sums_over_other_axes_are_on_the_engine(shape, axes, kept, op, opset):
    """Of rows, as in a normalisation, of tokens, and over the first axis."""
    network = QuantisedFile(list(shape), np.int8)
    network.weighted("QLinearMatMul", (shape[-1], shape[-1]), 0.0171137, (0.1127391, -3))
    real = network.add("DequantizeLinear", [network.last, *network.quantised])
    mean = network.add(op, [real], axes=axes, keepdims=kept)
    network.quantised = network.quantisation(0.0517131 * (1 if op == "ReduceMean" else 9), 4)
    network.last = network.add("QuantizeLinear", [mean, *network.quantised])
    content = network.content(opset)
    program = matloom.compile(content, "nano")
    layers = {layer.operator: layer for layer in program.layers}
    assert op not in layers
    assert all(layer.where == "engine" for layer in program.layers if layer.macs)
    with matloom.load(program, device="model") as session:
        check_results(session, content, inputs(shape, 5), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_joins_and_functions_of_bytes_are_equal(dtype):
    network = QuantisedFile([1, 4, 6, 5], dtype)
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    first, quantised = network.last, network.quantised
    network.weighted("QLinearConv", (8, 8, 1, 1), 0.0091137, (0.8391173, 9))
    network.join(first, quantised, (0.9131713, -11), 1)
    network.function("QLinearLeakyRelu", (0.8131717, 21), alpha=0.1)
    network.function("QLinearSigmoid", (1 / 256, -128))
    network.weighted("QLinearConv", (4, 16, 1, 1), 0.0113411, (0.0427391, -3))
    content = network.content()
    graph = frontend.load(content)
    operators = [node.op for node in graph.nodes]
    assert operators.count(Op.CONCATENATION) == 1
    # The LEAKY_RELU, whose slopes round twice where it is an operator of the graph.
    assert operators.count(Op.LOOKUP) == 1
    assert operators.count(Op.TRANSPOSE) == 0
    with matloom.load(content, device="model", config="nano") as session:
        check_results(session, content, inputs((1, 4, 6, 5), 5), expected)


def functions(dtype):
    """Return layers with activations between them, which ONNX Runtime computes in floats."""
    network = QuantisedFile([1, 4, 6, 5], dtype)
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.0412739, -3))
    for op in ("Tanh", "HardSwish", "Mul", "Sigmoid"):
        network.move("DequantizeLinear", *network.quantised)
        factor = {"Mul": [network.constant(np.float32(-0.37))]}.get(op, [])
        given = network.last
        network.move(op, *factor)
        if op == "Sigmoid":
            network.move("Mul", given)
        network.quantised = network.quantisation(0.0131717, 5)
        network.move("QuantizeLinear", *network.quantised)
    given, constant = network.quantised, network.constant(np.array(7, dtype))
    held = [constant, *network.quantisation(0.0371, -20)]
    network.quantised = network.quantisation(0.0071717, 5)
    names = [network.last, *given, *held, *network.quantised]
    network.last = network.add("QLinearMul", names, "com.microsoft")
    return network.content()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_functions_of_bytes_are_tables_of_the_engine(dtype):
    content = functions(dtype)
    program = matloom.compile(content, "small+tables=1")
    places = Counter((layer.operator, layer.where) for layer in program.layers)
    # The functions follow one another, so they share a table.
    assert places["LOOKUP", "engine"] == 1
    assert {name for name, where in places if where == "host"} == {
        "QuantizeLinear",
        "Transpose",
        "DequantizeLinear",
    }
    with matloom.load(program, device="model") as session:
        check_results(session, content, inputs((1, 4, 6, 5), 5), expected)


def test_moves_of_floats_between_equal_scales_are_moves_of_bytes():
    """ONNX Runtime leaves such moves in exact int8 QDQ networks on x86."""
    network = QuantisedFile([1, 4, 6, 5], np.int8)
    network.weighted("QLinearConv", (6, 4, 1, 1), 0.0113411, (0.0412739, -3))
    network.move("DequantizeLinear", *network.quantised)
    network.move("Transpose", perm=[0, 2, 3, 1])
    network.move("QuantizeLinear", *network.quantised)
    network.weighted("QLinearConv", (3, 6, 1, 1), 0.0117411, (0.0312739, 5))
    content = network.content()
    graph = frontend.load(content, exact=True)
    # The network's input and output.
    assert [node.op for node in graph.nodes].count(Op.REFERENCE) == 2
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        check_results(session, content, inputs((1, 4, 6, 5), 2), expected)


def test_a_function_of_two_tensors_is_no_table():
    network = QuantisedFile([1, 4, 6, 5], np.int8)
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.0113411, (0.0412739, -3))
    first, quantised = network.last, network.quantised
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.0113411, (0.0412739, -3))
    one, other = (
        network.add("DequantizeLinear", [name, *scale])
        for name, scale in ((first, quantised), (network.last, network.quantised))
    )
    network.last = network.add("Max", [one, other])
    network.quantised = network.quantisation(0.0131717, 5)
    network.move("QuantizeLinear", *network.quantised)
    content = network.content()
    operators = [node.op for node in frontend.load(content).nodes]
    assert Op.LOOKUP not in operators
    # ONNX Runtime reads both tensors with channels last.
    assert Op.TRANSPOSE not in operators
    with matloom.load(content, device="model", config="nano") as session:
        (x,) = inputs((1, 4, 6, 5), 1)
        np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_a_mask_with_an_infinite_scale_computes_what_onnx_runtime_does():
    """ONNX Runtime's tools give a mask of negative infinity such a scale."""
    network = QuantisedFile([1, 4, 6, 6], np.int8)
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.0113411, (0.0412739, -3))
    network.move("DequantizeLinear", *network.quantised)
    infinite = network.quantisation(np.inf, 0)
    mask = network.constant(np.triu(np.full((6, 6), -127, np.int8), 1))
    network.last = network.add(
        "Add", [network.last, network.add("DequantizeLinear", [mask, *infinite])]
    )
    network.move("QuantizeLinear", *infinite)
    network.move("DequantizeLinear", *infinite)
    network.move("Softmax", axis=-1)
    network.quantised = network.quantisation(1 / 255, -128)
    network.move("QuantizeLinear", *network.quantised)
    content = network.content()
    with matloom.load(content, device="model", config="nano") as session:
        check_results(session, content, inputs((1, 4, 6, 6), 3), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_qdq_is_on_the_engine(dtype):
    content = in_qdq(chain(dtype))
    program = matloom.compile(content, "nano")
    elsewhere = {layer.operator for layer in program.layers if layer.where == "host"}
    # QUANTIZE from uint8 and to it, without tables on the engine.
    assert elsewhere - {"QUANTIZE"} == {"QuantizeLinear", "Transpose", "DequantizeLinear"}
    with matloom.load(program, device="model") as session:
        check_results(session, content, inputs((1, 3, 12, 10), 5), of_integers)


def test_each_reader_may_state_a_zero_point_of_its_own():
    network = QuantisedFile([1, 4, 6, 5], np.int8)
    network.weighted("QLinearConv", (8, 4, 3, 3), 0.0113411, (0.4127391, -3))
    network.quantised = network.quantisation(0.4127391, 17)
    network.weighted("QLinearConv", (8, 8, 3, 3), 0.0091137, (0.8391173, 9))
    content = network.content()
    with matloom.load(content, device="model", config="nano") as session:
        (x,) = inputs((1, 4, 6, 5), 1)
        np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_a_chain_on_the_chip():
    content = chain(np.uint8)
    (x,) = inputs((1, 3, 12, 10), 1)
    with matloom.load(content, device="rtl", config="nano") as session:
        np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_no_transpose_between_layers():
    """ONNX Runtime transposes the input; later weights follow the graph's order."""
    operators = Counter(node.op for node in frontend.load(chain(np.int8)).nodes)
    assert operators[Op.TRANSPOSE] == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_layers_are_compared_one_by_one(dtype):
    """Tensors of the engine hold values of the file with other axes and as int8."""
    found = compare(residual(dtype), samples=2)
    kinds = {layer.operator.split("(")[-1].rstrip(")") for layer in found.layers if layer.elements}
    assert kinds >= {"CONV_2D", "ADD", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}
    assert found.equal


def test_a_layer_that_differs_is_named():
    content = chain(np.int8)
    (x,) = inputs((1, 3, 12, 10), 1)

    def with_a_fault(given):
        found = interpret(graph, dict(given), keep=True)
        (at,) = (node.outputs[0] for node in graph.nodes if node.op is Op.MAX_POOL_2D)
        return {**found, at: found[at] ^ (np.arange(found[at].shape[-1]) == 2).astype(np.int8)}

    graph = frontend.load(content)
    found = compare(content, {"x": x}, with_a_fault)
    assert "MAX_POOL_2D" in found.first.operator
    assert found.first.index == (0, 0, 0, 2)


def test_transposes_of_the_file_meet_those_of_the_layout():
    network = QuantisedFile([1, 9, 8, 4], np.int8)
    network.move("Transpose", perm=[0, 3, 1, 2])
    network.weighted("QLinearConv", (4, 4, 3, 3), 0.0113411, (0.4127391, -3))
    network.move("Transpose", perm=[0, 2, 3, 1])
    graph = frontend.load(network.content())
    assert Counter(node.op for node in graph.nodes)[Op.TRANSPOSE] == 0
    assert compare(network.content()).equal
