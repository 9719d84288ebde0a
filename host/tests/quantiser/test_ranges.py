"""Activation ranges, compared with errors computed value by value."""

import numpy as np
import pytest

from matloom.ir.attributes import Activation, Axis, BatchMatmul, FullyConnected, Softmax
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.quantiser import quantise
from matloom.quantiser.histogram import histogram_of
from matloom.quantiser.ranges import CALIBRATIONS, choose_range, grid_range
from matloom.quantiser.scales import quantisation_of


def error(values, limits):
    """Return the mean squared error of int8 values with a range."""
    made = quantisation_of(limits, "int8")
    (scale,), (zero,) = made.scale, made.zero_point
    integers = np.clip(np.rint(values / scale) + zero, -128, 127)
    return np.square((integers - zero) * scale - values).mean()


def draw(name):
    random = np.random.default_rng(0)
    values = {
        "laplace": random.laplace(0, 1, 50_000),
        "relu": np.maximum(random.normal(0, 1, 50_000), 0),
        "shifted": random.normal(-3, 0.5, 50_000),
        "outlier": np.append(random.normal(0, 1, 50_000), 60.0),
    }[name]
    return values.astype(np.float32)


@pytest.mark.parametrize("low", [1e-30, 1.0, 3e30])
def test_neighbours_among_floats_have_a_histogram(low):
    values = np.array([low, np.nextafter(np.float32(low), np.float32(np.inf))], np.float32)
    histogram = histogram_of(values)
    assert (histogram.low, histogram.high) == (values[0], values[1])
    assert histogram.counts.sum() == 2


@pytest.mark.parametrize("name", ["laplace", "relu", "shifted", "outlier"])
def test_mse_has_the_least_error(name):
    values = draw(name)
    histogram = histogram_of(values)
    chosen = error(values, choose_range(histogram, "mse", 256))
    tried = [
        error(values, (min(values.min() * low, 0.0), max(values.max() * high, 0.0)))
        for low in np.linspace(0.05, 1, 20)
        for high in np.linspace(0.05, 1, 20)
    ]
    assert chosen <= 1.03 * min(tried)


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("name", ["laplace", "relu", "shifted"])
def test_every_calibration_keeps_almost_all_values(name, calibration):
    values = draw(name)
    low, high = choose_range(histogram_of(values), calibration, 256)
    assert low <= 0 <= high
    assert ((values >= low) & (values <= high)).mean() > 0.99


@pytest.mark.parametrize("calibration", ["percentile", "kl"])
def test_an_outlier_does_not_set_the_range(calibration):
    low, high = choose_range(histogram_of(draw("outlier")), calibration, 256)
    assert high < 20
    assert -6 < low < -2


def test_minmax_is_the_range():
    values = draw("laplace")
    assert choose_range(histogram_of(values), "minmax", 256) == (values.min(), values.max())


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("value", [0.0, 2.5, -1e-3, 1e-30])
def test_a_constant_has_a_scale(value, calibration):
    limits = choose_range(histogram_of(np.full(10, value, np.float32)), calibration, 256)
    made = quantisation_of(limits, "int8")
    assert 0 < made.scale[0] < float("inf")
    integer = np.clip(np.rint(value / made.scale[0]) + made.zero_point[0], -128, 127)
    assert abs((integer - made.zero_point[0]) * made.scale[0] - value) <= 1e-6 + abs(value) / 250


def test_the_order_of_samples_does_not_matter():
    values = draw("laplace")
    shuffled = np.random.default_rng(1).permutation(values)
    first, second = (choose_range(histogram_of(each), "kl", 256) for each in (values, shuffled))
    assert first == second


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (np.arange(0, 256, 3) / np.float32(255), 3 / 255),
        (np.arange(-40, 90) * np.float32(0.37), 0.37),
        (np.array([0, 1], np.float32), 1.0),
    ],
)
def test_values_on_a_grid_are_exact(values, step):
    low, high = grid_range(values.astype(np.float32), 256)
    assert low <= values.min()
    assert values.max() <= high
    assert (high - low) / 255 == pytest.approx(step)
    places = (values - low) / ((high - low) / 255)
    assert np.abs(places - np.rint(places)).max() < 1e-3


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(0, 1, 300),
        np.array([0.0, 0.1, 0.25, 1.0]),
        np.arange(0, 200) / 127.5 - 1,
        np.zeros(4),
    ],
)
def test_other_values_have_no_grid(values):
    assert grid_range(values.astype(np.float32), 256) is None


