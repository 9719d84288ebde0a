"""Layers of different modes in one program, on model and chip."""

import dataclasses

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.compiler import compile_network
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import (
    Activation,
    Attributes,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    LeakyRelu,
    Padding,
    Pool2D,
    Reduce,
)
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.runtime import load
from matloom.tools.references import MicroReference
from matloom.verification.random_operators import RandomOperators

#: As the devices' tests have it: built once for all.
CONFIG = load_config("small+weight_rows=2+tables=1+products=1+i8xi4+i4xi4+i16xi8")
#: Each layer's mode, channels, and the range of its output.
LAYERS = (
    ("i16xi8", 19, (-8, 7)),
    ("i4xi4", 33, (-128, 127)),
    ("i8xi4", 12, (-128, 127)),
    ("i8xi8", 9, (-128, 127)),
)
#: Standard deviations of the input, of four bits after ReLU6, and of other bytes.
SPREAD = {"i16xi8": 18900, "i4xi4": 4}


def network(seed):
    """Return four convolutions: of 16-bit, 4-bit and 8-bit numbers."""
    generator = np.random.default_rng(seed)
    shape = (1, 9, 7, 5)
    tensors = {0: dataclasses.replace(tensor("input", shape, 0.001, 0), dtype="int16")}
    nodes = []
    for index, (mode, channels, (low, high)) in enumerate(LAYERS):
        depth, largest = shape[3], 7 if mode.endswith("i4") else 127
        weights = generator.integers(-largest - 1, largest + 1, (channels, 3, 3, depth), np.int8)
        bias = generator.integers(-500, 500, channels, np.int32)
        given, shape = tensors[3 * index], (1, 9, 7, channels)
        spread = SPREAD.get(mode, 40)
        reach = spread * largest * (9 * depth) ** 0.5 * given.scale * 0.01
        # ReLU6 of this scale and zero point ends where four bits do.
        scale = 6 / 15 if high == 7 else reach / 64
        made = tensor(f"output_{index}", shape, scale, low if high == 7 else -20)
        filters = dataclasses.replace(
            tensor(f"weights_{index}", weights.shape, 0.01, 0), data=weights
        )
        tensors |= {
            3 * index + 1: filters,
            3 * index + 2: Tensor(
                name=f"bias_{index}", shape=(channels,), dtype="int32", data=bias
            ),
            3 * index + 3: made,
        }
        attributes = Conv2D(
            padding=Padding(top=1, bottom=1, left=1, right=1),
            activation=Activation.RELU6 if high == 7 else Activation.NONE,
            mode=mode,
        )
        inputs = (3 * index, 3 * index + 1, 3 * index + 2)
        nodes.append(
            Node(
                op=Op.CONV_2D,
                inputs=inputs,
                outputs=(3 * index + 3,),
                attributes=attributes,
                index=index,
            )
        )
    last = 3 * len(LAYERS)
    return Graph(name="modes", inputs=(0,), outputs=(last,), tensors=tensors, nodes=tuple(nodes))


def tensor(name, shape, scale, zero):
    quantisation = Quantisation(scale=(scale,), zero_point=(zero,))
    return Tensor(name=name, shape=shape, dtype="int8", quantisation=quantisation)


@pytest.mark.parametrize("device", ["model", "fast", pytest.param("rtl", marks=pytest.mark.slow)])
def test_four_modes_in_one_program(device, seed):
    graph = network(seed)
    program = compile_network(graph, CONFIG)
    assert [layer.mode for layer in program.layers] == [mode for mode, *_rest in LAYERS]
    assert len(program.steps) == 1
    session = load(program, device=device)
    for sample in range(3):
        noise = np.random.default_rng([seed, sample])
        image = noise.integers(-(2**15), 2**15, (1, 9, 7, 5), np.int16)
        expected = interpret(graph, {0: image}, keep=True)
        assert len(np.unique(expected[3])) == 16
        assert all(len(np.unique(expected[number])) > 50 for number in (6, 9, 12))
        assert np.array_equal(session.run(image), expected[12])


