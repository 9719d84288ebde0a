"""Float networks in the form that is quantised: the same results, and fewer operators."""

import numpy as np
import pytest

from matloom.ir.attributes import Activation, Arithmetic, FullyConnected
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op
from matloom.quantiser.prepare import prepare


def network(op, number, shape=(1, 4, 8), activation=Activation.NONE):
    """Return TANH, an operator with a constant of one number, and a dense layer."""
    builder, random = GraphBuilder("network"), np.random.default_rng(0)
    x = builder.add(Op.TANH, [builder.input("x", (1, 4, 8), "float32")])
    constant = builder.constant(np.full(shape, number, np.float32))
    made = builder.add(op, [x, constant], Arithmetic(activation=activation))
    made = builder.add(Op.TANH, [made])
    weights = builder.constant(random.normal(0, 1, (3, 8)).astype(np.float32))
    dense = FullyConnected(keep_num_dims=True)
    return builder.graph(builder.add(Op.FULLY_CONNECTED, [made, weights], dense))


@pytest.mark.parametrize(("op", "number"), [(Op.ADD, 0), (Op.SUB, 0), (Op.MUL, 1)])
def test_operators_that_change_nothing_go(op, number):
    assert op not in {node.op for node in prepare(network(op, number)).nodes}


@pytest.mark.parametrize(
    "graph",
    [
        network(Op.ADD, 1),
        network(Op.MUL, 0),
        network(Op.ADD, 0, shape=(3, 4, 8)),
        network(Op.ADD, 0, activation=Activation.RELU),
    ],
    ids=["ones added", "zeros", "broadcast", "activation"],
)
def test_others_stay(graph):
    before, after = ({node.op for node in each.nodes} for each in (graph, prepare(graph)))
    assert before & {Op.ADD, Op.MUL} == after & {Op.ADD, Op.MUL}
