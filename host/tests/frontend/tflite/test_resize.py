"""Inputs with other shapes: networks of unknown height and width, against LiteRT resized."""

import re
import sys

import flatbuffers
import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.errors import MissingPackageError
from matloom.frontend.errors import ModelError
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Activation, Axis, Conv2D, FullyConnected, Padding, Reduce
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from support.oracles import litert

schema = pytest.importorskip(
    "ai_edge_litert.schema_py_generated", reason="ai-edge-litert is not installed"
)
NETWORK = {"name": "net", "inputs": (0,)}


def quantised(name, shape, scale=0.05, data=None, axis=None):
    scales = (scale,) if axis is None else (scale,) * shape[axis]
    quantisation = Quantisation(scale=scales, zero_point=(0,) * len(scales), axis=axis)
    return Tensor(name=name, shape=shape, dtype="int8", quantisation=quantisation, data=data)


def convolutional():
    """Return a network of a convolution at stride 2, a mean over the image and a dense layer."""
    draw = np.random.default_rng(0)
    weights = draw.integers(-90, 90, (8, 3, 3, 3)).astype(np.int8)
    dense = draw.integers(-90, 90, (4, 8)).astype(np.int8)
    tensors = {
        0: quantised("x", (1, 8, 8, 3)),
        1: quantised("weights", (8, 3, 3, 3), 0.01, weights, axis=0),
        2: quantised("features", (1, 4, 4, 8)),
        3: quantised("mean", (1, 8), 0.02),
        4: quantised("dense", (4, 8), 0.01, dense),
        5: quantised("y", (1, 4), 0.03),
        6: Tensor(name="bias", shape=(8,), dtype="int32", data=draw.integers(-99, 99, 8, np.int32)),
    }
    convolution = Conv2D(
        stride=(2, 2), padding=Padding(bottom=1, right=1), activation=Activation.RELU
    )
    mean = Reduce(axes=(1, 2), keep_dims=False)
    layer = FullyConnected()
    nodes = (
        Node(op=Op.CONV_2D, inputs=(0, 1, 6), outputs=(2,), attributes=convolution, index=0),
        Node(op=Op.MEAN, inputs=(2,), outputs=(3,), attributes=mean, index=1),
        Node(op=Op.FULLY_CONNECTED, inputs=(3, 4), outputs=(5,), attributes=layer, index=2),
    )
    return Graph(**NETWORK, outputs=(5,), tensors=tensors, nodes=nodes)


def pack(model):
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def unpack(content):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))


def left_open(graph):
    """Return the file of a network with unknown height and width, as converters write it."""
    model = unpack(write_tflite(graph))
    for tensor in model.subgraphs[0].tensors[:3:2]:
        tensor.shapeSignature = np.array([1, -1, -1, tensor.shape[3]], np.int32)
        tensor.shape = np.array([1, 1, 1, tensor.shape[3]], np.int32)
    return pack(model)


def images(shape):
    return np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("shape", [(1, 12, 12, 3), (1, 7, 19, 3), (1, 1, 1, 3), (1, 33, 2, 3)])
@pytest.mark.parametrize("config", ["nano", "reference"])
def test_height_and_width(shape, config):
    content, image = left_open(convolutional()), images(shape)
    program = matloom.compile(content, config, shapes={"x": shape})
    assert program.inputs[0].shape == shape
    assert {layer.where for layer in program.layers} == {"engine"}
    (expected,) = litert(content, [image])
    with matloom.load(program, device="model") as session:
        np.testing.assert_array_equal(session.run(image), expected)


def test_all_shapes_follow():
    graph = frontend.load(left_open(convolutional()), {"x": (1, 9, 30, 3)})
    shapes = [graph.tensors[number].shape for number in (0, 2, 3, 5)]
    assert shapes == [(1, 9, 30, 3), (1, 5, 15, 8), (1, 8), (1, 4)]


def test_a_network_of_known_sizes():
    content, image = write_tflite(convolutional()), images((1, 20, 10, 3))
    with matloom.load(content, device="model", config="nano", shapes={"x": (1, 20, 10, 3)}) as s:
        np.testing.assert_array_equal(s.run(image), litert(content, [image])[0])


def doubled():
    """Return a network that doubles an image, with sizes computed from its shape."""
    model = schema.ModelT()
    graph = schema.SubGraphT()
    model.version, model.subgraphs, model.operatorCodes = 3, [graph], []
    model.buffers = [schema.BufferT()]
    graph.tensors, graph.operators = [], []

    def tensor(name, shape, kind, data=None, signature=None):
        made = schema.TensorT()
        made.name, made.shape, made.type = name, np.array(shape, np.int32), kind
        made.shapeSignature = signature
        if kind == schema.TensorType.INT8:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale, made.quantization.zeroPoint = [0.05], [0]
        buffer = schema.BufferT()
        if data is not None:
            buffer.data = np.frombuffer(np.array(data, np.int32).tobytes(), np.uint8)
        made.buffer = len(model.buffers)
        model.buffers.append(buffer)
        graph.tensors.append(made)
        return len(graph.tensors) - 1

    def operator(name, inputs, outputs, options):
        code, made = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
        model.operatorCodes.append(code)
        made.opcodeIndex = len(model.operatorCodes) - 1
        made.inputs, made.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        made.builtinOptions = options
        made.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
        graph.operators.append(made)

    kinds, image = schema.TensorType, np.array([1, -1, -1, 2], np.int32)
    given = tensor("x", (1, 1, 1, 2), kinds.INT8, signature=image)
    positive = tensor("positive", (1, 1, 1, 2), kinds.INT8, signature=image)
    shape = tensor("shape", (4,), kinds.INT32)
    ends = [tensor(str(ends), (1,), kinds.INT32, ends) for ends in ([1], [3], [1])]
    size, two = tensor("size", (2,), kinds.INT32), tensor("two", (), kinds.INT32, 2)
    twice = tensor("twice", (2,), kinds.INT32)
    made = tensor("y", (1, 1, 1, 2), kinds.INT8, signature=image)
    operator("MAXIMUM", [given, given], [positive], schema.MaximumMinimumOptionsT())
    operator("SHAPE", [positive], [shape], schema.ShapeOptionsT())
    graph.operators[-1].builtinOptions.outType = kinds.INT32
    operator("STRIDED_SLICE", [shape, *ends], [size], schema.StridedSliceOptionsT())
    operator("MUL", [size, two], [twice], schema.MulOptionsT())
    resize = schema.ResizeNearestNeighborOptionsT()
    operator("RESIZE_NEAREST_NEIGHBOR", [positive, twice], [made], resize)
    graph.inputs, graph.outputs = np.array([given], np.int32), np.array([made], np.int32)
    return pack(model)


