"""Files that break a rule of the graph, kind by kind, and an interpreter's results for them.

Golden values are TensorFlow Lite Micro's, or LiteRT's if that refuses or misreads a file.
"""

from dataclasses import replace

import flatbuffers
import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.errors import UserError
from matloom.frontend.errors import ModelError
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Attributes,
    Axis,
    Conv2D,
    FullyConnected,
    LeakyRelu,
    Pad,
    Pool2D,
    Reduce,
    Softmax,
)
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.kernels.reference import InterpreterError
from matloom.tools.explain import explain
from matloom.verification.random_operators import RandomOperators
from support.oracles import litert, micro, micro_session

runtime = pytest.importorskip(
    "tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed"
)
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
schema = runtime.schema_fb

MICRO, LITERT = "on TensorFlow Lite Micro", "on LiteRT's reference kernels"


def pack(model):
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def unpack(graph):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(write_tflite(graph), 0))


def tensor(name, shape, scale=0.05, zero=0, dtype="int8", data=None):
    quantisation = Quantisation(scale=(scale,), zero_point=(zero,))
    return Tensor(name=name, shape=shape, dtype=dtype, quantisation=quantisation, data=data)


def one(op, inputs, output, attributes=None):
    """Return a network of one operator."""
    tensors = dict(enumerate([*inputs, output]))
    given = tuple(range(len(inputs)))
    node = Node(
        op=op,
        inputs=given,
        outputs=(len(inputs),),
        attributes=Attributes() if attributes is None else attributes,
        index=0,
    )
    entering = tuple(at for at in given if inputs[at].data is None)
    return Graph(
        name="net", inputs=entering, outputs=(len(inputs),), tensors=tensors, nodes=(node,)
    )


def arrays(content, seed=0):
    draw = np.random.default_rng(seed)
    graph = frontend.load(content)
    made = []
    for number in graph.inputs:
        info = graph.tensors[number]
        if info.dtype == "float32":
            made.append(draw.standard_normal(info.shape).astype(np.float32))
        elif info.dtype == "bool":
            made.append(draw.integers(0, 2, info.shape).astype(bool))
        else:
            ends = np.iinfo(info.dtype)
            made.append(draw.integers(ends.min, ends.max, info.shape, info.dtype, endpoint=True))
    return made


def check(content, where=None, inputs=None):
    """Compare two calls of a session with the interpreter; return the session's program."""
    program = matloom.compile(content, "nano", check="full")
    reasons = " ".join(layer.reason for layer in program.layers)
    if where is not None:
        assert where in reasons
        assert where in " ".join(str(line) for line in explain(program)[1:])
    else:
        assert "interpreter" not in reasons
    with matloom.load(program, device="model") as session:
        for seed in (0, 1):
            given = arrays(content, seed) if inputs is None else inputs
            outputs = len(program.outputs)
            golden = litert(content, given) if where == LITERT else micro(content, given, outputs)
            named = {info.name: array for info, array in zip(program.inputs, given, strict=True)}
            assert len(named) == len(given)
            made = session.run(named)
            assert len(made) == len(golden)
            for info, expected in zip(program.outputs, golden, strict=True):
                found = made[info.name]
                if expected.dtype == np.float32:
                    np.testing.assert_allclose(found.ravel(), expected.ravel(), atol=1e-5)
                else:
                    np.testing.assert_array_equal(found.ravel(), expected.ravel())
    return program


@pytest.mark.parametrize(
    ("op", "scale", "zero", "where"),
    [
        (Op.LOGISTIC, 0.0039, -128, MICRO),
        (Op.LOGISTIC, 0.004, -128, MICRO),
        (Op.LOGISTIC, 1 / 256, -100, LITERT),
        (Op.SOFTMAX, 0.003908203, -128, LITERT),
        (Op.SOFTMAX, np.nextafter(np.float32(1 / 256), np.float32(1)).item(), -128, LITERT),
    ],
)
def test_scales_of_outputs(op, scale, zero, where):
    attributes = Softmax(beta=1.0) if op is Op.SOFTMAX else None
    given, made = tensor("x", (2, 9), 0.1), tensor("y", (2, 9), scale, zero)
    check(write_tflite(one(op, [given], made, attributes)), where)


@pytest.mark.parametrize(("beta", "scale"), [(1.0, 16.0), (1.0, 31.5), (64.0, 0.25), (4.0, 200.0)])
def test_softmax_of_steep_scales(beta, scale):
    given, made = tensor("x", (2, 9), scale), tensor("y", (2, 9), 1 / 256, -128)
    check(write_tflite(one(Op.SOFTMAX, [given], made, Softmax(beta=beta))))


