"""Quantised ONNX layers on the engine: equal to ONNX Runtime, without needless transposes.

Expected numbers are ONNX Runtime's, with sums that do not saturate (`onnx_session`).
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.kernels.onnx_sessions import onnx_session, optimised_onnx
from matloom.tools.bench import collection
from matloom.tools.compare import compare

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT


class Network:
    """A chain of quantised operators between QuantizeLinear and DequantizeLinear.

    Scales have many digits, as in real networks; ratios of short ones are exact halves too often.
    """

    def __init__(self, shape, dtype, seed=0):
        self.random, self.dtype = np.random.default_rng(seed), dtype
        self.constants, self.nodes = {}, []
        self.input = helper.make_tensor_value_info("x", FLOAT, shape)
        self.last = self.add("QuantizeLinear", ["x", *self.quantisation(0.0313717, 7)])

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def quantisation(self, scale, zero):
        zero += 128 if self.dtype == np.uint8 else 0
        return [self.constant(np.array(scale, np.float32)), self.constant(self.dtype(zero))]

    def add(self, op, inputs, domain="", **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], domain=domain, **attributes))
        return name

    def weighted(self, op, shape, scales, made, *, bias=None, **attributes):
        """Add a layer whose weights have a scale for each channel."""
        given = self.quantised
        weights = self.random.integers(-127, 128, shape, np.int8)
        zeros = np.zeros(np.shape(scales), np.int8)
        held = [weights, np.array(scales, np.float32), zeros]
        self.quantised = self.quantisation(*made)
        names = [self.last, *given, *map(self.constant, held), *self.quantised]
        if bias is not None:
            names.append(self.constant(self.random.integers(-bias, bias, shape[0], np.int32)))
        self.last = self.add(op, names, **attributes)

    def move(self, op, *more, **attributes):
        self.last = self.add(op, [self.last, *more], **attributes)

    def sum(self, other, quantised, made):
        """Add an earlier tensor to the current one."""
        names = [self.last, *self.quantised, other, *quantised]
        self.quantised = self.quantisation(*made)
        self.last = self.add("QLinearAdd", [*names, *self.quantised], "com.microsoft")

    def average(self, op, made, **attributes):
        names = [self.last, *self.quantised]
        self.quantised = self.quantisation(*made)
        self.last = self.add(op, [*names, *self.quantised], "com.microsoft", **attributes)

    def function(self, op, made, **attributes):
        names = [self.last, *self.quantised]
        self.quantised = self.quantisation(*made)
        self.last = self.add(op, [*names, *self.quantised], "com.microsoft", **attributes)

    def join(self, other, quantised, made, axis):
        """Concatenate an earlier tensor with the current one."""
        parts = [self.last, *self.quantised, other, *quantised]
        self.quantised = self.quantisation(*made)
        names = [*self.quantised, *parts]
        self.last = self.add("QLinearConcat", names, "com.microsoft", axis=axis)

    def file(self):
        y = self.add("DequantizeLinear", [self.last, *self.quantised])
        made = helper.make_tensor_value_info(y, FLOAT, None)
        given = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "net", [self.input], [made], given)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        return onnx.shape_inference.infer_shapes(model).SerializeToString()

    @property
    def quantised(self):
        """Scale and zero point of the last tensor."""
        return self._quantised

    @quantised.setter
    def quantised(self, names):
        self._quantised = names


def chain(dtype):
    """Return convolutions, a depthwise one, a pool, a flattening and a product."""
    network = Network([1, 3, 12, 10], dtype)
    network.quantised = network.nodes[0].input[1:]
    around = {"bias": 900, "pads": [1, 0, 1, 2]}
    network.weighted("QLinearConv", (8, 3, 3, 3), 0.0113411, (0.4127391, -3), **around)
    network.move("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    apart = {"group": 8, "strides": [2, 1]}
    network.weighted("QLinearConv", (8, 1, 3, 3), 0.0131137, (0.3071913, 5), **apart)
    same = {"auto_pad": b"SAME_UPPER"}
    network.weighted("QLinearConv", (6, 8, 1, 1), 0.0091137, (0.4391173, -128), **same)
    network.move("Flatten")
    network.weighted("QLinearMatMul", (36, 5), 0.0171137, (1.1313737, 0))
    return network.file()


def line(dtype):
    """Return convolutions over one dimension: with gaps, depthwise, and with a step."""
    network = Network([1, 3, 23], dtype)
    network.quantised = network.nodes[0].input[1:]
    network.weighted("QLinearConv", (8, 3, 5), 0.0113411, (0.4127391, -3), bias=900, pads=[4, 1])
    network.weighted("QLinearConv", (8, 1, 3), 0.0131137, (0.3071913, 5), group=8, dilations=[2])
    same = {"auto_pad": b"SAME_LOWER", "strides": [2]}
    network.weighted("QLinearConv", (6, 8, 4), 0.0091137, (0.4391173, -128), **same)
    network.move("Flatten")
    network.weighted("QLinearMatMul", (60, 5), 0.0171137, (1.1313737, 0))
    return network.file()


def residual(dtype):
    """Return a sum of two layers' results, a global average, and a product."""
    network = Network([1, 4, 6, 5], dtype)
    network.quantised = network.nodes[0].input[1:]
    around = {"bias": 500, "pads": [1, 1, 1, 1]}
    network.weighted("QLinearConv", (8, 4, 3, 3), 0.0113411, (0.4127391, -3), **around)
    first, quantised = network.last, network.quantised
    network.weighted("QLinearConv", (8, 8, 3, 3), 0.0091137, (0.8391173, 9), **around)
    network.sum(first, quantised, (0.9131713, -11))
    network.average("QLinearGlobalAveragePool", (0.2117131, 4))
    network.move("Flatten")
    network.weighted("QLinearMatMul", (8, 5), 0.0171137, (1.1313737, 0))
    return network.file()


