"""Padding before a convolution becomes part of the convolution."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.ir.attributes import Conv2D, Pad, Padding, Pool2D
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Node, Op, Quantisation
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes import run_passes
from matloom.passes.fuse_padding import fuse_padding
from matloom.runtime import load
from matloom.verification.random_operators import RandomOperators

STEPS = Conv2D(stride=(2, 2))


def network(before=(0, 0, 1, 0), after=(0, 2, 0, 0), value=None, dtype="int8"):
    """Return a PAD of a 6x7 image and a convolution of stride 2 after it."""
    instances = RandomOperators(0, dtype)
    image = instances._tensor("image", (1, 6, 7, 5))
    pad = instances.network(Op.PAD, [image], Pad(before=before, after=after, value=value))
    padded = replace(pad.tensors[1], name="padded")
    weights = instances._weights((9, 3, 3, 5 + before[3] + after[3]), 0)
    convolution = instances.network(Op.CONV_2D, [padded, weights], STEPS)
    tensors = {0: image, 1: padded, 2: weights, 3: convolution.tensors[2]}
    second = Node(op=Op.CONV_2D, inputs=(1, 2), outputs=(3,), attributes=STEPS, index=1)
    nodes = (pad.nodes[0], second)
    return Graph(name="padded", inputs=(0,), outputs=(3,), tensors=tensors, nodes=nodes)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_convolution_pads_for_itself(dtype):
    graph = network(dtype=dtype)
    (node,) = run_passes(graph).nodes
    assert node.inputs == (0, 2)
    assert node.attributes.padding == Padding(bottom=2, left=1)
    verify(run_passes(graph), "fused")
    given = np.random.default_rng(0).integers(-128, 128, (1, 6, 7, 5)).astype(dtype)
    program = compile_network(graph, replace(PRESETS["small"], mac_modes=("i8xi8", "i16xi8")))
    result = load(program, device="model").run(given)
    np.testing.assert_array_equal(result, interpret(graph, {0: given})[3])


def test_tensors_with_other_readers_stay():
    graph = replace(network(), outputs=(1, 3))
    assert [node.op for node in run_passes(graph).nodes] == [Op.PAD, Op.CONV_2D]
    assert run_passes(graph).nodes[1].inputs == (0, 2)


@pytest.mark.parametrize(
    "graph", [network(value=3), network(before=(0, 0, 0, 1))], ids=["value", "channels"]
)
def test_other_paddings_stay(graph):
    assert graph.tensors[1].zero_point != 3
    assert fuse_padding(graph) is graph


def test_another_scale_stays():
    graph = network()
    other = replace(graph.tensors[0], quantisation=Quantisation(scale=(0.5,), zero_point=(0,)))
    graph = replace(graph, tensors={**graph.tensors, 0: other})
    assert fuse_padding(graph) is graph


def pooled(pad, value=None, zero=-128, window=(3, 3)):
    """Return a PAD of a 6x7 image and a max pooling of stride 2 after it."""
    builder = GraphBuilder()
    scale = Quantisation(scale=(0.5,), zero_point=(zero,))
    image = builder.input("x", (1, 6, 7, 5), "int8", scale)
    edges = Pad(before=(0, pad, pad, 0), after=(0, pad, 1, 0), value=value)
    padded = builder.add(Op.PAD, [image], edges)
    pool = Pool2D(window=window, stride=(2, 2))
    return builder.graph(builder.add(Op.MAX_POOL_2D, [padded], pool))


@pytest.mark.parametrize("graph", [pooled(1), pooled(1, value=-128, zero=3), pooled(2)])
def test_a_maximum_pooling_pads_for_itself(graph):
    (node,) = run_passes(graph).nodes
    assert node.inputs == (0,)
    given = np.random.default_rng(0).integers(-128, 128, (1, 6, 7, 5)).astype(np.int8)
    expected = interpret(graph, {0: given})[2]
    np.testing.assert_array_equal(interpret(run_passes(graph), {0: given})[2], expected)
    program = compile_network(graph, PRESETS["small"], check="full")
    np.testing.assert_array_equal(load(program, device="model").run(given), expected)


@pytest.mark.parametrize("graph", [pooled(1, zero=3), pooled(3), pooled(1, window=(1, 3))])
def test_a_pooling_of_other_numbers_or_of_padding_alone_stays(graph):
    assert fuse_padding(graph) is graph
