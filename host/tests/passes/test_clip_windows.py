"""Windows larger than their image: the elements that never meet it are taken away."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Conv2D, DepthwiseConv2D, Padding, Pool2D
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.shapes import same_padding
from matloom.ir.verify import verify
from matloom.passes.clip_windows import clip_windows
from matloom.runtime import load
from support.oracles import micro

SCALE = Quantisation(scale=(0.5,), zero_point=(3,))
POOLS = (Op.MAX_POOL_2D, Op.AVERAGE_POOL_2D)


def network(op, size, taps, stride=(1, 1)):
    """Return a layer with padding like that of TensorFlow's SAME, on an image of 8 channels."""
    builder = GraphBuilder()
    image = builder.input("x", (1, *size, 8), "int8", SCALE)
    padding = same_padding(size, taps, stride)
    if op in POOLS:
        attributes = Pool2D(window=taps, stride=stride, padding=padding)
        return builder.graph(builder.add(op, [image], attributes))
    shape = (1, *taps, 8) if op is Op.DEPTHWISE_CONV_2D else (5, *taps, 8)
    channels = shape[3] if op is Op.DEPTHWISE_CONV_2D else shape[0]
    data = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    axis = 3 if op is Op.DEPTHWISE_CONV_2D else 0
    scales = Quantisation(scale=(0.01,) * channels, zero_point=(0,) * channels, axis=axis)
    weights = builder.constant(data, scales)
    bias = builder.constant(np.arange(channels, dtype=np.int32))
    kind = DepthwiseConv2D if op is Op.DEPTHWISE_CONV_2D else Conv2D
    attributes = kind(stride=stride, padding=padding)
    return builder.graph(builder.add(op, [image, weights, bias], attributes))


def taps_of(graph):
    (node,) = graph.nodes
    if node.op in POOLS:
        return node.attributes.window
    return graph.tensors[node.inputs[1]].shape[1:3]


@pytest.mark.parametrize("op", [*POOLS, Op.CONV_2D, Op.DEPTHWISE_CONV_2D])
@pytest.mark.parametrize(
    ("size", "taps", "stride", "left"),
    [
        ((3, 3), (9, 9), (1, 1), (5, 5)),
        ((2, 3), (5, 5), (1, 1), (3, 5)),
        ((1, 1), (3, 3), (1, 1), (1, 1)),
        ((2, 2), (3, 5), (2, 2), (2, 2)),
        ((1, 6), (4, 3), (1, 2), (1, 3)),
    ],
)
def test_results_are_those_of_tensorflow_lite_micro(op, size, taps, stride, left):
    graph = network(op, size, taps, stride)
    clipped = clip_windows(graph)
    verify(clipped, "clipped")
    assert tuple(taps_of(clipped)) == left
    given = np.random.default_rng(0).integers(-128, 128, (1, *size, 8)).astype(np.int8)
    (wanted,) = micro(write_tflite(graph), [given], 1)
    program = compile_network(graph, PRESETS["small"])
    np.testing.assert_array_equal(load(program, device="model").run(given), wanted)


@pytest.mark.parametrize("op", [Op.MAX_POOL_2D, Op.CONV_2D])
def test_windows_that_meet_the_image_stay(op):
    graph = network(op, (5, 5), (5, 3))
    assert clip_windows(graph) is graph


def test_padding_may_be_missing_on_one_side():
    """Of three rows, the first lies outside, and nothing is left to pad."""
    builder = GraphBuilder()
    image = builder.input("x", (1, 2, 4, 8), "int8", SCALE)
    pool = Pool2D(window=(3, 1), padding=Padding(top=1))
    graph = clip_windows(builder.graph(builder.add(Op.MAX_POOL_2D, [image], pool)))
    assert graph.nodes[0].attributes == Pool2D(window=(2, 1))
