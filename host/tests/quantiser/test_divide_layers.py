"""Layers divided where their outputs are split: equal in floats, without SPLIT."""

import numpy as np
import pytest

from matloom.ir.attributes import Arithmetic, Conv2D, FullyConnected, Slice, Split
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.quantiser.divide_layers import divide_layers


class Network(GraphBuilder):
    """A graph of floats whose input `x` is 6 rows of 8."""

    def __init__(self, shape=(1, 6, 8)):
        super().__init__("network")
        self.random = np.random.default_rng(0)
        self.x = self.input("x", shape, "float32")

    def numbers(self, *shape):
        return self.constant(self.random.normal(0, 1, shape).astype(np.float32))

    def dense(self, outputs):
        kind = FullyConnected(keep_num_dims=True)
        operands = [self.x, self.numbers(outputs, 8), self.numbers(outputs)]
        return self.add(Op.FULLY_CONNECTED, operands, kind)

    def convolve(self, outputs):
        return self.add(Op.CONV_2D, [self.x, self.numbers(outputs, 3, 3, 8)], Conv2D())

    def split(self, source, axis, *sizes):
        tensor = self.tensors[source]
        parts = []
        for number, size in enumerate(sizes):
            shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
            parts.append(
                self.tensor(type(tensor)(name=f"part {number}", shape=shape, dtype="float32"))
            )
        op = Op.SPLIT if len({*sizes}) == 1 else Op.SPLIT_V
        self.node(op, [source], parts, Split(axis=axis, sizes=sizes))
        return parts

    def slice(self, source, axis, begin, size):
        shape = self.tensors[source].shape
        begins = tuple(begin if at == axis else 0 for at in range(len(shape)))
        sizes = tuple(size if at == axis else length for at, length in enumerate(shape))
        part = Slice(begin=begins, size=sizes, step=(1,) * len(shape))
        return self.add(Op.STRIDED_SLICE, [source], part)


def attention():
    """Return queries, keys and values of two heads, as one layer makes them."""
    network = Network()
    heads = network.add(Op.RESHAPE, [network.dense(96)], shape=(1, 6, 3, 2, 16))
    return network.graph(*network.split(heads, 2, 1, 1, 1))


def gate():
    network = Network((1, 5, 6, 8))
    value, gated = network.split(network.convolve(40), 3, 16, 24)
    return network.graph(value, network.add(Op.LOGISTIC, [gated]))


def slices():
    """Return two of the three parts of a layer, in another order than its channels."""
    network = Network()
    heads = network.add(Op.RESHAPE, [network.dense(96)], shape=(1, 6, 3, 2, 16))
    return network.graph(*(network.slice(heads, 2, at, 1) for at in (2, 0)))


def steps_sliced():
    """Return rows, not channels, of a layer's output."""
    network = Network()
    made = network.dense(32)
    return network.graph(*(network.slice(made, 1, at, 3) for at in (0, 3)))


def overlapping():
    network = Network()
    made = network.dense(32)
    return network.graph(*(network.slice(made, 2, at, 24) for at in (0, 8)))


def heads_split():
    """Return the heads of a layer apart, each with a part of all queries, keys and values."""
    network = Network()
    heads = network.add(Op.RESHAPE, [network.dense(96)], shape=(1, 6, 3, 2, 16))
    return network.graph(*network.split(heads, 3, 1, 1))


def few():
    network = Network()
    return network.graph(*network.split(network.dense(16), 2, 8, 8))


def read_whole():
    network = Network()
    made = network.dense(32)
    parts = network.split(made, 2, 16, 16)
    return network.graph(*parts, network.add(Op.ADD, [made, made], Arithmetic()))


def results(graph):
    shape = graph.tensors[graph.inputs[0]].shape
    given = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    found = interpret(graph, {graph.inputs[0]: given})
    return [found[number] for number in graph.outputs]


@pytest.mark.parametrize(
    "graph", [attention(), gate(), slices()], ids=["attention", "a gate", "slices"]
)
def test_each_part_has_a_layer(graph):
    made = divide_layers(graph)
    verify(made, "divided")
    assert not {node.op for node in made.nodes} & {Op.SPLIT, Op.SPLIT_V, Op.STRIDED_SLICE}
    for before, after in zip(results(graph), results(made), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "graph",
    [heads_split(), few(), read_whole(), steps_sliced(), overlapping()],
    ids=["heads", "few channels", "another reader", "rows", "overlapping"],
)
def test_others_stay(graph):
    assert divide_layers(graph).nodes == graph.nodes
