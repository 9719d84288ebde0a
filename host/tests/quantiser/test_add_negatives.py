"""Differences from a smaller tensor become sums with its negative: equal in floats, and faster."""

import numpy as np
import pytest

import matloom
from matloom.ir.attributes import Activation, Arithmetic, FullyConnected, Reduce
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.quantiser import quantise
from matloom.quantiser.add_negatives import add_negatives


def centred(axes=(2,), *, swapped=False, activation=Activation.NONE):
    """Return a network that subtracts means of a dense layer's rows, and a second layer."""
    builder, random = GraphBuilder("network"), np.random.default_rng(0)
    dense = FullyConnected(keep_num_dims=True)
    weights = [
        builder.constant(random.normal(0, 0.2, (32, 32)).astype(np.float32)) for _ in range(2)
    ]
    x = builder.input("x", (1, 16, 32), "float32")
    rows = builder.add(Op.FULLY_CONNECTED, [x, weights[0]], dense)
    mean = builder.add(Op.MEAN, [rows], Reduce(axes=axes, keep_dims=True))
    operands = [mean, rows] if swapped else [rows, mean]
    less = builder.add(Op.SUB, operands, Arithmetic(activation=activation))
    return builder.graph(builder.add(Op.FULLY_CONNECTED, [less, weights[1]], dense))


def result(graph):
    given = np.random.default_rng(1).normal(0, 1, (1, 16, 32)).astype(np.float32)
    return interpret(graph, {graph.inputs[0]: given})[graph.outputs[0]]


@pytest.mark.parametrize("axes", [(2,), (1,), (1, 2)])
@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
def test_sums_with_negatives_are_differences(axes, activation):
    graph = centred(axes, activation=activation)
    made = add_negatives(graph)
    verify(made, "add_negatives")
    assert Op.SUB not in {node.op for node in made.nodes}
    np.testing.assert_array_equal(result(made), result(graph))


def test_differences_of_a_smaller_tensor_stay():
    graph = centred(swapped=True)
    assert add_negatives(graph).nodes == graph.nodes


def test_the_engine_takes_less_time():
    graph, random = centred(), np.random.default_rng(2)
    made = quantise(graph, random.normal(0, 1, (8, 1, 16, 32)).astype(np.float32))
    layers = {layer.operator: layer for layer in matloom.compile(made.content, "reference").layers}
    # One pass of POST over 32 vectors for the means, and one for the sums.
    assert layers["ADD"].predicted_cycles < 300
