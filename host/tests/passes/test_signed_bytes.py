"""Networks of uint8 on int8: the same results as the kernels for uint8, which are LiteRT's."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS, load_config
from matloom.ir.attributes import (
    Activation,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Padding,
    Pool2D,
    Softmax,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.text import to_text
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes.signed_bytes import ALIKE, as_signed, store_signed_bytes
from matloom.tools.compare import random_inputs
from matloom.verification.random_operators import KINDS, RandomOperators
from support.chain import exact_programs, executes

LAYERS = (Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.FULLY_CONNECTED)
FUNCTIONS = (Op.LOGISTIC, Op.TANH)
CONVERTED = [op for op in KINDS if op in (*ALIKE, *LAYERS, Op.AVERAGE_POOL_2D, *FUNCTIONS)]


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize("op", CONVERTED)
def test_operators_on_int8_have_the_same_results(op, seed):
    instances, converted = RandomOperators([seed, *op.encode()], "uint8"), 0
    for number in range(30):
        graph = instances.make(op)
        other = as_signed(graph)
        verify(other, "test")
        types = {other.tensors[at].dtype for node in other.nodes for at in node.outputs}
        converted += "int8" in types or any(node.op is Op.QUANTIZE for node in other.nodes)
        given = random_inputs(graph, seed + number)
        results = interpret(other, given)
        for at, expected in interpret(graph, given).items():
            np.testing.assert_array_equal(results[at], expected, err_msg=to_text(graph))
    assert converted > 10


def scale(zero, scale=0.05):
    return Quantisation(scale=(scale,), zero_point=(zero,))


def layer(op, zero, weights, *, stride=(1, 1), depth=5, size=(9, 11), seed=0, **more):
    """Return a network of one layer; `weights` is the shape of its weights."""
    generator, builder = np.random.default_rng(seed), GraphBuilder()
    shape = (3, depth) if op is Op.FULLY_CONNECTED else (1, *size, depth)
    image = builder.input("image", shape, "uint8", scale(120))
    filters = builder.constant(generator.integers(0, 256, weights, np.uint8), scale(zero, 0.004))
    channels = weights[-1] if op is Op.DEPTHWISE_CONV_2D else weights[0]
    bias = builder.constant(generator.integers(-3000, 3000, channels, np.int32))
    kinds = {Op.CONV_2D: Conv2D, Op.DEPTHWISE_CONV_2D: DepthwiseConv2D}
    padding = Padding(top=weights[1] // 2, left=weights[2] // 2) if op in kinds else None
    attributes = (
        kinds[op](stride=stride, padding=padding, activation=Activation.RELU6, **more)
        if op in kinds
        else FullyConnected()
    )
    made = builder.add(op, [image, filters, bias], attributes, quantisation=scale(13, 0.11))
    return builder.graph(made)


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("preset", ["reference", "small", "nano", "small+columns=16"])
@pytest.mark.parametrize("zero", [1, 122, 128, 131, 255])
@pytest.mark.parametrize(
    ("op", "weights", "options"),
    [
        (Op.CONV_2D, (7, 1, 1, 5), {}),
        (Op.CONV_2D, (40, 1, 1, 70), {"depth": 70}),
        (Op.CONV_2D, (20, 3, 3, 19), {"depth": 19, "stride": (2, 2)}),
        (Op.CONV_2D, (33, 3, 3, 16), {"depth": 16, "dilation": (2, 2)}),
        (Op.DEPTHWISE_CONV_2D, (1, 3, 3, 5), {}),
        (Op.DEPTHWISE_CONV_2D, (1, 3, 3, 40), {"depth": 40}),
        (Op.DEPTHWISE_CONV_2D, (1, 5, 5, 40), {"depth": 40, "stride": (2, 2)}),
        (Op.DEPTHWISE_CONV_2D, (1, 3, 3, 40), {"depth": 20, "depth_multiplier": 2}),
        (Op.DEPTHWISE_CONV_2D, (1, 3, 3, 40), {"depth": 40, "dilation": (2, 2)}),
        (Op.FULLY_CONNECTED, (37, 100), {"depth": 100}),
        (Op.FULLY_CONNECTED, (300, 40), {"depth": 40}),
    ],
)
def test_layers_run_on_the_engine(op, weights, options, zero, preset):
    graph = layer(op, zero, weights, **options)
    for program in exact_programs(graph, load_config(preset), (None, 1, 2)):
        assert executes(program)
        assert not {each.operator for each in program.layers if each.where == "host"} - {"QUANTIZE"}


def test_weights_beyond_two_parts_stay_on_the_host():
    """255 above a zero point of 0 is more than two int8 numbers add up to."""
    graph = layer(Op.CONV_2D, 0, (30, 1, 1, 40), depth=40)
    (program,) = exact_programs(graph, PRESETS["nano"], (None,))
    (found,) = [each for each in program.layers if each.operator == "CONV_2D"]
    assert (found.where, found.reason) == ("host", "a weight is more than 254 above its zero point")


@pytest.mark.parametrize(("value", "share"), [(250, 0.5), (255, 0.002), (None, 0)])
def test_the_second_part_costs_what_it_has(value, share):
    """Few weights of nine bits need few EXECs; none need none."""
    generator, builder = np.random.default_rng(5), GraphBuilder()
    image = builder.input("image", (1, 8, 8, 64), "uint8", scale(0))
    weights = generator.integers(40, 200, (128, 1, 1, 64), np.uint8)
    if value is not None:
        weights.reshape(-1)[: round(share * weights.size)] = value
    made = builder.add(
        Op.CONV_2D,
        [image, builder.constant(weights, scale(100, 0.004))],
        Conv2D(),
        quantisation=scale(13, 0.5),
    )
    (program,) = exact_programs(builder.graph(made), PRESETS["reference"], (None,))
    vectors = sum(
        each.oc_blocks * each.blocks * each.height * each.width for each in executes(program)
    )
    # Each of 64 positions takes 4 steps in each of 8 blocks, and more steps for the second part.
    assert vectors == 64 * {0.5: 8 * 4 + 4 * 4, 0.002: 8 * 4 + 1, 0: 8 * 4}[share]


@pytest.mark.parametrize("zero", [0, 1, 100, 255])
@pytest.mark.parametrize(
    ("size", "window", "padding"),
    [
        ((4, 4), (4, 4), Padding()),
        ((6, 6), (6, 6), Padding()),
        ((5, 5), (5, 5), Padding()),
        ((8, 6), (2, 3), Padding()),
        ((8, 6), (3, 3), Padding()),
        ((8, 6), (3, 3), Padding(top=1, left=1, bottom=1, right=1)),
    ],
)
def test_averages_round_halves_up(size, window, padding, zero):
    """Of a window of an even count, one sum in `count` is a half."""
    builder = GraphBuilder()
    image = builder.input("image", (1, *size, 300), "uint8", scale(zero))
    pool = Pool2D(window=window, stride=window, padding=padding)
    graph = builder.graph(builder.add(Op.AVERAGE_POOL_2D, [image], pool))
    other = as_signed(graph)
    assert (other.nodes[0].op is Op.AVERAGE_POOL_2D) == bool(any((padding.top, padding.left)))
    for seed in range(4):
        given = random_inputs(graph, seed)
        (at,) = graph.outputs
        np.testing.assert_array_equal(interpret(other, given)[at], interpret(graph, given)[at])


def test_text_before_and_after():
    """Inputs and outputs stay uint8; the weights do, too."""
    builder = GraphBuilder()
    image = builder.input("image", (1, 4, 4, 3), "uint8", scale(120))
    weights = builder.constant(np.full((2, 1, 1, 3), 9, np.uint8), scale(7, 0.01))
    made = builder.add(Op.CONV_2D, [image, weights], Conv2D(), quantisation=scale(0))
    graph = builder.graph(
        builder.add(Op.SOFTMAX, [made], Softmax(beta=1.0), quantisation=scale(0, 1 / 256))
    )
    after = store_signed_bytes(graph)
    types = [
        (node.op.name, *(after.tensors[at].dtype for at in (*node.inputs, *node.outputs)))
        for node in after.nodes
    ]
    assert types == [
        ("QUANTIZE", "uint8", "int8"),
        ("CONV_2D", "int8", "uint8", "int8"),
        ("QUANTIZE", "int8", "uint8"),
        ("SOFTMAX", "uint8", "uint8"),
    ]
    assert (after.inputs, after.outputs) == (graph.inputs, graph.outputs)
    zeros = [after.tensors[node.output].zero_point for node in after.nodes]
    assert zeros == [120 - 128, -128, 0, 0]


def test_networks_without_layers_stay_as_they_are():
    builder = GraphBuilder()
    image = builder.input("image", (1, 4, 4, 3), "uint8", scale(120))
    graph = builder.graph(builder.add(Op.RELU, [image]))
    assert store_signed_bytes(graph) is graph