@pytest.mark.parametrize("dtype", ["uint8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_concatenation_of_other_scales(dtype, axis):
    parts = [tensor(name, (3, 3), scale, 5, dtype) for name, scale in (("a", 0.05), ("b", 0.11))]
    shape = (6, 3) if axis == 0 else (3, 6)
    graph = one(Op.CONCATENATION, parts, tensor("y", shape, 0.07, 9, dtype), Axis(axis=axis))
    check(write_tflite(graph), LITERT)


def test_scales_along_another_axis():
    """Scales along the input channels, where there are as many as outputs."""
    instances = RandomOperators([5, 1])
    attributes = Conv2D()
    given = [instances._tensor("x", (1, 5, 5, 4)), instances._weights((4, 2, 2, 4), 0)]
    model = unpack(instances.network(Op.CONV_2D, given, attributes))
    weights = model.subgraphs[0].tensors[1]
    weights.quantization.scale = np.array([0.01, 0.02, 0.03, 0.04], np.float32)
    weights.quantization.zeroPoint = np.zeros(4, np.int64)
    weights.quantization.quantizedDimension = 3
    check(pack(model), MICRO)


def without_scales(graph):
    tensors = {n: replace(item, quantisation=None) for n, item in graph.tensors.items()}
    return write_tflite(replace(graph, tensors=tensors))


def test_a_pool_without_scales():
    attributes = Pool2D(window=(2, 2), stride=(2, 2))
    given, made = tensor("x", (1, 6, 6, 3)), tensor("y", (1, 3, 3, 3))
    check(without_scales(one(Op.MAX_POOL_2D, [given], made, attributes)), MICRO)


def test_a_limit_without_scales():
    check(without_scales(one(Op.RELU, [tensor("x", (3, 5))], tensor("y", (3, 5)))), MICRO)


def test_padding_without_scales():
    pad = Pad(before=(0, 1), after=(2, 0))
    check(without_scales(one(Op.PAD, [tensor("x", (3, 5))], tensor("y", (5, 6)), pad)), MICRO)


def weight_only(op):
    """Return a network that quantises or dequantises along an axis."""
    scales = (0.01, 0.02, 0.05, 0.001)
    many = Quantisation(scale=scales, zero_point=(0,) * 4, axis=0)
    integers = Tensor(name="q", shape=(4, 6), dtype="int8", quantisation=many)
    floats = Tensor(name="f", shape=(4, 6), dtype="float32")
    sides = (integers, floats) if op is Op.DEQUANTIZE else (floats, integers)
    return one(op, [sides[0]], sides[1])


@pytest.mark.parametrize("op", [Op.DEQUANTIZE, Op.QUANTIZE])
def test_conversions_along_an_axis(op):
    check(write_tflite(weight_only(op)), LITERT)


@pytest.mark.parametrize("op", [Op.CONV_2D, Op.FULLY_CONNECTED])
def test_one_zero_point_for_many_scales(op):
    model = unpack(RandomOperators([5, 1]).make(op))
    weights = next(item for item in model.subgraphs[0].tensors if item.name == b"weights")
    weights.quantization.scale = np.full(weights.shape[0], 0.01, np.float32)
    weights.quantization.zeroPoint = np.zeros(1, np.int64)
    weights.quantization.quantizedDimension = 0
    check(pack(model))


WITHOUT_OPTIONS = {
    **dict.fromkeys(
        (Op.ADD, Op.SUB, Op.MUL, Op.CONCATENATION, Op.FULLY_CONNECTED, Op.MEAN, Op.SUM), True
    ),
    **dict.fromkeys((Op.RESIZE_NEAREST_NEIGHBOR, Op.LEAKY_RELU), True),
    **dict.fromkeys((Op.CONV_2D, Op.MAX_POOL_2D, Op.TRANSPOSE_CONV), False),
}


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("op", WITHOUT_OPTIONS)
def test_absent_option_tables(op, dtype):
    graph = RandomOperators([5, 3], dtype).make(op)
    if op is Op.CONCATENATION:
        parts = [replace(graph.tensors[0], shape=(2, 3), name=name) for name in "ab"]
        made = replace(graph.tensors[graph.outputs[0]], shape=(4, 3))
        graph = one(op, parts, made, Axis(axis=0))
    if isinstance(graph.nodes[0].attributes, Reduce):
        graph = RandomOperators([5, 3], dtype)
        axes = Reduce(axes=(1,), keep_dims=False)
        graph = graph.network(op, [graph._tensor("x", (2, 5, 3))], axes)
    model = unpack(graph)
    model.subgraphs[0].operators[0].builtinOptions = None
    model.subgraphs[0].operators[0].builtinOptionsType = 0
    content = pack(model)
    native = [node.op is op for node in frontend.load(content).nodes] == [True]
    assert native == WITHOUT_OPTIONS[op]
    check(content, None if native else MICRO)


@pytest.mark.parametrize("op", [Op.AVERAGE_POOL_2D, Op.DEPTHWISE_CONV_2D])
def test_absent_option_tables_that_say_nothing(op):
    """TensorFlow Lite Micro leaves the output uninitialised."""
    model = unpack(RandomOperators([5, 3]).make(op))
    model.subgraphs[0].operators[0].builtinOptions = None
    model.subgraphs[0].operators[0].builtinOptionsType = 0
    with pytest.raises(InterpreterError, match=rf"{op} must run on a reference interp.*Options, n"):
        matloom.compile(pack(model), "nano")


def test_sizes_of_zero():
    parts = [tensor("a", (2, 0)), tensor("b", (2, 3))]
    program = check(
        write_tflite(one(Op.CONCATENATION, parts, tensor("y", (2, 3)), Axis(axis=1))), MICRO
    )
    assert program.inputs[0].shape == (2, 0)
    again = matloom.Program.from_bytes(program.to_bytes())
    with matloom.load(again, device="model") as session:
        made = session.run({"a": np.zeros((2, 0), np.int8), "b": np.ones((2, 3), np.int8)})
    np.testing.assert_array_equal(made["y"], np.ones((2, 3)))


def test_a_mean_over_no_axes():
    graph = one(
        Op.MEAN, [tensor("x", (1, 4, 3))], tensor("y", (1, 4, 3)), Reduce(axes=(), keep_dims=True)
    )
    check(write_tflite(graph))


@pytest.mark.parametrize("shape", [(24,), (2, 12), (1, 4, 6), (4, 6, 1, 1)])
@pytest.mark.parametrize("op", [Op.RELU, Op.TANH])
def test_an_output_declared_with_other_axes(op, shape):
    made = tensor("y", shape, 1 / 128)
    program = check(write_tflite(one(op, [tensor("x", (4, 6))], made)), MICRO)
    assert program.outputs[0].shape == shape


@pytest.mark.parametrize("shape", [(9, 1), (9,), (1, 3, 3), (1, 1, 9, 1)])
def test_a_pool_declared_with_other_axes(shape):
    """TensorFlow Lite Micro would read lengths of axes that do not exist."""
    attributes = Pool2D(window=(2, 2), stride=(2, 2))
    graph = one(Op.MAX_POOL_2D, [tensor("x", (1, 6, 6, 1))], tensor("y", shape), attributes)
    assert check(write_tflite(graph), LITERT).outputs[0].shape == shape


def adding(shape=(1, 4)):
    arithmetic = RandomOperators([5, 4]).make(Op.ADD).nodes[0].attributes
    none = replace(arithmetic, activation=Activation.NONE)
    return one(Op.ADD, [tensor("a", shape), tensor("b", shape)], tensor("y", shape, 0.1), none)


@pytest.mark.parametrize("zeros", [1, 0], ids=["one zero point", "no zero points"])
def test_scales_without_zero_points_for_litert(zeros):
    """Only LiteRT runs an output of another rank, but it needs as many zero points as scales."""
    graph = RandomOperators([5, 1]).make(Op.DEPTHWISE_CONV_2D)
    whole = unpack(graph)
    weights = whole.subgraphs[0].tensors[1]
    weights.quantization.scale = np.full(weights.shape[3], 0.01, np.float32)
    weights.quantization.zeroPoint = np.zeros(weights.shape[3], np.int64)
    weights.quantization.quantizedDimension = 3
    golden = pack(whole)
    weights.quantization.zeroPoint = np.zeros(zeros, np.int64)
    made = whole.subgraphs[0].tensors[graph.outputs[0]]
    made.shape = np.array([1, *made.shape], np.int32)
    content = pack(whole)
    program = matloom.compile(content, "nano")
    assert LITERT in program.layers[0].reason
    given = arrays(content)
    with matloom.load(program, device="model") as session:
        found = session.run(given[0])
    np.testing.assert_array_equal(found.ravel(), micro(golden, given, 1)[0].ravel())


@pytest.mark.parametrize("times", [2, 3])
def test_an_output_several_times(times):
    model = unpack(adding())
    model.subgraphs[0].outputs = np.array([2] * times, np.int32)
    content = pack(model)
    assert len({info.name for info in check(content).outputs}) == times


def test_an_input_twice():
    """The last use of a tensor in the list of inputs counts."""
    model = unpack(adding())
    model.subgraphs[0].inputs = np.array([0, 1, 0], np.int32)
    assert len(check(pack(model)).inputs) == 3


@pytest.mark.parametrize(
    "names",
    [("a", "a", "a"), ("a", "a", "a:0"), ("a:1", "a", "a"), ("x", "x", "x:1"), ("", "", "")],
)
def test_names_that_collide(names):
    model = unpack(adding())
    for item, name in zip(model.subgraphs[0].tensors, names, strict=True):
        item.name = name.encode()
    model.subgraphs[0].outputs = np.array([2, 2], np.int32)
    check(pack(model))


@pytest.mark.parametrize("scale", [3e-35, 1e-30])
def test_an_output_scale_of_almost_nothing(scale):
    multiply = replace(adding().nodes[0], op=Op.MUL)
    graph = adding()
    tensors = {**graph.tensors, 2: tensor("y", (1, 4), scale)}
    check(write_tflite(replace(graph, nodes=(multiply,), tensors=tensors)), MICRO)


def test_zeros_with_a_scale_of_zero():
    graph = RandomOperators([5, 1]).make(Op.FULLY_CONNECTED)
    weights = graph.tensors[1]
    quantisation = Quantisation(scale=(0.0,), zero_point=(0,))
    zeros = replace(weights, data=np.zeros_like(weights.data), quantisation=quantisation)
    check(write_tflite(replace(graph, tensors={**graph.tensors, 1: zeros})), MICRO)


def test_an_operator_in_place():
    model = unpack(one(Op.RELU, [tensor("x", (3, 5))], tensor("y", (3, 5))))
    model.subgraphs[0].operators[0].outputs = np.array([0], np.int32)
    model.subgraphs[0].outputs = np.array([0], np.int32)
    check(pack(model), MICRO)


def test_a_tensor_written_twice():
    first = one(Op.RELU, [tensor("x", (3, 5))], tensor("y", (3, 5)))
    again = Node(op=Op.RELU6, inputs=(1,), outputs=(2,), index=1)
    tensors = {**first.tensors, 2: tensor("z", (3, 5))}
    model = unpack(replace(first, nodes=(*first.nodes, again), tensors=tensors, outputs=(2,)))
    model.subgraphs[0].operators[1].outputs = np.array([1], np.int32)
    model.subgraphs[0].outputs = np.array([1], np.int32)
    check(pack(model), MICRO)


@pytest.mark.slow
def test_a_tensor_above_the_engines_memory():
    shape = (1, 2**26 + 8)
    content = write_tflite(one(Op.RELU, [tensor("x", shape)], tensor("y", shape)))
    program = matloom.compile(content, "nano", check="none")
    assert MICRO in program.layers[0].reason
    image = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    with matloom.load(program, device="model") as session:
        np.testing.assert_array_equal(session.run(image), np.maximum(image, 0))


def moved_outside(graph, *, beyond=0):
    """Return a file whose constants lie after the flatbuffer, as quantisers write large ones."""
    model = unpack(graph)
    parts = {}
    for at, buffer in enumerate(model.buffers):
        if buffer.data is not None and len(buffer.data):
            parts[at] = bytes(bytearray(buffer.data))
            buffer.data, buffer.offset, buffer.size = None, 1 << 40, len(parts[at])
    content = pack(model)
    at, tail = -(-len(content) // 16) * 16, b""
    for number, part in parts.items():
        model.buffers[number].offset = at + len(tail) + beyond
        tail += part + bytes(-len(part) % 16)
    return pack(model).ljust(at, b"\0") + tail


@pytest.mark.parametrize("op", [Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED])
def test_buffers_outside(op):
    graph = RandomOperators([5, 6]).make(op)
    content, inside = moved_outside(graph), write_tflite(graph)
    program = matloom.compile(content, "nano")
    with matloom.load(program, device="model") as session:
        given = arrays(content)
        made = session.run({info.name: x for info, x in zip(program.inputs, given, strict=True)})
    np.testing.assert_array_equal(next(iter(made.values())), micro(inside, given, 1)[0])


def test_buffers_outside_for_an_interpreter():
    constant = np.random.default_rng(0).integers(-128, 128, (1, 4)).astype(np.int8)
    graph = adding()
    tensors = {**graph.tensors, 1: tensor("b", (1, 4), data=constant), 2: tensor("y", (4,))}
    graph = replace(graph, tensors=tensors, inputs=(0,))
    inside = write_tflite(graph)
    program = matloom.compile(moved_outside(graph), "nano")
    given = arrays(inside)
    with matloom.load(program, device="model") as session:
        made = session.run(given[0])
    np.testing.assert_array_equal(made.ravel(), micro(inside, given, 1)[0].ravel())


@pytest.mark.parametrize("beyond", [16, 2**20, 2**60])
def test_buffers_beyond_the_file(beyond):
    graph = RandomOperators([5, 6]).make(Op.FULLY_CONNECTED)
    with pytest.raises(ModelError, match=r"must have its data within the file's \d+ bytes, not"):
        frontend.load(moved_outside(graph, beyond=beyond))


def dynamic(name, options, inputs, output, kinds):
    """Return a network of one operator that the graph cannot represent in this form."""
    model, graph, code, made = (
        schema.ModelT(),
        schema.SubGraphT(),
        schema.OperatorCodeT(),
        schema.OperatorT(),
    )
    model.version, model.subgraphs, model.operatorCodes = 3, [graph], [code]
    model.buffers = [schema.BufferT()]
    code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
    graph.tensors, graph.operators = [], [made]
    for at, (shape, kind) in enumerate(zip([*inputs, output], kinds, strict=True)):
        item = schema.TensorT()
        item.name, item.shape = f"t{at}", np.array(shape, np.int32)
        item.type, item.buffer = getattr(schema.TensorType, kind), 0
        graph.tensors.append(item)
    made.inputs, made.outputs = (
        np.arange(len(inputs), dtype=np.int32),
        np.array([len(inputs)], np.int32),
    )
    graph.inputs, graph.outputs = (
        np.arange(len(inputs), dtype=np.int32),
        np.array([len(inputs)], np.int32),
    )
    made.builtinOptions = options
    made.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
    return pack(model)


@pytest.mark.parametrize("shape", [(2, 3), (7,), (1, 2, 4)])
def test_where(shape):
    kinds = ("BOOL", "INT64")
    content = dynamic("WHERE", schema.WhereOptionsT(), [shape], (1, len(shape)), kinds)
    check(content, LITERT)
    for array in (np.zeros(shape, bool), np.ones(shape, bool)):
        check(content, LITERT, [array])


@pytest.mark.parametrize("size", [(8, 8), (3, 5), (1, 1)])
@pytest.mark.parametrize("declared", [(1, 8, 8, 3), (1, 1, 1, 3)])
def test_a_resize_by_an_input(size, declared):
    kinds = ("FLOAT32", "INT32", "FLOAT32")
    options = schema.ResizeNearestNeighborOptionsT()
    ends = [(1, 4, 4, 3), (2,)]
    content = dynamic("RESIZE_NEAREST_NEIGHBOR", options, ends, declared, kinds)
    image = np.random.default_rng(0).standard_normal((1, 4, 4, 3)).astype(np.float32)
    check(content, LITERT, [image, np.array(size, np.int32)])


def test_samples_whose_outputs_cannot_be_joined():
    """Each sample asks a RESIZE for another height and width."""
    kinds = ("FLOAT32", "INT32", "FLOAT32")
    options = schema.ResizeNearestNeighborOptionsT()
    ends = [(1, 4, 4, 3), (2,)]
    content = dynamic("RESIZE_NEAREST_NEIGHBOR", options, ends, (1, 8, 8, 3), kinds)
    images, sizes = np.zeros((2, 4, 4, 3), np.float32), np.array([8, 8, 3, 5], np.int32)
    with matloom.load(content, device="model", config="nano") as session:
        with pytest.raises(ValueError, match="samples must give output 't2' one shape to be joi"):
            session.run({"t0": images, "t1": sizes})
        sizes[2:] = 8
        assert session.run({"t0": images, "t1": sizes})["t2"].shape == (2, 8, 8, 3)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_inputs_without_elements(shape):
    parts = [tensor("a", shape), tensor("b", (2, 3))]
    graph = one(Op.CONCATENATION, parts, tensor("y", (2, 3)), Axis(axis=shape.index(0)))
    given = {"a": np.zeros(shape, np.int8), "b": np.ones((2, 3), np.int8)}
    with matloom.load(write_tflite(graph), device="model", config="nano") as session:
        np.testing.assert_array_equal(session.run(given)["y"], given["b"])
        with pytest.raises(ValueError, match="input 'a' must have shape"):
            session.run({**given, "a": np.zeros((5, 3), np.int8)})


def test_an_operator_that_fails():
    """It reads row 2 of two rows."""
    kinds = ("FLOAT32", "INT32", "FLOAT32")
    content = dynamic("GATHER_ND", schema.GatherNdOptionsT(), [(2, 3), (1, 1)], (1, 3), kinds)
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    with matloom.load(content, device="model", config="nano") as session:
        made = session.run({"t0": rows, "t1": np.array([[1]], np.int32)})
        np.testing.assert_array_equal(made["t2"], rows[1:])
        with pytest.raises(InterpreterError, match=r"^GATHER_ND failed in [a-z-]+: \S"):
            session.run({"t0": rows, "t1": np.array([[2**30]], np.int32)})


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1])
def test_an_index_out_of_range(index):
    kinds = ("FLOAT32", "INT32", "FLOAT32")
    content = dynamic("GATHER", schema.GatherOptionsT(), [(2, 3), (1,)], (1, 3), kinds)
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    message = rf"^operator 0 \(GATHER\) must have indices of 0 to 1, not {index}\n"
    with matloom.load(content, device="model", config="nano") as session:
        with pytest.raises(UserError, match=message):
            session.run({"t0": rows, "t1": np.array([index], np.int32)})
        made = session.run({"t0": rows, "t1": np.array([1], np.int32)})
        np.testing.assert_array_equal(made["t2"], rows[1:])


def test_operators_without_interpreter_fail_to_compile():
    """No interpreter has an exponential of booleans."""
    content = dynamic("EXP", schema.ExpOptionsT(), [(2, 3)], (2, 3), ("BOOL", "BOOL"))
    with pytest.raises(InterpreterError) as error:
        matloom.compile(content, "nano", check="none")
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith("EXP must run on a reference interpreter (EXP has no kernel here), but ")
    assert "tflite-micro refuses: " in text
    assert "ai-edge-litert refuses: " in text


def test_contradictions_are_refused_with_their_reason():
    """PAD with another number of axes than its input: the message is LiteRT's."""
    pad = Pad(before=(0, 1), after=(0, 1))
    model = unpack(one(Op.PAD, [tensor("x", (2, 3))], tensor("y", (2, 5)), pad))
    parameter = model.subgraphs[0].tensors[model.subgraphs[0].operators[0].inputs[1]]
    parameter.shape = np.array([4, 2], np.int32)
    model.buffers[parameter.buffer].data = np.zeros(32, np.uint8)
    with pytest.raises(InterpreterError, match=r"PAD must have 2 paddings for each axis, not 8\)"):
        matloom.compile(pack(model), "nano")


def test_divisors_of_which_some_numbers_are_none():
    """A division that fails on zeros and on random numbers runs if it succeeds on ones."""
    shape = (1, 400)
    model = unpack(
        one(
            Op.MUL,
            [tensor("x", shape), tensor("divisor", shape)],
            tensor("y", shape),
            Arithmetic(),
        )
    )
    code, operator = model.operatorCodes[0], model.subgraphs[0].operators[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FLOOR_DIV
    operator.builtinOptionsType = schema.BuiltinOptions.FloorDivOptions
    operator.builtinOptions = schema.FloorDivOptionsT()
    draw = np.random.default_rng(0)
    given = [draw.integers(1, 127, shape, np.int8) for _ in range(2)]
    check(pack(model), LITERT, given)


def summing(last):
    """Return the file of a sum of its input and the last sum, which `last` copies."""
    graph = adding()
    copied = Node(op=last, inputs=(2,), outputs=(1,), index=1)
    model = unpack(replace(graph, inputs=(0, 1), nodes=(*graph.nodes, copied), outputs=(2,)))
    model.subgraphs[0].tensors[1].isVariable = True
    model.subgraphs[0].inputs = np.array([0], np.int32)
    return model


def check_calls(content, given):
    """Compare consecutive calls of one session with those of one interpreter."""
    golden = micro_session(content)
    with matloom.load(content, device="model", config="nano") as session:
        for array in given:
            np.testing.assert_array_equal(session.run(array), golden(array)[0])


CALLS = [
    np.array([[7, -9, 30, 2]], np.int8),
    np.full((1, 4), 3, np.int8),
    np.zeros((1, 4), np.int8),
]


@pytest.mark.parametrize("last", [Op.RELU, Op.RELU6])
def test_variables_of_ordinary_operators(last):
    content = pack(summing(last))
    layers = matloom.compile(content, "nano").layers
    assert all("operators share the state of tensor 1" in layer.reason for layer in layers)
    check_calls(content, CALLS)


def test_a_variable_that_is_never_written():
    model = summing(Op.RELU)
    model.subgraphs[0].operators.pop()
    content = pack(model)
    (layer,) = matloom.compile(content, "nano").layers
    assert "ADD reads the state of tensor 1" in layer.reason
    check_calls(content, CALLS)


def test_a_variable_with_initial_values():
    model = summing(Op.RELU)
    model.subgraphs[0].operators.pop()
    buffer = schema.BufferT()
    buffer.data = np.array([1, 2, 3, 4], np.uint8)
    model.subgraphs[0].tensors[1].buffer = len(model.buffers)
    model.buffers.append(buffer)
    check_calls(pack(model), CALLS)


def test_variables_as_inputs_and_outputs():
    model = unpack(one(Op.RELU, [tensor("x", (3, 5))], tensor("y", (3, 5))))
    for at in (0, 1):
        model.subgraphs[0].tensors[at].isVariable = True
        check(pack(model), MICRO if at else None)


def test_sparsity_of_computed_tensors():
    model = unpack(one(Op.RELU, [tensor("x", (3, 5))], tensor("y", (3, 5))))
    for item in model.subgraphs[0].tensors:
        item.sparsity = schema.SparsityParametersT()
    check(pack(model))


@pytest.mark.parametrize("densify", [False, True])
def test_sparse_weights(densify):
    """Rows of weights in blocks of 16, of which only some are in the file."""
    graph = one(
        Op.FULLY_CONNECTED,
        [tensor("x", (2, 32)), tensor("w", (4, 32), 0.02, data=np.zeros((4, 32), np.int8))],
        tensor("y", (2, 4), 0.5),
        FullyConnected(),
    )
    model = unpack(graph)
    network, weights = model.subgraphs[0], model.subgraphs[0].tensors[1]
    blocks = np.random.default_rng(0).integers(-127, 128, (5, 16)).astype(np.int8)
    model.buffers[weights.buffer].data = blocks.view(np.uint8).reshape(-1)
    weights.sparsity = sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder = np.array([0, 1, 2], np.int32)
    sparsity.blockMap = np.array([1], np.int32)
    rows, held, inner = (schema.DimensionMetadataT() for _ in range(3))
    rows.denseSize, inner.denseSize = 4, 16
    held.format = schema.DimensionType.SPARSE_CSR
    held.arraySegmentsType = held.arrayIndicesType = schema.SparseIndexVector.Int32Vector
    held.arraySegments, held.arrayIndices = schema.Int32VectorT(), schema.Int32VectorT()
    held.arraySegments.values = np.array([0, 1, 3, 4, 5], np.int32)
    held.arrayIndices.values = np.array([0, 0, 1, 1, 0], np.int32)
    sparsity.dimMetadata = [rows, held, inner]
    dense = np.zeros((4, 2, 16), np.int8)
    dense[[0, 1, 1, 2, 3], [0, 0, 1, 1, 0]] = blocks
    if densify:
        whole, code, made = schema.TensorT(), schema.OperatorCodeT(), schema.OperatorT()
        whole.name, whole.shape, whole.type = "dense", weights.shape, weights.type
        whole.quantization = weights.quantization
        network.tensors.append(whole)
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.DENSIFY
        model.operatorCodes.append(code)
        made.opcodeIndex = len(model.operatorCodes) - 1
        made.inputs, made.outputs = np.array([1], np.int32), np.array([3], np.int32)
        network.operators[0].inputs = np.array([0, 3], np.int32)
        network.operators.insert(0, made)
    content = pack(model)
    weights = replace(graph.tensors[1], data=dense.reshape(4, 32))
    plain = write_tflite(replace(graph, tensors={**graph.tensors, 1: weights}))
    program = matloom.compile(content, "nano")
    given = arrays(plain)
    with matloom.load(program, device="model") as session:
        np.testing.assert_array_equal(session.run(given[0]), micro(plain, given, 1)[0])


@pytest.mark.parametrize("op", [Op.CONV_2D, Op.FULLY_CONNECTED])
def test_spare_bytes_after_constants(op):
    graph = RandomOperators([5, 6]).make(op)
    model = unpack(graph)
    for buffer in model.buffers:
        if buffer.data is not None and len(buffer.data):
            buffer.data = np.concatenate([buffer.data, np.full(16, 99, np.uint8)])
    program = matloom.compile(pack(model), "nano")
    given = arrays(write_tflite(graph))
    with matloom.load(program, device="model") as session:
        made = session.run({info.name: x for info, x in zip(program.inputs, given, strict=True)})
    np.testing.assert_array_equal(next(iter(made.values())), micro(pack(model), given, 1)[0])


@pytest.mark.parametrize("version", [0, 1, 4])
def test_other_versions_of_the_schema(version):
    model = unpack(one(Op.RELU, [tensor("x", (3, 5))], tensor("y", (5, 3))))
    model.version = 3
    golden = litert(pack(model), arrays(pack(model)))
    model.version = version
    with matloom.load(pack(model), device="model", config="nano") as session:
        made = session.run(arrays(pack(model))[0])
    np.testing.assert_array_equal(made.ravel(), golden[0].ravel())


def test_padding_of_a_scalar():
    model = unpack(
        one(Op.PAD, [tensor("x", (1,))], tensor("y", (1,)), Pad(before=(0,), after=(0,)))
    )
    for item in model.subgraphs[0].tensors[:2]:
        item.shape = np.array([], np.int32)
    parameter = model.subgraphs[0].tensors[model.subgraphs[0].operators[0].inputs[1]]
    parameter.shape, parameter.buffer = np.array([0, 2], np.int32), 0
    with matloom.load(pack(model), device="model", config="nano") as session:
        assert session.run(np.array(5, np.int8)) == np.array(5)


@pytest.mark.parametrize("op", [Op.TANH, Op.LOGISTIC])
@pytest.mark.parametrize("scale", [1e-30, 3.7e-14, 3.8e-14])
def test_curves_of_words_of_almost_no_scale(op, scale):
    """A multiplier of 0 stands for one of a power of two in reference kernels."""
    words = [tensor("x", (3, 5), scale, dtype="int16"), tensor("y", (3, 5), 2**-15, dtype="int16")]
    check(write_tflite(one(op, words[:1], words[1])), None if scale * 12288 * 2**31 >= 1 else MICRO)


@pytest.mark.parametrize("absent", [1, 2, 5])
def test_absent_inputs_at_the_end(absent):
    pool = Pool2D(window=(2, 2), stride=(2, 2))
    model = unpack(
        one(Op.MAX_POOL_2D, [tensor("x", (1, 4, 4, 2))], tensor("y", (1, 2, 2, 2)), pool)
    )
    operator = model.subgraphs[0].operators[0]
    operator.inputs = np.array([0, *[-1] * absent], np.int32)
    check(pack(model))


@pytest.mark.parametrize("axes", [(0,), (-1,), (3,)])
@pytest.mark.parametrize("op", [Op.MEAN, Op.SUM])
def test_reductions_of_a_scalar(op, axes):
    reduce = Reduce(axes=(0,), keep_dims=False)
    model = unpack(one(op, [tensor("x", (1,))], tensor("y", (), 0.025), reduce))
    model.subgraphs[0].tensors[0].shape = np.array([], np.int32)
    numbers = model.subgraphs[0].tensors[model.subgraphs[0].operators[0].inputs[1]]
    model.buffers[numbers.buffer].data = np.array(axes, np.int32).view(np.uint8)
    check(pack(model))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("op", "attributes", "shape"),
    [
        (Op.HARD_SWISH, None, (1, 8)),
        (Op.LEAKY_RELU, LeakyRelu(alpha=3.0), (1, 8)),
        (Op.MEAN, Reduce(axes=(1,), keep_dims=True), (1, 1)),
        (Op.SUM, Reduce(axes=(1,), keep_dims=True), (1, 1)),
    ],
)
def test_numbers_that_overflow_or_are_none(op, attributes, shape):
    x = Tensor(name="x", shape=(1, 8), dtype="float32", quantisation=None, data=None)
    y = replace(x, name="y", shape=shape)
    content = write_tflite(one(op, [x], y, attributes))
    for ends in ([3e38, 3e38], [-np.inf, 1.0], [np.inf, -np.inf], [np.nan, 0.0]):
        given = np.resize(np.array(ends, np.float32), (1, 8))
        with matloom.load(content, device="model", config="nano", check="none") as session:
            np.testing.assert_array_equal(session.run(given), micro(content, [given], 1)[0])
