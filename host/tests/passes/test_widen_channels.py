"""Sums of a map and one whose channels a PAD extends: both are made with all channels."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import (
    Activation,
    Arithmetic,
    Conv2D,
    DepthwiseConv2D,
    Pad,
    Padding,
    Pool2D,
)
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.shapes import same_padding
from matloom.ir.verify import verify
from matloom.passes.widen_channels import widen_channels
from matloom.program.disassemble import disassemble
from matloom.runtime import load
from support.oracles import micro

SCALE, OTHER = (Quantisation(scale=(scale,), zero_point=(3,)) for scale in (0.5, 0.375))
REFERENCE = PRESETS["reference"]
ONE = Padding(top=1, bottom=1, left=1, right=1)


class Units(GraphBuilder):
    """Residual units as those of BlazeFace, on an image of 12x10 positions."""

    def __init__(self):
        super().__init__()
        self.random = np.random.default_rng(5)
        self.image = self.input("x", (1, 12, 10, 3), "int8", SCALE)

    def _layer(self, op, source, shape, axis, attributes):
        channels = shape[axis]
        weights = self.random.integers(-128, 128, shape).astype(np.int8)
        scales = tuple(self.random.uniform(0.001, 0.01, channels).astype(np.float32).tolist())
        scale = Quantisation(scale=scales, zero_point=(0,) * channels, axis=axis)
        bias = self.random.integers(-999, 999, channels).astype(np.int32)
        constants = [self.constant(weights, scale), self.constant(bias)]
        return self.add(op, [source, *constants], attributes, quantisation=SCALE)

    def convolve(self, source, channels, kernel=1, activation=Activation.NONE):
        padding = ONE if kernel > 1 else Padding()
        shape = (channels, kernel, kernel, self.tensors[source].shape[3])
        attributes = Conv2D(padding=padding, activation=activation)
        return self._layer(Op.CONV_2D, source, shape, 0, attributes)

    def depthwise(self, source, stride=1):
        shape = (1, 3, 3, self.tensors[source].shape[3])
        padding = same_padding(self.tensors[source].shape[1:3], (3, 3), (stride, stride))
        attributes = DepthwiseConv2D(padding=padding, stride=(stride, stride))
        return self._layer(Op.DEPTHWISE_CONV_2D, source, shape, 3, attributes)

    def pool(self, source):
        return self.add(Op.MAX_POOL_2D, [source], Pool2D(window=(2, 2), stride=(2, 2)))

    def pad(self, source, more):
        return self.add(Op.PAD, [source], Pad(before=(0,) * 4, after=(0, 0, 0, more)))

    def sum(self, first, second, scale=OTHER):
        return self.add(Op.ADD, [first, second], Arithmetic(), quantisation=scale)

    def unit(self, source, channels, more):
        """Return a map of more channels than the source."""
        return self.sum(self.convolve(self.depthwise(source), channels), self.pad(source, more))

    def first(self, channels):
        return self.convolve(self.image, channels, kernel=3, activation=Activation.RELU)


def units(name):
    """Return a graph with residual units of a kind."""
    network = Units()
    if name == "one":
        end = network.unit(network.first(24), 28, 4)
    elif name == "chain":
        middle = network.unit(network.first(18), 24, 6)
        end = network.unit(middle, 32, 8)
    elif name == "pooled":
        middle = network.unit(network.first(20), 25, 5)
        made = network.convolve(network.depthwise(middle, stride=2), 31)
        end = network.sum(made, network.pad(network.pool(middle), 6))
    elif name == "same sizes before":
        middle = network.first(24)
        middle = network.sum(network.convolve(network.depthwise(middle), 24), middle, SCALE)
        end = network.unit(middle, 30, 6)
    else:
        assert name == "other blocks"
        middle = network.unit(network.first(24), 32, 8)
        end = network.unit(middle, 40, 8)
    return network.graph(network.convolve(end, 5, kernel=3))


def paddings(graph):
    return [node for node in graph.nodes if node.op is Op.PAD]


KINDS = {"one": 0, "chain": 0, "pooled": 0, "same sizes before": 0, "other blocks": 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", ["reference", "small"])
def test_results_are_those_of_tensorflow_lite_micro(kind, preset):
    graph = units(kind)
    given = np.random.default_rng(0).integers(-128, 128, (1, 12, 10, 3)).astype(np.int8)
    (wanted,) = micro(write_tflite(graph), [given], 1)
    program = compile_network(graph, PRESETS[preset])
    np.testing.assert_array_equal(load(program, device="model").run(given), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_no_padding_is_left_within_a_block(kind):
    graph = widen_channels(units(kind), REFERENCE)
    verify(graph, "wide")
    assert len(paddings(graph)) == KINDS[kind]


def test_maps_around_a_sum_have_the_same_channels():
    graph = widen_channels(units("chain"), REFERENCE)
    images = [graph.tensors[node.output].shape[3] for node in graph.nodes]
    assert images == [32] * (len(images) - 1) + [5]


def test_sums_take_a_single_pass():
    program = compile_network(units("pooled"), REFERENCE)
    posts = [line for line in disassemble(program).splitlines() if "POST" in line]
    assert not any("destination" in line for line in posts)
    assert any("addend=3" in line for line in posts)


@pytest.mark.parametrize("why", ["output", "input", "reader", "blocks"])
def test_other_paddings_stay(why):
    network = Units()
    if why == "input":
        source = network.input("wide", (1, 12, 10, 24), "int8", SCALE)
    else:
        source = network.first(24)
    end = network.unit(source, 28, 4) if why != "blocks" else network.unit(source, 36, 12)
    outputs = [network.convolve(end, 5)]
    if why == "output":
        outputs.append(source)
    if why == "reader":
        outputs.append(network.add(Op.RELU, [source]))
    graph = network.graph(*outputs)
    assert widen_channels(graph, REFERENCE) is graph
