"""Layers in bf16 and fp16: the graph after the pass, and the engine's results."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import matloom
from matloom.arch.config import PRESETS
from matloom.arch.modes import FLOAT_MODES
from matloom.compiler import CompileError
from matloom.ir.attributes import NO_PADDING, Activation, Conv2D, FullyConnected, Padding
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.verify import verify
from matloom.passes.lower_precision import lower_precision, widen_weights

DTYPES = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16}
#: As the chip of floating point in host/tests/device, so that one simulator serves both.
CONFIG = dataclasses.replace(
    PRESETS["nano"], weight_rows=2, float_rows=2, mac_modes=("i8xi8", "i16xi8", *FLOAT_MODES)
)
LIMITS = {Activation.NONE: (-np.inf, np.inf), Activation.RELU6: (0, 6)}


class Net:
    """Two convolutions and a dense layer of float32."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.filters = rng.standard_normal((5, 3, 3, 3)).astype(np.float32)
        self.second = rng.standard_normal((9, 2, 1, 5)).astype(np.float32)
        self.dense = rng.standard_normal((6, 9 * 2 * 4)).astype(np.float32)
        self.biases = [rng.standard_normal(count).astype(np.float32) for count in (5, 9, 6)]
        self.x = rng.standard_normal((1, 6, 7, 3)).astype(np.float32)

    def graph(self):
        constants = {3: self.filters, 4: self.second, 5: self.dense}
        constants |= {6 + index: bias for index, bias in enumerate(self.biases)}
        shapes = {0: (1, 6, 7, 3), 1: (1, 3, 4, 5), 2: (1, 2, 4, 9), 9: (1, 6), 10: (1, 72)}
        names = {0: "x", 1: "first", 2: "second", 9: "y", 10: "flat"}
        tensors = {
            number: Tensor(name=names[number], shape=shape, dtype="float32")
            for number, shape in shapes.items()
        }
        for number, data in constants.items():
            tensors[number] = Tensor(
                name=f"c{number}", shape=data.shape, dtype="float32", data=data
            )
        first = Conv2D(
            stride=(2, 2), padding=Padding(bottom=1, left=1, right=1), activation=Activation.RELU6
        )
        second = dataclasses.replace(
            first,
            stride=(1, 1),
            padding=NO_PADDING,
            activation=Activation.NONE,
        )
        dense = FullyConnected()
        nodes = (
            Node(op=Op.CONV_2D, inputs=(0, 3, 6), outputs=(1,), attributes=first, index=0),
            Node(op=Op.CONV_2D, inputs=(1, 4, 7), outputs=(2,), attributes=second, index=1),
            Node(op=Op.RESHAPE, inputs=(2,), outputs=(10,), index=2),
            Node(op=Op.FULLY_CONNECTED, inputs=(10, 5, 8), outputs=(9,), attributes=dense, index=3),
        )
        return Graph(name="net", inputs=(0,), outputs=(9,), tensors=tensors, nodes=nodes)