def in_qdq(content):
    """Return a network of float operators between DequantizeLinear and QuantizeLinear."""
    model = onnx.ModelProto.FromString(content)
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    nodes = []

    def constant(array):
        name = f"q{len(arrays)}"
        arrays[name] = array
        return name

    def real(name, scale, zero):
        made = f"{name} of {len(nodes)}"
        axis = {"axis": 0} if arrays[scale].ndim else {}
        nodes.append(helper.make_node("DequantizeLinear", [name, scale, zero], [made], **axis))
        return made

    for node in model.graph.node:
        kind, given = node.op_type, list(node.input)
        if kind not in ("QLinearConv", "QLinearMatMul", "QLinearAdd"):
            nodes.append(node)
            continue
        operands = [real(*given[:3]), real(*given[3:6])]
        if len(given) > 8:
            scale = arrays[given[1]] * arrays[given[4]]
            zeros = np.zeros(scale.shape, np.int32)
            operands.append(real(given[8], constant(scale), constant(zeros)))
        result = f"{node.output[0]} real"
        plain = helper.make_node(kind.removeprefix("QLinear"), operands, [result])
        plain.attribute.extend(node.attribute)
        nodes += [plain, helper.make_node("QuantizeLinear", [result, *given[6:8]], node.output)]
    model.graph.ClearField("node")
    model.graph.ClearField("value_info")
    model.graph.ClearField("initializer")
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()
    )
    return model.SerializeToString()


def expected(content, x):
    return onnx_session(content).run(None, {"x": x})[0]


def of_integers(content, x):
    """Return ONNX Runtime's results for x, with integer operators wherever possible."""
    return onnx_session(optimised_onnx(content, "integers")).run(None, {"x": x})[0]


def twice(shared):
    """Return two layers of uint8 and the same weights, as one constant or as two, in QDQ."""
    network = Network([3, 8], np.uint8)
    network.quantised = network.nodes[0].input[1:]
    for _ in range(2):
        network.random = np.random.default_rng(5)
        network.weighted("QLinearMatMul", (8, 8), 0.0131137, (0.0313717, 7))
    first, second = (node for node in network.nodes if node.op_type == "QLinearMatMul")
    if shared:
        second.input[3:6] = first.input[3:6]
    return in_qdq(network.file())


def test_shared_weights_do_not_saturate():
    """ONNX Runtime alone would take kernels that saturate, without VNNI."""
    content = twice(shared=True)
    given = np.random.default_rng(8).standard_normal((3, 8)).astype(np.float32) * 9
    wanted = expected(twice(shared=False), given)
    np.testing.assert_array_equal(expected(content, given), wanted)
    with matloom.load(content, device="fast", config="nano", exact=True, check="none") as session:
        np.testing.assert_array_equal(session.run(given), wanted)