def test_values_computed_from_shapes_are_folded():
    content, image = doubled(), images((1, 5, 3, 2))
    graph = frontend.load(content, {"x": (1, 5, 3, 2)})
    assert [node.op for node in graph.nodes] == [Op.MAXIMUM, Op.RESIZE_NEAREST_NEIGHBOR]
    (expected,) = litert(content, [image])
    assert expected.shape == (1, 10, 6, 2)
    with matloom.load(graph, device="model", config="nano") as session:
        np.testing.assert_array_equal(session.run(image), expected)


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        ({"y": (1, 8, 8, 3)}, "model: a shape must be of an input (x), not 'y'"),
        ({"x": (8, 8, 3)}, "model: the shape of input 'x' must have 4 dimensions, not (8, 8, 3)"),
        (
            {"x": (1, 0, 8, 3)},
            "model: the shape of input 'x' must have dimensions of at least 1, not (1, 0, 8, 3)",
        ),
        (
            {"x": (1, 8.5, 8, 3)},
            "the shape of input 'x' must be of whole numbers, not (1, 8.5, 8, 3)",
        ),
        ({"x": (1, 8, 8, 6)}, "model: input 'x' must have 3 channels, not 6"),
        (
            {"x": (1, 2**20, 2**20, 3)},
            (
                "model: the shape of input 'x' must have at most 1073741824 elements, "
                "not (1, 1048576, 1048576, 3)"
            ),
        ),
    ],
)
def test_wrong_shapes(shapes, sentence):
    with pytest.raises(ModelError) as error:
        frontend.load(left_open(convolutional()), shapes)
    assert str(error.value) == sentence
    assert error.value.hint == "matloom explain NET lists the inputs and their shapes"


def test_shapes_that_the_network_cannot_have():
    """Two images of different sizes cannot be concatenated."""
    given = [quantised(name, (1, 4, 4, 2)) for name in "ab"]
    made = quantised("joined", (1, 4, 4, 4))
    node = Node(op=Op.CONCATENATION, inputs=(0, 1), outputs=(2,), attributes=Axis(axis=3), index=0)
    graph = Graph(
        name="net",
        inputs=(0, 1),
        outputs=(2,),
        tensors={**dict(enumerate([*given, made]))},
        nodes=(node,),
    )
    content = write_tflite(graph)
    both = {"a": (1, 6, 5, 2), "b": (1, 6, 5, 2)}
    assert frontend.load(content, both).tensors[2].shape == (1, 6, 5, 4)
    with pytest.raises(ModelError, match=r"model: inputs of a \(1, 6, 5, 2\) do not fit the netw"):
        frontend.load(content, {"a": (1, 6, 5, 2)})


def test_without_litert(monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(
        MissingPackageError, match="giving inputs other shapes needs the package ai-edg"
    ):
        frontend.load(left_open(convolutional()), {"x": (1, 8, 8, 3)})


def test_shapes_need_a_file():
    graph = convolutional()
    with pytest.raises(TypeError, match="shapes must go with a file, not the graph 'net'"):
        matloom.compile(graph, "nano", shapes={"x": (1, 8, 8, 3)})
    program = matloom.compile(graph, "nano")
    with pytest.raises(TypeError, match="shapes must go with a network, not the program 'net'"):
        matloom.load(program, device="model", shapes={"x": (1, 8, 8, 3)})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"shapes": (1, 8, 8, 3)}, "shapes must be a mapping by the name of the input, not (1, 8"),
        ({"shapes": [("x", (1, 8, 8, 3))]}, "shapes must be a mapping by the name of the input"),
        ({"shapes": {"x": 8}}, "the shape of input 'x' must be of whole numbers, not 8"),
        ({"shapes": {"x": "1,8,8,3"}}, "the shape of input 'x' must be of whole numbers, not '1"),
        ({"dims": ("n", 1)}, "dims must be a mapping by the name of the dimension, not ('n', 1)"),
        ({"dims": 5}, "dims must be a mapping by the name of the dimension, not 5"),
        ({"dims": {"n": "1"}}, "the size of dimension 'n' must be a whole number, not '1'"),
        ({"dims": {"n": 1.0}}, "the size of dimension 'n' must be a whole number, not 1.0"),
    ],
)
def test_arguments_of_a_wrong_type_are_not_blamed_on_the_file(sizes, message):
    for reading in (frontend.load, frontend.reshape):
        with pytest.raises((ModelError, TypeError), match=re.escape(message)):
            reading(left_open(convolutional()), **sizes)


def test_sizes_may_be_numpy_integers():
    content = left_open(convolutional())
    shape = np.array([1, 20, 10, 3])
    assert frontend.load(content, {"x": shape}).tensors[0].shape == (1, 20, 10, 3)