def layer(x, filters, bias, dtype, *, stride=1, pad=0, activation=Activation.NONE):
    """Sum in the engine's order: kernel rows, and `float_rows` numbers of a run at a time.

    Numbers that a vector reads beyond the run are multiplied by zero.
    """
    elements = CONFIG.float_rows
    channels, rows, columns, depth = filters.shape
    x, filters = (each.astype(dtype).astype(np.float32) for each in (x, filters))
    height, width = x.shape[1:3]
    steps = -(-columns * depth // elements)
    run = np.zeros((channels, rows, steps * elements), np.float32)
    run[:, :, : columns * depth] = filters.reshape(channels, rows, -1)
    lines = np.zeros((height + rows, (pad + width + columns) * depth + elements), np.float32)
    lines[:height, pad * depth : (pad + width) * depth] = x.reshape(height, -1)
    out_height = 3 if stride == 2 else height - rows + 1
    out_width = 4 if stride == 2 else width - columns + 1
    y = np.zeros((1, out_height, out_width, channels), np.float32)
    for row, column in np.ndindex(out_height, out_width):
        total = None
        for tap in range(rows):
            first = column * stride * depth
            numbers = lines[row * stride + tap, first : first + steps * elements]
            for step in range(0, steps * elements, elements):
                p = run[:, tap, step : step + elements] * numbers[step : step + elements]
                total = p[:, 0] + p[:, 1] if total is None else total + (p[:, 0] + p[:, 1])
        y[0, row, column] = np.clip(total + bias, *LIMITS[activation])
    return y


@pytest.mark.parametrize("mode", DTYPES)
def test_network(mode):
    net, dtype = Net(), DTYPES[mode]
    first = layer(
        net.x, net.filters, net.biases[0], dtype, stride=2, pad=1, activation=Activation.RELU6
    )
    # Only a layer of the same mode reads it, so it was rounded when it was made.
    second = layer(first, net.second, net.biases[1], dtype)
    flat = second.reshape(1, 1, 1, -1)
    dense = layer(flat, net.dense.reshape(6, 1, 1, -1), net.biases[2], dtype)
    session = matloom.load(net.graph(), device="model", config=CONFIG, precision=mode)
    made = session.run(net.x)
    assert np.array_equal(made, dense.reshape(1, 6))
    layers = {item.operator: item.where for item in session.program.layers}
    assert layers["CONV_2D"] == layers["FULLY_CONNECTED"] == "engine"


@pytest.mark.slow
@pytest.mark.parametrize("mode", DTYPES)
def test_chip(mode):
    net = Net(1)
    model, chip = (
        matloom.load(net.graph(), device=device, config=CONFIG, precision=mode).run(net.x)
        for device in ("model", "rtl")
    )
    assert np.array_equal(chip, model)


def test_unsuitable_layers_stay_float32():
    """A horizontally dilated kernel is not a single run."""
    graph = Net().graph()
    conv = graph.nodes[1]
    wide = np.zeros((9, 2, 1, 5), np.float32)
    filters = np.concatenate([wide, Net().second], axis=2)
    tensors = dict(graph.tensors)
    tensors[4] = dataclasses.replace(tensors[4], shape=filters.shape, data=filters)
    tensors[2] = dataclasses.replace(tensors[2], shape=(1, 2, 2, 9))
    tensors[10] = dataclasses.replace(tensors[10], shape=(1, 36))
    dense = Net().dense[:, :36].copy()
    tensors[5] = dataclasses.replace(tensors[5], shape=dense.shape, data=dense)
    dilated = dataclasses.replace(conv.attributes, dilation=(1, 2))
    nodes = (
        graph.nodes[0],
        dataclasses.replace(conv, attributes=dilated),
        *graph.nodes[2:],
    )
    graph = dataclasses.replace(graph, tensors=tensors, nodes=nodes)
    session = matloom.load(graph, device="model", config=CONFIG, precision="bf16")
    where = {item.name: item.where for item in session.program.layers}
    assert (where["first"], where["second"], where["y"]) == ("engine", "host", "engine")
    plain = matloom.load(graph, device="model", config=CONFIG).run(Net().x)
    assert np.allclose(session.run(Net().x), plain, atol=0.5)


@pytest.mark.parametrize("mode", DTYPES)
def test_graph(mode):
    graph = lower_precision(Net().graph(), mode)
    verify(graph, "lower_precision")
    ops = [str(node.op) for node in graph.nodes]
    assert ops == ["QUANTIZE", "CONV_2D", "CONV_2D", "RESHAPE", "QUANTIZE", "FULLY_CONNECTED"]
    carrier = {"bf16": "uint16", "fp16": "float16"}[mode]
    assert [graph.tensors[number].dtype for number in (0, 1, 2, 9)] == [
        "float32",
        carrier,
        "float32",
        "float32",
    ]


def test_integer_weights_stand_for_numbers():
    graph = Net().graph()
    integers = np.arange(-67, 68).reshape(5, 3, 3, 3).astype(np.int8)
    scales = tuple(0.5**power for power in range(5))
    quantised = Quantisation(scale=scales, zero_point=(0,) * 5, axis=0)
    tensors = dict(graph.tensors)
    tensors[3] = dataclasses.replace(
        tensors[3], dtype="int8", data=integers, quantisation=quantised
    )
    graph = widen_weights(dataclasses.replace(graph, tensors=tensors))
    wanted = integers * np.array(scales, np.float32).reshape(5, 1, 1, 1)
    assert np.array_equal(graph.tensors[3].data, wanted)
    assert graph.tensors[3].dtype == "float32"


def test_a_layer_by_its_name():
    graph = lower_precision(Net().graph(), {"second": "fp16"})
    verify(graph, "lower_precision")
    modes = [getattr(node.attributes, "mode", None) for node in graph.nodes]
    assert modes == [None, None, "fp16", None, None]


def test_another_engine_leaves_them_to_the_host():
    net = Net()
    plain = dataclasses.replace(CONFIG, mac_modes=("i8xi8", "bf16"))
    session = matloom.load(net.graph(), device="model", config=plain, precision="bf16")
    assert {step.where for step in session.program.layers} == {"engine"}
    with pytest.raises(CompileError, match="fp16"):
        matloom.compile(net.graph(), plain, precision="fp16")


@pytest.mark.parametrize(
    ("precision", "sentence"),
    [
        ("fp64", "a precision must be one of bf16, fp16, i8xi4, float32, i8xi8, not 'fp64'"),
        ({"third": "bf16"}, "precision must name convolutions and dense layers .*, not 'third'"),
        ("i8xi4", "that has convolutions or dense layers of int8, not of 'net'"),
    ],
)
def test_refusals(precision, sentence):
    with pytest.raises(ValueError, match=sentence):
        lower_precision(Net().graph(), precision)
