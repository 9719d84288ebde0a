"""4-bit weights: their error, and the results of a network with them."""

import dataclasses

import numpy as np
import pytest

import matloom
from matloom import frontend
from matloom.arch.config import PRESETS, load_config
from matloom.compiler import CompileError
from matloom.data.digits import NETWORK
from matloom.ir.attributes import Activation, Conv2D, FullyConnected, Padding
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes.narrow_weights import narrow_weights, nearest_four_bits

CONFIG = dataclasses.replace(PRESETS["nano"], weight_rows=2, mac_modes=("i8xi8", "i8xi4"))
#: The chip of narrow modes in host/tests/device, so that one simulator serves both.
CHIP = load_config("small+weight_rows=2+tables=1+products=1+i8xi4+i4xi4+i16xi8")


def tensor(name, shape, scale, zero=0):
    quantisation = Quantisation(scale=(scale,), zero_point=(zero,))
    return Tensor(name=name, shape=shape, dtype="int8", quantisation=quantisation)


def network(weights=None, seed=0):
    """Return two convolutions that share their weights, and a dense layer of one scale."""
    rng = np.random.default_rng(seed)
    if weights is None:
        weights = rng.integers(-127, 128, (3, 2, 2, 3))
    weights = weights.astype(np.int8)
    dense = np.clip(rng.normal(0, 40, (5, 36)), -127, 127).astype(np.int8)
    scales = Quantisation(scale=(0.01, 0.02, 0.004), zero_point=(0,) * 3, axis=0)
    tensors = {
        0: tensor("x", (1, 4, 4, 3), 0.05, -10),
        1: dataclasses.replace(tensor("w", weights.shape, 1.0), quantisation=scales, data=weights),
        2: Tensor(name="b", shape=(3,), dtype="int32", data=rng.integers(-9000, 9000, 3, np.int32)),
        3: tensor("first", (1, 4, 4, 3), 0.2, -128),
        4: tensor("second", (1, 3, 4, 3), 0.5, 4),
        5: tensor("flat", (1, 36), 0.5, 4),
        6: dataclasses.replace(tensor("d", dense.shape, 0.02), data=dense),
        7: tensor("y", (1, 5), 2.0, 1),
    }
    first = Conv2D(padding=Padding(top=1, right=1), activation=Activation.RELU)
    second = dataclasses.replace(
        first,
        padding=Padding(left=1),
        activation=Activation.NONE,
    )
    last = FullyConnected()
    nodes = (
        Node(op=Op.CONV_2D, inputs=(0, 1, 2), outputs=(3,), attributes=first, index=0),
        Node(op=Op.CONV_2D, inputs=(3, 1, 2), outputs=(4,), attributes=second, index=1),
        Node(op=Op.RESHAPE, inputs=(4,), outputs=(5,), index=2),
        Node(op=Op.FULLY_CONNECTED, inputs=(5, 6), outputs=(7,), attributes=last, index=3),
    )
    return Graph(name="net", inputs=(0,), outputs=(7,), tensors=tensors, nodes=nodes)


def test_channels_of_four_bits_stay():
    channels = np.random.default_rng(0).integers(-8, 8, (6, 30)).astype(float)
    channels[3] = 0
    integers, scales = nearest_four_bits(channels)
    assert np.array_equal(integers, channels)
    assert np.array_equal(scales, np.ones(6))


@pytest.mark.parametrize("spread", [9, 25, 60])
def test_near_the_best_of_all_scales(spread):
    """Close to the least squared error of a fine search, apart from balancing."""
    channels = np.clip(np.rint(np.random.default_rng(1).normal(0, spread, (8, 200))), -127, 127)
    integers, scales = nearest_four_bits(channels)
    assert integers.min() >= -8
    assert integers.max() <= 7
    made = ((channels - integers * scales[:, None]) ** 2).sum(axis=1)
    best = np.full(8, np.inf)
    for scale in np.linspace(1, 20, 2000):
        near = np.clip(np.round(channels / scale), -8, 7) * scale
        best = np.minimum(best, ((channels - near) ** 2).sum(axis=1))
    assert (made < 1.15 * best).all()
    # What nothing clips, the usual choice, is worse.
    usual = np.abs(channels).max(axis=1, keepdims=True) / 7
    assert (made < ((channels - np.round(channels / usual) * usual) ** 2).sum(axis=1)).all()


def test_errors_of_a_channel_sum_to_less_than_a_step():
    channels = np.random.default_rng(2).integers(-127, 128, (40, 9)).astype(float)
    integers, scales = nearest_four_bits(channels)
    errors = (integers - channels / scales[:, None]).sum(axis=1)
    assert np.abs(errors).max() <= 0.5