def inputs(shape, count):
    generator = np.random.default_rng(2)
    return [generator.standard_normal(shape).astype(np.float32) * 3 for _ in range(count)]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_chain_is_on_the_engine_and_equal(dtype):
    content = chain(dtype)
    program = matloom.compile(content, "nano", check="full")
    on_engine = {layer.operator for layer in program.layers if layer.where == "engine"}
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "FULLY_CONNECTED"} <= on_engine
    with matloom.load(program, device="model") as session:
        for x in inputs((1, 3, 12, 10), 5):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_convolutions_over_one_dimension_are_on_the_engine_and_equal(dtype):
    content = line(dtype)
    program = matloom.compile(content, "nano", exact=True)
    assert program.engine_macs == program.macs
    with matloom.load(program, device="model") as session:
        for given in inputs((1, 3, 23), 3):
            np.testing.assert_array_equal(session.run(given), expected(content, given))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("form", [lambda content: content, in_qdq], ids=["qoperator", "qdq"])
def test_sums_and_averages_are_on_the_engine(form, dtype):
    content = form(residual(dtype))
    program = matloom.compile(content, "nano")
    kinds = Counter(layer.operator for layer in program.layers if layer.where == "engine")
    assert kinds["ADD"] == kinds["DEPTHWISE_CONV_2D"] == kinds["FULLY_CONNECTED"] == 1
    # Of the input, whose channels are in front.
    assert kinds["TRANSPOSE"] == 1
    with matloom.load(program, device="model") as session:
        for x in inputs((1, 4, 6, 5), 5):
            np.testing.assert_array_equal(session.run(x), of_integers(content, x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_joins_and_functions_of_bytes_are_equal(dtype):
    network = Network([1, 4, 6, 5], dtype)
    network.quantised = network.nodes[0].input[1:]
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    first, quantised = network.last, network.quantised
    network.weighted("QLinearConv", (8, 8, 1, 1), 0.0091137, (0.8391173, 9))
    network.join(first, quantised, (0.9131713, -11), 1)
    network.function("QLinearLeakyRelu", (0.8131717, 21), alpha=0.1)
    network.function("QLinearSigmoid", (1 / 256, -128))
    network.weighted("QLinearConv", (4, 16, 1, 1), 0.0113411, (0.0427391, -3))
    content = network.file()
    graph = frontend.load(content)
    operators = [node.op for node in graph.nodes]
    assert operators.count(Op.CONCATENATION) == 1
    # The LEAKY_RELU, whose slopes round twice where it is an operator of the graph.
    assert operators.count(Op.LOOKUP) == 1
    # Of input and output.
    assert operators.count(Op.TRANSPOSE) == 2
    with matloom.load(content, device="model", config="nano") as session:
        for x in inputs((1, 4, 6, 5), 5):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


def functions(dtype):
    """Return layers with activations between them, which ONNX Runtime computes in floats."""
    network = Network([1, 4, 6, 5], dtype)
    network.quantised = network.nodes[0].input[1:]
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
    return network.file()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_functions_of_bytes_are_tables_of_the_engine(dtype):
    content = functions(dtype)
    program = matloom.compile(content, "small+tables=1")
    places = Counter((layer.operator, layer.where) for layer in program.layers)
    assert places["LOOKUP", "engine"] >= 4
    assert {name for name, where in places if where == "host"} == {
        "QuantizeLinear",
        "DequantizeLinear",
    }
    with matloom.load(program, device="model") as session:
        for x in inputs((1, 4, 6, 5), 5):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_moves_of_floats_between_equal_scales_are_moves_of_bytes():
    """ONNX Runtime leaves such moves in exact int8 QDQ networks on x86."""
    network = Network([1, 4, 6, 5], np.int8)
    network.quantised = network.nodes[0].input[1:]
    network.weighted("QLinearConv", (6, 4, 1, 1), 0.0113411, (0.0412739, -3))
    network.move("DequantizeLinear", *network.quantised)
    network.move("Transpose", perm=[0, 2, 3, 1])
    network.move("QuantizeLinear", *network.quantised)
    network.weighted("QLinearConv", (3, 6, 1, 1), 0.0117411, (0.0312739, 5))
    content = network.file()
    graph = frontend.load(content, exact=True)
    # The network's input and output.
    assert [node.op for node in graph.nodes].count(Op.REFERENCE) == 2
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        for x in inputs((1, 4, 6, 5), 2):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_a_function_of_two_tensors_is_no_table():
    network = Network([1, 4, 6, 5], np.int8)
    network.quantised = network.nodes[0].input[1:]
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
    content = network.file()
    assert Op.LOOKUP not in [node.op for node in frontend.load(content).nodes]
    with matloom.load(content, device="model", config="nano") as session:
        (x,) = inputs((1, 4, 6, 5), 1)
        np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize(("made", "there"), [(0.4127391, False), (0.3911713, True)])
def test_averages_that_are_halves_too_often_stay_with_onnx_runtime(made, there):
    network = Network([1, 4, 6, 6], np.int8)
    network.quantised = network.nodes[0].input[1:]
    network.weighted("QLinearConv", (8, 4, 1, 1), 0.0113411, (0.4127391, -3))
    network.average("QLinearAveragePool", (made, -3), kernel_shape=[2, 2], strides=[2, 2])
    content = network.file()
    graph = frontend.load(content)
    assert (Op.DEPTHWISE_CONV_2D in [node.op for node in graph.nodes]) == there
    with matloom.load(content, device="model", config="nano") as session:
        for x in inputs((1, 4, 6, 6), 5):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_qdq_is_on_the_engine(dtype):
    content = in_qdq(chain(dtype))
    program = matloom.compile(content, "nano")
    elsewhere = {layer.operator for layer in program.layers if layer.where == "host"}
    # QUANTIZE from uint8 and to it, without tables on the engine.
    assert elsewhere - {"QUANTIZE"} == {"QuantizeLinear", "DequantizeLinear"}
    with matloom.load(program, device="model") as session:
        for x in inputs((1, 3, 12, 10), 5):
            np.testing.assert_array_equal(session.run(x), of_integers(content, x))


def test_exact_qdq_equals_onnx_runtime():
    content = in_qdq(residual(np.int8))
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        for x in inputs((1, 4, 6, 5), 5):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_each_reader_may_state_a_zero_point_of_its_own():
    network = Network([1, 4, 6, 5], np.int8)
    network.quantised = network.nodes[0].input[1:]
    network.weighted("QLinearConv", (8, 4, 3, 3), 0.0113411, (0.4127391, -3))
    network.quantised = network.quantisation(0.4127391, 17)
    network.weighted("QLinearConv", (8, 8, 3, 3), 0.0091137, (0.8391173, 9))
    content = network.file()
    with matloom.load(content, device="model", config="nano") as session:
        (x,) = inputs((1, 4, 6, 5), 1)
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


def test_a_chain_on_the_chip():
    content = chain(np.uint8)
    (x,) = inputs((1, 3, 12, 10), 1)
    with matloom.load(content, device="rtl", config="nano") as session:
        np.testing.assert_array_equal(session.run(x), expected(content, x))


def test_no_transpose_between_layers():
    """One transpose into the graph's order remains; later weights follow that order."""
    operators = Counter(node.op for node in frontend.load(chain(np.int8)).nodes)
    assert operators[Op.TRANSPOSE] == 1


def test_transposes_of_the_file_meet_those_of_the_layout():
    network = Network([1, 9, 8, 4], np.int8)
    network.quantised = network.nodes[0].input[1:]
    network.move("Transpose", perm=[0, 3, 1, 2])
    network.weighted("QLinearConv", (4, 4, 3, 3), 0.0113411, (0.4127391, -3))
    network.move("Transpose", perm=[0, 2, 3, 1])
    graph = frontend.load(network.file())
    assert Counter(node.op for node in graph.nodes)[Op.TRANSPOSE] == 0
    assert compare(network.file()).equal


def halves():
    """Return a layer whose sums are ties, which ONNX rounds to even, and another layer."""
    network = Network([1, 4, 6, 6], np.int8)
    network.quantised = network.quantisation(0.5, 0)
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.25, (0.25, 0))
    network.weighted("QLinearConv", (4, 4, 1, 1), 0.0131137, (0.3071913, 0))
    return network.file()


def test_a_layer_that_cannot_be_proven_says_how_many_sums_can_differ():
    program = matloom.compile(halves(), "nano")
    reasons = [layer.reason for layer in program.layers if layer.where == "engine" and layer.reason]
    assert re.fullmatch(
        r"can differ from ONNX Runtime by one step in [\d,]+ of [\d,]+ sums, in 4 of 4 channels",
        reasons[0],
    )
    assert reasons[1] == "proven equal to ONNX Runtime"


def test_a_file_may_ask_for_exactness_itself():
    """The option --exact writes such a file for every verb."""
    content = halves()
    asked = frontend.reshaped(content, exact=True)
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
    network = Network([1, 8, 6, 5], dtype)
    network.quantised = network.quantisation(0.5, 3)
    scales = [0.25, 0.0131137, 0.25, *[0.0217131] * 5]
    shape, bias = (8, 8 // groups, 3, 3), 300
    more = {"pads": [1, 1, 1, 1], "group": groups}
    network.weighted("QLinearConv", shape, scales, (0.25, -7), bias=bias, **more)
    network.weighted("QLinearConv", (4, 8, 1, 1), 0.0131137, (0.3071913, 0))
    content = network.file()
    graph = frontend.load(content, exact=True)
    remark = "proven equal to ONNX Runtime, which runs 2 of 8 channels"
    assert sorted(graph.remarks.values()) == ["proven equal to ONNX Runtime", remark]
    operators = [node.op for node in graph.nodes]
    # The network's input and output.
    assert operators.count(Op.TRANSPOSE) == 2
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        for x in inputs((1, 8, 6, 5), 3):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


@pytest.mark.parametrize("op", ["QLinearMatMul", "QGemm"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_columns_that_cannot_be_proven_leave_alone(dtype, op):
    network = Network([3, 8], dtype)
    network.quantised = network.quantisation(0.5, 3)
    scales = [0.25, 0.0131137, 0.25, *[0.0217131] * 5]
    network.weighted("QLinearMatMul", (8, 8), scales, (0.25, -7))
    if op == "QGemm":
        node = network.nodes[-1]
        node.op_type, node.domain = op, "com.microsoft"
        node.input.insert(6, network.constant(np.arange(-4, 4, dtype=np.int32) * 31))
    content = network.file()
    graph = frontend.load(content, exact=True)
    assert [*graph.remarks.values()] == ["proven equal to ONNX Runtime, which runs 2 of 8 channels"]
    with matloom.load(content, device="model", config="nano", exact=True) as session:
        assert session.program.engine_macs == session.program.macs
        for x in inputs((3, 8), 3):
            np.testing.assert_array_equal(session.run(x), expected(content, x))


def names():
    """Return the names of the networks in the ONNX collection."""
    folder = collection("onnx")
    files = [] if folder is None else sorted((folder / "models").rglob("*.onnx"))
    return [path.relative_to(folder / "models").with_suffix("").as_posix() for path in files]


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("name", names() or [None])
def test_recorded_outputs(name):
    """Integers behind quantised outputs are equal, floats within 1e-5 of the largest."""
    folder = collection("onnx")
    if folder is None or name is None:
        pytest.skip("the collection is not there")
    dims = {"unk__68": 1} if "static_qdq" in name else None
    path = Path(folder, "models", f"{name}.onnx")
    with np.load(folder / "golden" / f"{name.replace('/', '__')}.npz") as golden:
        given = [golden[f"in{at}"] for at in range(len(golden["in_names"]))]
        wanted = [golden[f"out{at}_ort"] for at in range(len(golden["out_names"]))]
        ends = golden["in_names"].tolist(), golden["out_names"].tolist()
    with matloom.load(path, device="model", config="nano", dims=dims) as session:
        for at in range(len(given[0])):
            found = session.run(dict(zip(ends[0], (each[at] for each in given), strict=True)))
            found = found if isinstance(found, dict) else {ends[1][0]: found}
            for output, arrays in zip(ends[1], wanted, strict=True):
                off = np.abs(found[output] - arrays[at]).max()
                assert off <= (0 if "micro_kws" in name else 1e-5 * np.abs(arrays[at]).max())


#: Quantised networks of the collections: the file, and sizes of its dimensions.
QUANTISED = {
    "onnx/tum_ei_eda/micro_kws_m_static_qdq": {"unk__68": 1},
    "onnx/tum_ei_eda/micro_kws_m_static_qoperator": None,
    "models/mlperf_results/kai_jiang_v1.3_int8_onnx/kws_ref_model": None,
    "models/mlperf_results/kai_jiang_v1.3_int8_onnx/resnet": None,
    "models/derived_onnx/alibaba_kws_qop_u8s8_pc": None,
    "models/derived_onnx/resnet8_qop_s8s8_pc": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUANTISED)
def test_recorded_outputs_on_the_chip(name):
    kind, _, network = name.partition("/")
    folder = collection(kind)
    if folder is None:
        pytest.skip("the collection is not there")
    path = Path(folder, "models", f"{network}.onnx")
    with np.load(folder / "golden" / f"{network.replace('/', '__')}.npz") as golden:
        (key,) = {"out0_ort", "out0_ortall"} & {*golden.files}
        given, wanted = golden["in0"][:3], golden[key]
    with matloom.load(path, device="rtl", config="nano", dims=QUANTISED[name]) as session:
        layers = session.program.layers
        assert all(layer.where != "host" or not layer.macs for layer in layers)
        kinds = [layer.operator for layer in layers]
        # ONNX Runtime wants channels in front, where it has an average between layers.
        if not any("Average" in kind for kind in kinds):
            assert kinds.count("TRANSPOSE") <= 1
        for at, x in enumerate(given):
            np.testing.assert_array_equal(session.run(x), wanted[at])
