"""Operators on a reference interpreter: in pieces, as a whole, with state, or refused."""

import sys
from dataclasses import replace

import flatbuffers
import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.data.digits import NETWORK
from matloom.errors import install_command
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Conv2D, Reference
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.kernels.interpreter import interpret
from matloom.kernels.reference import InterpreterError, ReferenceRun
from matloom.tools.compare import random_inputs
from matloom.tools.explain import explain
from matloom.verification.random_operators import RandomOperators

runtime = pytest.importorskip(
    "tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed"
)
schema = runtime.schema_fb


def pack(model):
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


class Model:
    """A model file under construction: float32 vectors, resources and subgraphs."""

    def __init__(self):
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.operatorCodes, self.model.subgraphs = [], []
        self.model.buffers = [schema.BufferT()]

    def subgraph(self):
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [], []
        self.model.subgraphs.append(graph)
        return graph

    def tensor(self, graph, name, shape=(1, 2), data=None, kind="FLOAT32", variable=False):
        tensor = schema.TensorT()
        tensor.name, tensor.shape = name, np.array(shape, np.int32)
        tensor.type, tensor.isVariable = getattr(schema.TensorType, kind), variable
        tensor.buffer = len(self.model.buffers)
        buffer = schema.BufferT()
        if data is not None:
            buffer.data = np.frombuffer(np.array(data, np.float32).tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        graph.tensors.append(tensor)
        return len(graph.tensors) - 1

    def operator(self, graph, name, inputs, outputs, options=None):
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = (np.array(x, np.int32) for x in (inputs, outputs))
        if options is not None:
            operator.builtinOptions = options
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        graph.operators.append(operator)


def delay_line(*, biased=True):
    """Return a network with an SVDF, which has state, between two additions."""
    file = Model()
    graph = file.subgraph()
    given, twice, made, result = (
        file.tensor(graph, name, shape)
        for name, shape in (("given", (1, 2)), ("twice", (1, 2)), ("made", (1, 3)), ("out", (1, 3)))
    )
    feature = np.arange(6).reshape(3, 2) / 4
    time = np.arange(12).reshape(3, 4) / 8
    constants = [
        file.tensor(graph, "feature", (3, 2), feature),
        file.tensor(graph, "time", (3, 4), time),
    ]
    state = file.tensor(graph, "state", (1, 12), variable=True)
    bias = file.tensor(graph, "bias", (3,), [0, 0, 0]) if biased else -1
    options = schema.SVDFOptionsT()
    options.rank = 1
    file.operator(graph, "ADD", [given, given], [twice], schema.AddOptionsT())
    file.operator(graph, "SVDF", [twice, *constants, bias, state], [made], options)
    file.operator(graph, "ADD", [made, made], [result], schema.AddOptionsT())
    graph.inputs, graph.outputs = [given], [result]
    return pack(file.model), feature, time


def opened(graph):
    program = matloom.compile(graph, "small")
    return matloom.load(matloom.Program.from_bytes(program.to_bytes()), device="model")


def test_one_operator_remembers_amid_kernels():
    content, feature, time = delay_line()
    graph = frontend.load(content)
    assert [node.op for node in graph.nodes] == [Op.ADD, Op.REFERENCE, Op.ADD]
    samples = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
    past = np.zeros((3, 4))
    with opened(graph) as session:
        for sample in samples:
            past = np.concatenate([past[:, 1:], (feature @ (2 * sample))[:, np.newaxis]], axis=1)
            expected = 2 * (past * time).sum(axis=1)
            np.testing.assert_allclose(session.run(sample[np.newaxis])[0], expected, atol=1e-5)


def test_a_crash_of_the_interpreter_is_a_refusal(monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    graph = frontend.load(delay_line(biased=False)[0])
    with pytest.raises(
        InterpreterError, match=r"SVDF .* but tflite-micro refuses: the library crash"
    ):
        interpret(graph, {graph.inputs[0]: np.zeros((1, 2), np.float32)})


@pytest.fixture
def with_add_n():
    """Return the digits with ADD_N, which has no kernel here, as addition."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(NETWORK.read_bytes(), 0))
    code = model.operatorCodes[model.subgraphs[0].operators[3].opcodeIndex]
    assert code.builtinCode == schema.BuiltinOperator.ADD
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.ADD_N
    operator = model.subgraphs[0].operators[3]
    # It wants inputs of one scale.
    operator.inputs = [operator.inputs[0]] * 2
    operator.builtinOptions = schema.AddNOptionsT()
    operator.builtinOptionsType = schema.BuiltinOptions.AddNOptions
    return pack(model)


def test_engine_and_interpreter_share_a_network(with_add_n):
    graph = frontend.load(with_add_n)
    whole = runtime.Interpreter.from_bytes(with_add_n)
    images = np.random.default_rng(0).integers(-128, 128, (3, 8, 8, 1), np.int8)
    with opened(graph) as session:
        for image in images:
            whole.set_input(image[np.newaxis], 0)
            whole.invoke()
            assert np.array_equal(session.run(image[np.newaxis]), whole.get_output(0))
        layers = {layer.operator: layer for layer in session.program.layers}
        _table, *sentences = explain(session.program)
    assert layers["CONV_2D"].where == "engine"
    assert layers["ADD_N"].where == "host"
    reason = "ADD_N has no kernel here: on TensorFlow Lite Micro"
    assert layers["ADD_N"].reason == reason
    assert any(reason in sentence for sentence in sentences)


def test_neither_interpreter(with_add_n, monkeypatch):
    monkeypatch.setitem(sys.modules, "tflite_micro.python.tflite_micro", None)
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    program = matloom.compile(frontend.load(with_add_n), "small")
    with pytest.raises(InterpreterError) as error:
        matloom.load(program, device="model")
    assert str(error.value) == (
        "ADD_N must run on a reference interpreter (ADD_N has no kernel here), but tflite-micro is "
        "not installed; ai-edge-litert is not installed"
    )
    assert error.value.hint == f"run: {install_command('tflite-micro', 'ai-edge-litert')}"


def test_operators_that_no_interpreter_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(NETWORK.read_bytes(), 0))
    code = model.operatorCodes[1]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = "DREAM"
    graph = frontend.load(pack(model))
    with pytest.raises(
        InterpreterError, match=r"^DREAM must run on .*, but tflite-micro refuses: "
    ):
        interpret(graph, {graph.inputs[0]: np.zeros((1, 8, 8, 1), np.int8)})


def test_operators_that_only_litert_runs(seed):
    """Float activations with int8 weights of per-channel scales; LiteRT quantises activations."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    instances = RandomOperators([seed, 1], "float32")
    graph = instances.make(Op.CONV_2D)
    while len(graph.nodes[0].inputs) < 3 or graph.tensors[1].shape[0] < 2:
        graph = instances.make(Op.CONV_2D)
    weights = graph.tensors[1].data
    scale = np.abs(weights).max(axis=(1, 2, 3)) / 127
    integers = np.rint(weights / scale[:, None, None, None]).astype(np.int8)
    many = Quantisation(scale=tuple(scale.tolist()), zero_point=(0,) * len(scale), axis=0)
    quantised = Tensor(
        name="weights", shape=weights.shape, dtype="int8", quantisation=many, data=integers
    )
    content = write_tflite(replace(graph, tensors={**graph.tensors, 1: quantised}))
    loaded = frontend.load(content)
    assert loaded.nodes[0].op is Op.REFERENCE
    given = np.random.default_rng(seed).standard_normal(graph.tensors[0].shape)
    (result,) = interpret(loaded, {0: given.astype(np.float32)}).values()
    (expected,) = interpret(graph, {0: given.astype(np.float32)}).values()
    assert np.abs(result - expected).max() < 0.05 * max(1, np.abs(expected).max())


def test_groups_of_channels(seed):
    """Two groups, each compared with a separate convolution."""
    instances = RandomOperators([seed, 3])
    attributes = Conv2D()
    given = instances._tensor("in", (1, 5, 5, 4))
    whole = instances.network(Op.CONV_2D, [given, instances._weights((6, 3, 3, 4), 0)], attributes)
    weights = whole.tensors[1]
    data = weights.data[..., :2].copy()
    tensors = {**whole.tensors, 1: replace(weights, shape=data.shape, data=data)}
    graph = frontend.load(write_tflite(replace(whole, tensors=tensors)))
    assert graph.nodes[0].attributes.reasons == ("CONV_2D has 2 groups",)
    inputs = random_inputs(graph, seed)
    (result,) = interpret(graph, inputs).values()
    # The same with weights of zero for the channels that a group does not see.
    wide = np.zeros((6, 3, 3, 4), np.int8)
    wide[:3, ..., :2], wide[3:, ..., 2:] = data[:3], data[3:]
    dense = replace(whole, tensors={**whole.tensors, 1: replace(weights, data=wide)})
    (expected,) = interpret(dense, inputs).values()
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("op", [Op.LOGISTIC, Op.TANH])
def test_sixteen_bit_activations(op, seed):
    graph = RandomOperators([seed, 2]).make(op)
    tensors = dict(graph.tensors)
    # Outputs of 16 bits have this scale.
    for number, scale in ((0, tensors[0].scale / 256), (*graph.outputs, 2**-15)):
        quantisation = Quantisation(scale=(scale,), zero_point=(0,))
        tensors[number] = replace(tensors[number], dtype="int16", quantisation=quantisation)
    content = write_tflite(replace(graph, tensors=tensors))
    loaded = frontend.load(content)
    assert loaded.nodes[0].op is op
    given = random_inputs(loaded, seed)
    whole = runtime.Interpreter.from_bytes(content, arena_size=2**20)
    whole.set_input(given[0], 0)
    whole.invoke()
    (result,) = interpret(loaded, given).values()
    assert len(np.unique(result)) > 5
    assert np.array_equal(result, whole.get_output(0))


def test_a_damaged_file():
    """Wherever the interpreter's reader fails, the user gets a message."""
    content = np.full(4096, 255, np.uint8)
    attributes = Reference(operators=("SVDF",), reasons=("",), positions=(0,))
    tensor = Tensor(name="file", shape=content.shape, dtype="uint8", data=content)
    node = Node(op=Op.REFERENCE, inputs=(0,), outputs=(), attributes=attributes, index=0)
    graph = Graph(name="net", inputs=(), outputs=(), tensors={0: tensor}, nodes=(node,))
    with pytest.raises(
        InterpreterError, match=r"SVDF must run on a reference interpreter \(\), but"
    ):
        ReferenceRun(graph, node)