def test_a_mode_that_is_not_built_runs_on_the_host():
    config = dataclasses.replace(CONFIG, mac_modes=("i8xi8", "i8xi4"))
    program = compile_network(network(0), config)
    assert [layer.where for layer in program.layers] == ["host", "host", "engine", "engine"]
    assert program.layers[0].reason == "the engine is built with i8xi8, i8xi4, not i16xi8"
    assert program.layers[1].reason == "the engine is built with i8xi8, i8xi4, not i4xi4"


def words_chain(seed):
    """Return three int16 layers: a convolution, a depthwise one and a dense one."""
    generator = np.random.default_rng(seed)
    same = Padding(top=1, bottom=1, left=1, right=1)
    layers = (
        # At this scale 6 is 20007, no whole number of 256.
        (Op.CONV_2D, (11, 3, 3, 5), 6 / 20007, Conv2D(padding=same, activation=Activation.RELU6)),
        (
            Op.DEPTHWISE_CONV_2D,
            (1, 3, 3, 11),
            1e-3,
            DepthwiseConv2D(padding=same),
        ),
        (
            Op.FULLY_CONNECTED,
            (10, 9 * 7 * 11),
            2e-2,
            FullyConnected(activation=Activation.RELU),
        ),
    )
    tensors = {0: dataclasses.replace(tensor("input", (1, 9, 7, 5), 1e-4, 0), dtype="int16")}
    nodes = []
    for index, (op, shape, scale, attributes) in enumerate(layers):
        weights = generator.integers(-60, 61, shape, np.int8)
        channels = shape[3] if op is Op.DEPTHWISE_CONV_2D else shape[0]
        bias = generator.integers(-(10**6), 10**6, channels, np.int64)
        made = (1, channels) if op is Op.FULLY_CONNECTED else (1, 9, 7, channels)
        tensors |= {
            3 * index + 1: dataclasses.replace(
                tensor(f"weights_{index}", shape, 0.01, 0), data=weights
            ),
            3 * index + 2: Tensor(
                name=f"bias_{index}", shape=(channels,), dtype="int64", data=bias
            ),
            3 * index + 3: dataclasses.replace(
                tensor(f"output_{index}", made, scale, 0), dtype="int16"
            ),
        }
        inputs = (3 * index, 3 * index + 1, 3 * index + 2)
        nodes.append(
            Node(op=op, inputs=inputs, outputs=(3 * index + 3,), attributes=attributes, index=index)
        )
    return Graph(name="words", inputs=(0,), outputs=(9,), tensors=tensors, nodes=tuple(nodes))


@pytest.mark.parametrize("device", ["model", "fast", pytest.param("rtl", marks=pytest.mark.slow)])
def test_words_from_layer_to_layer(device, seed):
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    graph = words_chain(seed)
    program = compile_network(graph, CONFIG)
    assert [layer.mode for layer in program.layers] == ["i16xi8"] * 3
    assert len(program.steps) == 1
    reference = MicroReference(write_tflite(graph), graph)
    session = load(program, device=device)
    for sample in range(3):
        noise = np.random.default_rng([seed, sample])
        image = noise.integers(-(2**15), 2**15, (1, 9, 7, 5), np.int16)
        expected = reference.run({0: image})
        assert expected[3].max() == 20007
        assert len(np.unique(expected[9])) > 3
        assert np.array_equal(session.run(image), expected[9])


