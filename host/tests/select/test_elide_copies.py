"""Concatenations whose inputs are written directly into the output."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.attributes import Activation, Arithmetic, Axis, Conv2D, Pool2D, Resize
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.shapes import same_padding
from matloom.kernels.interpreter import interpret
from matloom.runtime import load
from matloom.verification.random_operators import RandomOperators

#: Of all data, as a concatenation asks for.
SCALE = Quantisation(scale=(0.5,), zero_point=(4,))


class Network(GraphBuilder):
    """Convolutions of one input, and their concatenation; all tensors have the same scale."""

    def __init__(self, seed, shape):
        super().__init__("joined")
        self.instances = RandomOperators(seed)
        self.input("input", shape, "int8", SCALE)

    def convolution(self, source, outputs, kernel=3):
        """Add a convolution that keeps the size of the image."""
        _images, height, width, depth = self.tensors[source].shape
        attributes = Conv2D(
            padding=same_padding((height, width), (kernel, kernel), (1, 1), (1, 1)),
            activation=Activation.RELU,
        )
        weights = self.tensor(self.instances._weights((outputs, kernel, kernel, depth), 0))
        return self.add(Op.CONV_2D, [source, weights], attributes)


def check(graph, config="small", seeds=(None, 1)):
    """Compare a graph in several tilings with the interpreter; return its concatenation."""
    shape = graph.tensors[0].shape
    given = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    expected = interpret(graph, {0: given})
    for seed in seeds:
        options = CompileOptions(tiling_seed=seed)
        program = compile_network(graph, PRESETS[config], options)
        assert {layer.where for layer in program.layers} == {"engine"}
        results = load(program, device="model").run({"input": given})
        for number in graph.outputs:
            np.testing.assert_array_equal(results[graph.tensors[number].name], expected[number])
    (layer,) = (layer for layer in program.layers if layer.operator == "CONCATENATION")
    return layer


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("shape", [(1, 5, 7, 12), (1, 16, 7, 40), (2, 1, 7, 16)])
@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("op", [Op.ADD, Op.MAXIMUM])
@pytest.mark.parametrize("config", ["reference", "small", "nano"])
def test_sums_and_maxima_write_side_by_side(config, op, axis, shape):
    """POST reads the second input where the first was made, and writes somewhere else."""
    network = Network(axis, shape)
    first = network.convolution(0, shape[3], 1)
    operands = [network.convolution(first, shape[3]), first]
    made = network.add(op, operands, Arithmetic() if op is Op.ADD else None)
    parts = [network.convolution(0, shape[3], 1), made]
    check(network.graph(network.add(Op.CONCATENATION, parts, Axis(axis=axis))), config)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("config", ["nano", "reference"])
def test_convolutions_write_side_by_side(axis, config):
    network = Network(axis, (2, 6, 7, 5))
    parts = tuple(network.convolution(0, 21, kernel) for kernel in (1, 3, 5))
    joined = network.add(Op.CONCATENATION, parts, Axis(axis=axis))
    last = network.convolution(joined, 8, 1)
    layer = check(network.graph(last), config)
    assert (layer.timestamp, layer.predicted_cycles) == (0, 0)


def test_tensors_with_other_readers_are_copied():
    network = Network(5, (1, 4, 4, 16))
    first, second = network.convolution(0, 16), network.convolution(0, 16)
    joined = network.add(Op.CONCATENATION, (first, second), Axis(axis=3))
    assert check(network.graph(joined, second)).timestamp > 0


def test_an_upsampled_map_next_to_its_ancestor():
    network = Network(6, (1, 8, 8, 12))
    wide = network.convolution(0, 20)
    pool = Pool2D(window=(2, 2), stride=(2, 2))
    narrow = network.convolution(network.add(Op.MAX_POOL_2D, (wide,), pool), 24)
    resize = Resize(size=(8, 8), align_corners=False, half_pixel_centers=True)
    up = network.add(Op.RESIZE_NEAREST_NEIGHBOR, (narrow,), resize)
    joined = network.add(Op.CONCATENATION, (up, wide), Axis(axis=3))
    assert check(network.graph(network.convolution(joined, 9)), "nano").timestamp > 0
