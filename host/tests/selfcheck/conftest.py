"""A network that exercises the scheduler's optimisations, and one with an opaque operator."""

import flatbuffers
import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.data.digits import NETWORK
from matloom.ir.attributes import Attributes, Axis, Conv2D
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.verify import verify


@pytest.fixture
def config():
    """Return an engine with a table."""
    return load_config("small+tables=1")


@pytest.fixture
def branches():
    """Return two convolutions, one followed by HARD_SWISH, concatenated by channels."""
    generator = np.random.default_rng(0)
    scale = Quantisation(scale=(0.05,), zero_point=(-3,))
    shapes = {0: (1, 6, 5, 8), 1: (1, 6, 5, 7), 2: (1, 6, 5, 9), 3: (1, 6, 5, 9), 4: (1, 6, 5, 16)}
    names = ("x", "left", "right", "swish", "y")
    tensors = {
        number: Tensor(name=names[number], shape=shape, dtype="int8", quantisation=scale)
        for number, shape in shapes.items()
    }
    for number, channels in ((5, 7), (6, 9)):
        weights = generator.integers(-128, 128, (channels, 1, 1, 8)).astype(np.int8)
        tensors[number] = Tensor(
            name=f"weights_{number}",
            shape=weights.shape,
            dtype="int8",
            quantisation=Quantisation(scale=(0.01,), zero_point=(0,)),
            data=weights,
        )
    layer = Conv2D()
    nodes = (
        Node(op=Op.CONV_2D, inputs=(0, 5), outputs=(1,), attributes=layer, index=0),
        Node(op=Op.CONV_2D, inputs=(0, 6), outputs=(2,), attributes=layer, index=1),
        Node(op=Op.HARD_SWISH, inputs=(2,), outputs=(3,), attributes=Attributes(), index=2),
        Node(op=Op.CONCATENATION, inputs=(1, 3), outputs=(4,), attributes=Axis(axis=3), index=3),
    )
    graph = Graph(name="branches", inputs=(0,), outputs=(4,), tensors=tensors, nodes=nodes)
    verify(graph, "test")
    return graph


@pytest.fixture
def opaque():
    """Return the file of the digits with ADD_N, which has no kernel here."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    schema = runtime.schema_fb
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(NETWORK.read_bytes(), 0))
    operator = model.subgraphs[0].operators[3]
    code = model.operatorCodes[operator.opcodeIndex]
    assert code.builtinCode == schema.BuiltinOperator.ADD
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.ADD_N
    # It wants inputs of one scale.
    operator.inputs = [operator.inputs[0]] * 2
    operator.builtinOptions = schema.AddNOptionsT()
    operator.builtinOptionsType = schema.BuiltinOptions.AddNOptions
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