def test_logarithms_of_probabilities_have_the_scale_of_their_kernel():
    """A classifier becomes integers throughout, within a step of what the floats give."""
    builder, draw = GraphBuilder("classes"), np.random.default_rng(2)
    given = builder.input("x", (1, 12), "float32")
    matrix = builder.constant(draw.normal(0, 1, (5, 12)).astype(np.float32))
    bias = builder.constant(np.zeros(5, np.float32))
    scores = builder.add(Op.FULLY_CONNECTED, [given, matrix, bias], FullyConnected())
    graph = builder.graph(builder.add(Op.LOG_SOFTMAX, [scores]))
    samples = draw.normal(0, 1, (50, 12)).astype(np.float32)
    made = quantise(graph, samples).graph
    assert [node.op for node in made.nodes] == [Op.FULLY_CONNECTED, Op.LOG_SOFTMAX]
    entry, output = (made.tensors[side[0]] for side in (made.inputs, made.outputs))
    assert (output.scale, output.zero_point) == (1 / 16, 127)
    for sample in samples[:, np.newaxis]:
        (exact,) = interpret(graph, {graph.inputs[0]: sample}).values()
        given = np.clip(np.rint(sample / entry.scale) + entry.zero_point, -128, 127)
        (found,) = interpret(made, {made.inputs[0]: given.astype(np.int8)}).values()
        logarithms = np.maximum(exact, -255 / 16)
        assert np.abs((found.astype(int) - 127) / 16 - logarithms).max() < 0.25


def test_operands_of_products_have_zero_point_zero():
    """Any other takes a second pass of the array; what SOFTMAX returns has its own scale."""
    builder = GraphBuilder("attention")
    given = builder.input("x", (1, 6, 8), "float32")
    matrix = builder.constant(np.eye(8, dtype=np.float32))
    bias = builder.constant(np.zeros(8, np.float32))
    dense = FullyConnected(keep_num_dims=True, activation=Activation.RELU)
    keys = builder.add(Op.FULLY_CONNECTED, [given, matrix, bias], dense)
    turned, plain = (BatchMatmul(adj_x=False, adj_y=adjoint) for adjoint in (True, False))
    scores = builder.add(Op.BATCH_MATMUL, [keys, keys], turned)
    shares = builder.add(Op.SOFTMAX, [scores], Softmax(beta=1.0))
    mixed = builder.add(Op.BATCH_MATMUL, [shares, keys], plain)
    graph = builder.graph(mixed)
    samples = np.random.default_rng(1).normal(0, 1, (20, 6, 8)).astype(np.float32)
    made = quantise(graph, samples)
    zeros = {node.op: made.graph.tensors[node.output].zero_point for node in made.graph.nodes}
    assert zeros[Op.FULLY_CONNECTED] == 0
    assert zeros[Op.SOFTMAX] == -128
    assert made.report.outputs[0].sqnr_db > 25


@pytest.mark.parametrize("op", [Op.CONCATENATION, Op.MAXIMUM])
def test_fixed_scales_that_differ_are_converted_to_one(op):
    """SOFTMAX and TANH keep their own; what joins them has one that covers both."""
    builder = GraphBuilder("two")
    given = builder.input("x", (1, 8), "float32")
    matrix = builder.constant(np.eye(8, dtype=np.float32))
    bias = builder.constant(np.zeros(8, np.float32))
    dense = builder.add(Op.FULLY_CONNECTED, [given, matrix, bias], FullyConnected())
    ends = [builder.add(Op.SOFTMAX, [dense], Softmax(beta=1.0)), builder.add(Op.TANH, [dense])]
    joined = (Axis(axis=1),) if op is Op.CONCATENATION else ()
    graph = builder.graph(builder.add(op, ends, *joined))
    samples = np.random.default_rng(0).normal(0, 1, (50, 8)).astype(np.float32)
    made = quantise(graph, samples)
    scales = {node.op: made.graph.tensors[node.output].scale for node in made.graph.nodes}
    assert (scales[Op.SOFTMAX], scales[Op.TANH]) == (1 / 256, 1 / 128)
    assert [node.op for node in made.graph.nodes].count(Op.QUANTIZE) == 2
    assert made.report.outputs[0].sqnr_db > 35
