"""Factors and offsets by channel that layers take over: equal in floats, and fewer operators."""

import numpy as np
import pytest

from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    BatchMatmul,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Padding,
    Transpose,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.quantiser.fold_scales import fold_scales

AROUND = Padding(top=1, bottom=1, left=1, right=1)


class Network(GraphBuilder):
    """A graph of floats whose input `x` is an image of 4 channels."""

    def __init__(self):
        super().__init__("network")
        self.random = np.random.default_rng(0)
        self.x = self.input("x", (1, 5, 6, 4), "float32")

    def numbers(self, *shape):
        return self.constant(self.random.normal(1, 1, shape).astype(np.float32))

    def scale(self, op, source, *shape, activation=Activation.NONE):
        operands = [source, self.numbers(*(shape or (4,)))]
        return self.add(op, operands, Arithmetic(activation=activation))

    def convolve(self, source, outputs=4, padding=None):
        weights = self.numbers(outputs, 3, 3, 4), self.numbers(outputs)
        attributes = Conv2D(padding=padding) if padding else Conv2D()
        return self.add(Op.CONV_2D, [source, *weights], attributes)

    def depthwise(self, source, padding=None):
        attributes = DepthwiseConv2D(depth_multiplier=2)
        if padding:
            attributes = DepthwiseConv2D(depth_multiplier=2, padding=padding)
        return self.add(Op.DEPTHWISE_CONV_2D, [source, self.numbers(1, 3, 3, 8)], attributes)

    def dense(self, source):
        kind = FullyConnected(keep_num_dims=True)
        return self.add(Op.FULLY_CONNECTED, [source, self.numbers(3, 4)], kind)


def behind(op, *shape, activation=Activation.NONE):
    network = Network()
    made = network.convolve(network.x)
    return network.graph(network.scale(op, made, *shape, activation=activation))


def in_front(op, layer, **options):
    network = Network()
    made = network.scale(op, network.add(Op.TANH, [network.x]))
    return network.graph(getattr(network, layer)(made, **options))


def normalised():
    """Return a factor and an offset that two layers read."""
    network = Network()
    made = network.scale(Op.ADD, network.scale(Op.MUL, network.add(Op.TANH, [network.x])))
    return network.graph(network.convolve(made), network.dense(made))


def heads(*shape, product=True, read_again=False):
    """Return queries in heads, their products with keys if `product`, and a factor."""
    network = Network()
    made = network.convolve(network.x)
    rows = network.add(Op.RESHAPE, [made], shape=(1, 12, 2, 2))
    queries = network.add(Op.TRANSPOSE, [rows], Transpose(permutation=(0, 2, 1, 3)))
    if product:
        keys = network.add(Op.RESHAPE, [network.add(Op.TANH, [network.x])], shape=(1, 2, 30, 2))
        kind = BatchMatmul(adj_x=False, adj_y=True)
        queries = network.add(Op.BATCH_MATMUL, [queries, keys], kind)
    scores = network.scale(Op.MUL, queries, *shape)
    return network.graph(scores, *[rows] * read_again)


def read_twice():
    network = Network()
    made = network.convolve(network.x)
    return network.graph(network.add(Op.ADD, [network.scale(Op.MUL, made), made], Arithmetic()))


def an_output():
    network = Network()
    made = network.scale(Op.MUL, network.x)
    return network.graph(made, network.convolve(made))


def active():
    network = Network()
    made = network.scale(Op.MUL, network.x, activation=Activation.RELU)
    return network.graph(network.convolve(made))


FOLDED = {
    "a factor behind": behind(Op.MUL),
    "an offset behind": behind(Op.ADD),
    "a difference behind": behind(Op.SUB),
    "one factor for all": behind(Op.MUL, 1),
    "an activation": behind(Op.ADD, activation=Activation.RELU),
    "a factor in front": in_front(Op.MUL, "convolve", padding=AROUND),
    "an offset in front": in_front(Op.ADD, "convolve"),
    "a factor of a depthwise layer": in_front(Op.MUL, "depthwise", padding=AROUND),
    "an offset of a depthwise layer": in_front(Op.SUB, "depthwise"),
    "a factor of a dense layer": in_front(Op.MUL, "dense"),
    "two layers": normalised(),
    "queries": heads(1, product=False),
    "scores": heads(1),
}
KEPT = {
    "padding": in_front(Op.ADD, "convolve", padding=AROUND),
    "another reader": read_twice(),
    "an output": an_output(),
    "an activation in front": active(),
    "numbers by position": behind(Op.MUL, 3, 4, 1),
    "as many columns as channels": behind(Op.MUL, 4, 1),
    "a factor for each column of scores": heads(30),
    "heads that are an output": heads(1, read_again=True),
}


def results(graph):
    image = np.random.default_rng(1).normal(0, 1, (1, 5, 6, 4)).astype(np.float32)
    found = interpret(graph, {graph.inputs[0]: image})
    return [found[number] for number in graph.outputs]


@pytest.mark.parametrize("name", FOLDED)
def test_layers_take_factors_and_offsets(name):
    graph = FOLDED[name]
    made = fold_scales(graph)
    verify(made, name)
    assert not {node.op for node in made.nodes} & {Op.ADD, Op.MUL, Op.SUB}
    for before, after in zip(results(graph), results(made), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name):
    assert [node.op for node in fold_scales(KEPT[name]).nodes] == [
        node.op for node in KEPT[name].nodes
    ]
