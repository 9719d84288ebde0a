"""Plans of several stages, random or chosen, on the functional model."""

from dataclasses import replace

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import CompileOptions, compile_network
from matloom.data.matrix_products import product_graph
from matloom.ir.attributes import Arithmetic, Conv2D, Padding
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.runtime import load

SUM = Arithmetic()


class Residual:
    """A network of residual blocks: two 3x3 convolutions, and the sum with their input."""

    def __init__(self, shape, blocks):
        self.random = np.random.default_rng(1)
        self.shape, self.tensors, self.nodes = shape, {}, []
        end = self.tensor(shape, 0.25)
        for _ in range(blocks):
            made = self.convolution(self.convolution(end))
            end = self.operator(Op.ADD, (end, made), SUM)
        self.graph = Graph(
            name="residual",
            inputs=(0,),
            outputs=(end,),
            tensors=self.tensors,
            nodes=tuple(self.nodes),
        )
        verify(self.graph, "test")

    def tensor(self, shape, scale, data=None):
        number = len(self.tensors)
        quantisation = Quantisation(scale=(scale,), zero_point=(0 if data is not None else -3,))
        self.tensors[number] = Tensor(
            name=f"t{number}", shape=shape, dtype="int8", quantisation=quantisation, data=data
        )
        return number

    def operator(self, op, inputs, attributes):
        output, index = self.tensor(self.shape, 0.25), len(self.nodes)
        node = Node(op=op, inputs=inputs, outputs=(output,), attributes=attributes, index=index)
        self.nodes.append(node)
        return output

    def convolution(self, source):
        depth = self.shape[3]
        weights = self.random.integers(-9, 9, (depth, 3, 3, depth)).astype(np.int8)
        return self.operator(
            Op.CONV_2D,
            (source, self.tensor(weights.shape, 0.02, weights)),
            Conv2D(padding=Padding(top=1, bottom=1, left=1, right=1)),
        )


def check(graph, config, options=None):
    """Compare two calls of a session with the interpreter, without a check that could repair."""
    draw = np.random.default_rng(2)
    given = {
        number: draw.integers(-128, 128, graph.tensors[number].shape).astype(np.int8)
        for number in graph.inputs
    }
    ((output, expected),) = interpret(graph, given).items()
    session = load(compile_network(graph, config, options, check="none"), device="model")
    named = {graph.tensors[number].name: array for number, array in given.items()}
    for _ in range(2):
        np.testing.assert_array_equal(session.run(named)[graph.tensors[output].name], expected)


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("size", "blocks", "seed"),
    [
        # ADD, a tile after its convolution, took a place in external memory that this still read.
        (12, 2, 173),
        # ADD used the accumulators between two parts of a convolution's reduction.
        (10, 3, 5),
        (10, 3, 6),
        *((10, 2, seed) for seed in range(8)),
    ],
)
def test_residual_blocks_whose_tensors_are_in_external_memory(size, blocks, seed):
    graph = Residual((1, size, size, 4), blocks).graph
    check(graph, PRESETS["nano"], CompileOptions(tiling_seed=seed, resident=False))


@pytest.mark.parametrize("shape", [(256, 256, 64), (128, 200, 100)])
def test_a_sum_after_a_product_that_begins_in_panels(shape):
    """Its accumulators hold sums of all rows until the last panel of the inner dimension."""
    graph = product_graph(*shape)
    ((made, residual),) = ((number, max(graph.tensors) + 1) for number in graph.outputs)
    tensor = graph.tensors[made]
    graph = replace(
        graph,
        inputs=(*graph.inputs, residual),
        outputs=(residual + 1,),
        tensors={
            **graph.tensors,
            residual: replace(tensor, name="residual"),
            residual + 1: replace(tensor, name="sum"),
        },
        nodes=(
            *graph.nodes,
            Node(
                op=Op.ADD,
                inputs=(made, residual),
                outputs=(residual + 1,),
                attributes=SUM,
                index=1,
            ),
        ),
    )
    check(graph, PRESETS["reference"])
