"""Channel shuffles become weights of convolutions, slices of other tensors, or nothing."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.ir.attributes import Axis, Conv2D, Padding, Slice, Transpose
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.verify import verify
from matloom.ir.work import macs
from matloom.kernels.interpreter import interpret
from matloom.passes import run_passes
from matloom.passes.combine_moves import combine_moves
from matloom.runtime import load

SCALE, WEIGHT_SCALE = (
    Quantisation(scale=(scale,), zero_point=(zero,)) for scale, zero in ((0.5, 3), (0.01, 0))
)
BY_CHANNEL = Quantisation(scale=tuple(0.01 * at for at in range(1, 9)), zero_point=(0,) * 8, axis=0)
IMAGE = (1, 4, 5, 8)


class Network(GraphBuilder):
    """Data movements of an image (1, 4, 5, 8), and convolutions."""

    def image(self):
        return self.input("x", IMAGE, "int8", SCALE)

    def convolution(self, source, kernel=1, scales=WEIGHT_SCALE, pad=0):
        depth, draw = self.tensors[source].shape[3], np.random.default_rng(kernel)
        weights = draw.integers(-128, 128, (8, kernel, kernel, depth)).astype(np.int8)
        bias = draw.integers(-1000, 1000, 8).astype(np.int32)
        padding = Padding(top=pad, bottom=pad, left=pad, right=pad)
        attributes = Conv2D(padding=padding)
        inputs = [source, self.constant(weights, scales), self.constant(bias)]
        return self.add(Op.CONV_2D, inputs, attributes)

    def transposed(self, source, *order):
        return self.add(Op.TRANSPOSE, [source], Transpose(permutation=order))

    def groups(self, source, first, count, step=1):
        """Return planes of a shuffle: channels as (4, 2), transposed, some of the 8 selected."""
        planes = self.transposed(source, 0, 3, 1, 2)
        pairs = self.add(Op.RESHAPE, [planes], shape=(4, 2, 20))
        swapped = self.add(Op.RESHAPE, [self.transposed(pairs, 1, 0, 2)], shape=(1, 8, 4, 5))
        taken = Slice(begin=(0, first, 0, 0), size=(1, count, 4, 5), step=(1, step, 1, 1))
        return self.transposed(self.add(Op.STRIDED_SLICE, [swapped], taken), 0, 2, 3, 1)


def ops(graph):
    return [node.op for node in graph.nodes]


def same(graph, changed):
    """Check that both compute the same, and that the second is valid."""
    verify(changed, "changed")
    (image,) = graph.inputs
    draw = np.random.default_rng(5).integers(-128, 128, graph.tensors[image].shape, np.int8)
    expected, found = (interpret(each, {image: draw}) for each in (graph, changed))
    for number, array in expected.items():
        np.testing.assert_array_equal(found[number], array)


def test_a_shuffle_before_a_convolution_becomes_its_weights():
    network = Network()
    graph = network.graph(network.convolution(network.groups(network.image(), 0, 4), 3, pad=1))
    changed = run_passes(graph)
    # Of the 8 channels that the weights now see, 4 are multiplied by zero.
    assert ops(changed) == [Op.CONV_2D, Op.CONV_2D]
    same(graph, changed)


def test_convolutions_are_merged_if_cheaper():
    network = Network()
    graph = network.graph(network.convolution(network.groups(network.image(), 0, 4)))
    changed = run_passes(graph)
    assert ops(changed) == [Op.CONV_2D]
    assert changed.tensors[changed.nodes[0].inputs[1]].shape == (8, 1, 1, 8)
    same(graph, changed)
    program = compile_network(graph, PRESETS["nano"], check="full")
    assert program.macs == macs(graph, graph.nodes[-1])


@pytest.mark.parametrize("scales", [WEIGHT_SCALE, BY_CHANNEL])
def test_a_shuffle_after_a_convolution_orders_its_filters(scales):
    network = Network()
    made = network.convolution(network.image(), scales=scales)
    graph = network.graph(network.groups(made, 1, 4))
    changed = run_passes(graph)
    assert ops(changed) == [Op.CONV_2D]
    same(graph, changed)


def test_tensors_with_other_readers_stay():
    network = Network()
    made = network.convolution(network.image())
    graph = network.graph(made, network.groups(made, 1, 4))
    changed = run_passes(graph)
    assert ops(changed) == [Op.CONV_2D, Op.CONV_2D]
    same(graph, changed)


def test_a_shuffle_alone_is_one_operator_on_the_engine():
    network = Network()
    image = network.image()
    parts = [network.groups(image, first, 4) for first in (0, 4)]
    graph = network.graph(network.add(Op.CONCATENATION, parts, Axis(axis=3)))
    assert ops(run_passes(graph)) == [Op.CONV_2D, Op.CONV_2D, Op.CONCATENATION]
    program = compile_network(graph, PRESETS["nano"], check="full")
    assert program.macs == 0
    draw = np.random.default_rng(5).integers(-128, 128, IMAGE, np.int8)
    expected = interpret(graph, {image: draw})[graph.outputs[0]]
    np.testing.assert_array_equal(load(program, device="model").run(draw), expected)


def test_neighbours_and_transposes_that_cancel():
    network = Network()
    planes = network.transposed(network.image(), 0, 3, 1, 2)
    half = Slice(begin=(0, 4, 0, 0), size=(1, 4, 4, 5), step=(1, 1, 1, 1))
    taken = network.add(Op.SLICE, [planes], half)
    graph = network.graph(
        network.transposed(planes, 0, 2, 3, 1), network.transposed(taken, 0, 2, 3, 1)
    )
    changed = run_passes(graph)
    assert ops(changed) == [Op.RESHAPE, Op.SLICE]
    same(graph, changed)


def test_other_moves_stay():
    network = Network()
    transposed = network.transposed(network.image(), 0, 2, 1, 3)
    graph = network.graph(network.add(Op.RESHAPE, [transposed], shape=IMAGE))
    assert combine_moves(graph) is graph
