"""Layers of different modes in one program, on model and chip."""

import dataclasses

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.compiler import compile_network
from matloom.hostops.interpreter import interpret
from matloom.ir.attributes import Activation, Conv2D, Padding
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.runtime import load

#: As the devices' tests have it: built once for all.
CONFIG = load_config("small+weight_rows=2+tables=1+products=1+i8xi4+i4xi4+i16xi8")
#: Each layer's mode, channels, and the range of its output.
LAYERS = (
    ("i16xi8", 19, (-8, 7)),
    ("i4xi4", 33, (-128, 127)),
    ("i8xi4", 12, (-128, 127)),
    ("i8xi8", 9, (-128, 127)),
)
#: Standard deviations of the input, of four bits behind ReLU6, and of other bytes.
SPREAD = {"i16xi8": 18900, "i4xi4": 4}


def network(seed):
    """Return four convolutions: of words, of four bits, and of bytes."""
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
            stride=(1, 1),
            dilation=(1, 1),
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


@pytest.mark.parametrize("device", ["model", "rtl"])
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


def test_sums_of_words_that_might_not_fit_run_on_the_host():
    graph = network(0)
    tensors = dict(graph.tensors)
    bias = tensors[2]
    tensors[2] = dataclasses.replace(bias, data=np.full(bias.shape, 2**31 - 1, np.int32))
    program = compile_network(dataclasses.replace(graph, tensors=tensors), CONFIG)
    assert program.layers[0].where == "host"
    assert program.layers[0].reason.startswith("sums must fit 32 bits whatever the input")