def words_of_many_operators(seed):
    """Return a convolution of int16, then limits and sums, and a dense layer."""
    instances = RandomOperators(seed, "int16")
    tensors = {0: instances._tensor("input", (1, 24, 20, 12), scale=1e-4)}
    nodes = []

    def add(op, made, attributes, *constants):
        first = 0 if not nodes else nodes[-1].outputs[0]
        inputs = (first, *range(len(tensors), len(tensors) + len(constants)))
        tensors.update(zip(inputs[1:], constants, strict=True))
        number, index = len(tensors), len(nodes)
        tensors[number] = dataclasses.replace(made, name=f"output_{index}")
        nodes.append(
            Node(op=op, inputs=inputs, outputs=(number,), attributes=attributes, index=index)
        )

    def layer(name, shape):
        weights = instances.random.integers(-60, 61, shape, np.int8)
        return dataclasses.replace(tensor(name, shape, 0.01, 0), data=weights)

    # At this scale 6 is 20007, no whole number of 256.
    wide, small = (
        instances._tensor("", (1, *size, 22), scale=6 / 20007) for size in ((24, 20), (12, 10))
    )
    level = dataclasses.replace(
        instances._tensor("level", (1,), scale=wide.scale), data=np.array([-1234], np.int16)
    )
    same = Padding(top=1, bottom=1, left=1, right=1)
    convolution = Conv2D(padding=same)
    add(Op.CONV_2D, wide, convolution, layer("filters", (22, 3, 3, 12)))
    add(Op.LEAKY_RELU, wide, LeakyRelu(alpha=0.3))
    add(Op.MAXIMUM, wide, Attributes(), level)
    edges = Padding(bottom=1, right=1)
    add(Op.AVERAGE_POOL_2D, small, Pool2D(window=(3, 3), stride=(2, 2), padding=edges))
    add(Op.RELU6, small, Attributes())
    scaled = instances._tensor("", small.shape, scale=2e-4)
    add(Op.RELU, scaled, Attributes())
    mean = instances._tensor("", (1, 22), scale=1e-4)
    add(Op.MEAN, mean, Reduce(axes=(1, 2), keep_dims=False))
    dense = FullyConnected()
    made = instances._tensor("", (1, 10), scale=1e-3)
    add(Op.FULLY_CONNECTED, made, dense, layer("dense", (10, 22)))
    graph = Graph(
        name="words", inputs=(0,), outputs=nodes[-1].outputs, tensors=tensors, nodes=tuple(nodes)
    )
    verify(graph, "test")
    return graph


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("device", ["model", "fast", "rtl"])
def test_words_through_many_operators(device, seed):
    """One step, with TensorFlow Lite Micro's results and the predicted cycles."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    graph = words_of_many_operators(seed)
    program = compile_network(graph, CONFIG)
    assert len(program.steps) == 1
    reference = MicroReference(write_tflite(graph), graph)
    session = load(program, device=device)
    (last,) = graph.outputs
    for sample in range(2):
        noise = np.random.default_rng([seed, sample])
        image = noise.integers(-(2**15), 2**15, (1, 24, 20, 12), np.int16)
        expected = reference.run({0: image})[last]
        assert len(np.unique(expected)) > 3
        assert np.array_equal(session.run(image), expected)
    report = session.report()
    assert abs(report.predicted_cycles / report.cycles - 1) < 0.05


def test_wide_sums_that_might_overflow_run_on_the_host():
    """64-bit sums; 32-bit ones wrap on the engine as in the kernels."""
    graph = words_chain(0)
    bias = graph.tensors[2]
    for data in (np.full(bias.shape, 2**31, np.int64), np.full(bias.shape, 2**31 - 1, np.int32)):
        changed = dataclasses.replace(bias, data=data, dtype=data.dtype.name)
        tensors = {**graph.tensors, 2: changed}
        layer = compile_network(dataclasses.replace(graph, tensors=tensors), CONFIG).layers[0]
        if data.dtype == np.int32:
            assert layer.where == "engine"
            continue
        assert layer.where == "host"
        assert layer.reason.startswith("sums must fit 32 bits whatever the input")


def test_sums_of_words_that_might_not_fit_run_on_the_host():
    graph = network(0)
    tensors = dict(graph.tensors)
    bias = tensors[2]
    tensors[2] = dataclasses.replace(bias, data=np.full(bias.shape, 2**31 - 1, np.int32))
    program = compile_network(dataclasses.replace(graph, tensors=tensors), CONFIG)
    assert program.layers[0].where == "host"
    assert program.layers[0].reason.startswith("sums must fit 32 bits whatever the input")