def test_graph():
    graph = network()
    made = narrow_weights(graph, {3, 7})
    verify(made, "narrow_weights")
    first, second, _, last = made.nodes
    assert [node.attributes.mode for node in (first, second, last)] == ["i8xi4", None, "i8xi4"]
    # The second layer reads the constants that it shared, as they were.
    assert second.inputs == (3, 1, 2)
    assert made.tensors[1] is graph.tensors[1]
    weights, bias = made.tensors[first.inputs[1]], made.tensors[first.inputs[2]]
    old = graph.tensors[1].quantisation.scale
    units = np.array(weights.quantisation.scale) / old
    assert np.abs(bias.data * units - graph.tensors[2].data).max() <= units.max() / 2 + 1e-3
    wide, narrow = graph.tensors[1].data, weights.data * units.reshape(3, 1, 1, 1)
    assert weights.data.min() >= -8
    assert weights.data.max() <= 7
    assert np.abs(wide - narrow).max() < 1.5 * units.max()
    # A dense layer of one scale gets one for each channel.
    assert len(made.tensors[last.inputs[1]].quantisation.scale) == 5


def real(image, weights, scales, bias):
    """Return a convolution without padding in float64, with 4-bit weights."""
    windows = np.lib.stride_tricks.sliding_window_view(image, weights.shape[1:3], axis=(1, 2))
    numbers = weights * scales.reshape(-1, 1, 1, 1)
    return np.einsum("nyxcij,oijc->nyxo", windows, numbers) + bias


@pytest.mark.parametrize(
    ("device", "config"),
    [("model", CONFIG), pytest.param("rtl", CHIP, marks=pytest.mark.slow)],
    ids=["model", "rtl"],
)
def test_results_are_those_of_the_numbers(device, config):
    """A layer's output is within one step of the sum in floating point."""
    graph = dataclasses.replace(network(), outputs=(3,), nodes=network().nodes[:1])
    x = np.random.default_rng(5).integers(-128, 128, (1, 4, 4, 3), np.int8)
    session = matloom.load(graph, device=device, config=config, precision="i8xi4")
    assert [layer.mode for layer in session.program.layers] == ["i8xi4"]
    made = session.run(x)
    narrow = narrow_weights(graph, {3})
    weights, bias = (narrow.tensors[number] for number in narrow.nodes[0].inputs[1:])
    scales = np.array(weights.quantisation.scale)
    image = np.pad((x + 10.0) * 0.05, ((0, 0), (1, 0), (0, 1), (0, 0)))
    sums = real(image, weights.data, scales, bias.data * 0.05 * scales)
    wanted = np.clip(np.round(np.maximum(sums, 0) / 0.2) - 128, -128, 127)
    assert np.abs(made - wanted).max() <= 1
    assert (made == wanted).mean() > 0.9


def test_whole_network_on_the_engine():
    graph = network(seed=7)
    x = np.random.default_rng(5).integers(-128, 128, (1, 4, 4, 3), np.int8)
    session = matloom.load(graph, device="model", config=CONFIG, precision="i8xi4")
    modes = [layer.mode for layer in session.program.layers if layer.macs]
    assert modes == ["i8xi4"] * 3
    wanted = interpret(narrow_weights(graph, {3, 4, 7}), {0: x})[7]
    assert np.array_equal(session.run(x), wanted)


def test_twice_the_rate():
    before, after = (
        matloom.compile(frontend.load(NETWORK), "small+i8xi4", precision=precision)
        for precision in (None, "i8xi4")
    )
    cycles = [
        {layer.name: layer.predicted_cycles for layer in program.layers}["inner"]
        for program in (before, after)
    ]
    assert cycles[1] < 0.6 * cycles[0]


def test_host_layers_keep_their_weights():
    """Here the filter is longer than the engine's fields allow."""
    graph = network(np.random.default_rng(0).integers(-99, 99, (3, 2, 2, 3)))
    conv = graph.nodes[0]
    far = dataclasses.replace(
        conv.attributes,
        dilation=(300, 1),
        padding=Padding(top=300, right=1),
    )
    nodes = (dataclasses.replace(conv, attributes=far), *graph.nodes[1:])
    graph = dataclasses.replace(graph, nodes=nodes)
    session = matloom.load(graph, device="model", config=CONFIG, precision="i8xi4")
    places = {layer.name: (layer.where, layer.mode) for layer in session.program.layers}
    assert places["first"] == ("host", "")
    assert places["second"] == ("engine", "i8xi4")
    x = np.random.default_rng(5).integers(-128, 128, (1, 4, 4, 3), np.int8)
    assert np.array_equal(session.run(x), interpret(narrow_weights(graph, {4, 7}), {0: x})[7])


def test_an_engine_without_the_mode():
    with pytest.raises(CompileError, match=r"is built with \(i8xi8\), not i8xi4"):
        matloom.compile(network(), "nano", precision="i8xi4")
