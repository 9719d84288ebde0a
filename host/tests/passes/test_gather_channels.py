"""Chains of shuffled joins: each layer reads a join of the channels that it needs."""

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.ir.attributes import Axis, Conv2D, DepthwiseConv2D, Padding
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes.combine_moves import UNCHANGED, selection_weights
from matloom.passes.fold_selections import fold_selections
from matloom.passes.gather_channels import gather_channels
from matloom.passes.moved_channels import copied_bytes, moved_channels, used_channels
from support.chain import exact_programs

SCALE = Quantisation(scale=(0.5,), zero_point=(3,))
HALF = 8


def weight_scales(channels):
    scales = tuple(0.004 + 0.001 * at for at in range(channels))
    return Quantisation(scale=scales, zero_point=(0,) * channels, axis=0)


#: The halves that a unit copies and reads, as places in its join.
SHUFFLES = {
    # Of pairs of channels, the first and the second ones.
    "in pairs": (np.arange(0, 2 * HALF, 2), np.arange(1, 2 * HALF, 2)),
    # The channels of both halves in turn, then cut in the middle.
    "in turn": tuple(np.arange(2 * HALF).reshape(2, HALF).T.reshape(2, HALF)),
}


class Shuffled(GraphBuilder):
    """Units of a ShuffleNet on a map of 4 x 5 positions."""

    def __init__(self, shuffle, layers=2):
        super().__init__()
        self.shuffle, self.layers, self.random = SHUFFLES[shuffle], layers, np.random.default_rng(7)
        self.image = self.input("x", (1, 4, 5, 6), "int8", SCALE)

    def convolution(self, source, channels=HALF):
        shape = (channels, 1, 1, self.tensors[source].shape[3])
        data = self.random.integers(1, 128, shape) * self.random.choice((-1, 1), shape)
        weights = self.constant(data.astype(np.int8), weight_scales(channels))
        bias = self.constant(self.random.integers(-999, 999, channels).astype(np.int32))
        return self.add(Op.CONV_2D, [source, weights, bias], Conv2D())

    def depthwise(self, source):
        channels = self.tensors[source].shape[3]
        data = self.random.integers(-128, 128, (1, 3, 3, channels)).astype(np.int8)
        padding = Padding(top=1, bottom=1, left=1, right=1)
        scale = Quantisation(scale=(0.01,), zero_point=(0,))
        weights = self.constant(data, scale)
        return self.add(Op.DEPTHWISE_CONV_2D, [source, weights], DepthwiseConv2D(padding=padding))

    def selection(self, source, channels):
        weights = self.tensor(
            selection_weights(self.tensors[source].shape[3], channels, "channels")
        )
        return self.add(Op.CONV_2D, [source, weights], UNCHANGED)

    def join(self, *parts):
        return self.add(Op.CONCATENATION, list(parts), Axis(axis=3))

    def unit(self, joined):
        kept, read = (self.selection(joined, each) for each in self.shuffle)
        for _ in range(self.layers):
            read = self.convolution(read)
        return self.join(kept, read)

    def units(self, count):
        """Return the joins before and after each unit."""
        joins = [self.join(self.convolution(self.image), self.convolution(self.image))]
        for _ in range(count):
            joins.append(self.unit(joins[-1]))
        return joins


def gathered(graph):
    """Return the graph before and after the pass, which must compute the same."""
    before = fold_selections(graph)
    after = gather_channels(before)
    verify(after, "gather_channels")
    image = np.random.default_rng(5).integers(-128, 128, (1, 4, 5, 6), np.int8)
    expected = interpret(graph, {graph.inputs[0]: image})
    found = interpret(after, {after.inputs[0]: image})
    for number, array in expected.items():
        np.testing.assert_array_equal(found[number], array)
    return before, after


def reads(graph):
    """Return the channels that layers use of joins, where they do not use all."""
    moved = moved_channels(graph)
    found = (used_channels(graph, node, moved) for node in graph.nodes)
    return [each for each in found if each is not None]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_layers_read_neighbours(shuffle, layers):
    network = Shuffled(shuffle, layers)
    *_others, last = network.units(4)
    before, after = gathered(network.graph(network.convolution(last)))
    # Each unit used every other channel.
    assert [len(each) for each in reads(before)] == [HALF] * 4
    assert all(np.ptp(each) + 1 > HALF for each in reads(before))
    assert all(np.ptp(each) + 1 == len(each) == HALF for each in reads(after))


def test_channels_are_copied_once():
    network = Shuffled("in pairs")
    *_others, last = network.units(4)
    before, after = gathered(network.graph(network.depthwise(last)))
    # Four units copied half of their channels. Now half of those that the second unit reads are
    # copied, of the third and of the fourth, and those that the last unit leaves as they are.
    assert copied_bytes(before) == 4 * 5 * 4 * HALF
    assert copied_bytes(after) == 4 * 5 * (3 * HALF // 2 + HALF)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("read", ["first", "second", "part"])
def test_joins_that_are_read_elsewhere_stay(shuffle, read):
    """As a whole, or one of the maps that they join."""
    network = Shuffled(shuffle)
    first, second, *_others, last = network.units(5)
    part = next(node for node in network._nodes if node.outputs == (first,)).inputs[1]
    other = network.depthwise({"first": first, "second": second, "part": part}[read])
    gathered(network.graph(network.convolution(last), other))


def test_a_map_that_is_joined_twice():
    network = Shuffled("in pairs")
    one = network.convolution(network.image)
    joins = [network.join(one, one)]
    for _ in range(3):
        joins.append(network.unit(joins[-1]))
    gathered(network.graph(network.convolution(joins[-1])))


def test_others_stay_as_they_are():
    network = Shuffled("in pairs")
    joined, *_others = network.units(0)
    graph = network.graph(network.convolution(joined))
    assert gather_channels(graph) is graph


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.fast_cases(1)
def test_programs_are_exact(shuffle):
    network = Shuffled(shuffle)
    *_others, last = network.units(3)
    exact_programs(network.graph(network.depthwise(last)), load_config("nano"), (None, 1))
