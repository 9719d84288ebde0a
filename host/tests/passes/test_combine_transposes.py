"""Chains of TRANSPOSE and RESHAPE become one TRANSPOSE that moves the same elements."""

import math

import numpy as np
import pytest

from matloom.ir.attributes import Transpose
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes.combine_transposes import combine_transposes

SCALE = Quantisation(scale=(0.5,), zero_point=(3,))


def chain(shape, steps):
    """Return a graph of moves: a shape for RESHAPE, or a permutation as a list."""
    builder = GraphBuilder("moves")
    number = builder.input("x", shape, "int8", SCALE)
    for step in steps:
        if isinstance(step, list):
            number = builder.add(Op.TRANSPOSE, [number], Transpose(permutation=tuple(step)))
        else:
            number = builder.add(Op.RESHAPE, [number], shape=step)
    return builder.graph(number)


def moved(graph):
    """Return the result of a graph for different elements."""
    shape = graph.tensors[graph.inputs[0]].shape
    places = np.arange(math.prod(shape)).astype(np.int8).reshape(shape)
    verify(graph, graph.name)
    return interpret(graph, {graph.inputs[0]: places})[graph.outputs[0]]


def transposes(graph):
    return [node.attributes.permutation for node in graph.nodes if node.op is Op.TRANSPOSE]


#: By name: the shape, the steps, and the permutations that are left.
CHAINS = {
    # As MobileViT's exporters write them: 2 x 2 patches of 8 x 8 positions of 16 channels.
    "patches": (
        (1, 8, 8, 16),
        [[0, 3, 1, 2], (64, 2, 4, 2), [0, 2, 1, 3], (1, 16, 16, 4), [0, 3, 2, 1], (4, 16, 16)],
        [(1, 3, 0, 2, 4)],
    ),
    # Windows of a Swin transformer: one swap, as it is.
    "windows": (
        (1, 8, 8, 16),
        [(1, 2, 4, 2, 4, 16), [0, 1, 3, 2, 4, 5], (4, 16, 16)],
        [(0, 1, 3, 2, 4, 5)],
    ),
    "there and back": ((1, 4, 6, 5), [[0, 3, 1, 2], (5, 24), [1, 0], (4, 6, 5)], []),
    "in the shape of its result": (
        (1, 4, 6, 8),
        [[0, 3, 2, 1], [0, 2, 3, 1], [0, 1, 3, 2]],
        [(0, 2, 3, 1)],
    ),
    # Neither half of six divides four.
    "axes that do not fit": ((4, 6, 5), [[1, 0, 2], (4, 6, 5), [2, 1, 0]], [(1, 0, 2), (2, 1, 0)]),
    "single": ((3, 4, 5, 2), [[3, 2, 1, 0]], [(3, 2, 1, 0)]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains(name):
    shape, steps, left = CHAINS[name]
    graph = chain(shape, steps)
    changed = combine_transposes(graph)
    assert transposes(changed) == left
    np.testing.assert_array_equal(moved(changed), moved(graph))


@pytest.mark.parametrize("seed", range(40))
def test_random_chains_move_the_same_elements(seed):
    random = np.random.default_rng(seed)
    factors = random.choice([1, 2, 2, 3, 4], 6)

    def shape():
        cuts = sorted(random.choice(range(1, 6), random.integers(1, 5), replace=False))
        return tuple(int(np.prod(part)) for part in np.split(factors, cuts))

    first = sizes = shape()
    steps = []
    for _ in range(6):
        if random.random() < 0.6:
            order = [int(axis) for axis in random.permutation(len(sizes))]
            steps.append(order)
            sizes = tuple(sizes[axis] for axis in order)
        else:
            sizes = shape()
            steps.append(sizes)
    graph = chain(first, steps)
    np.testing.assert_array_equal(moved(combine_transposes(graph)), moved(graph))


def test_results_that_others_read_stay():
    builder = GraphBuilder("moves")
    x = builder.input("x", (1, 8, 8, 16), "int8", SCALE)
    first = builder.add(Op.TRANSPOSE, [x], Transpose(permutation=(0, 3, 1, 2)))
    second = builder.add(Op.TRANSPOSE, [first], Transpose(permutation=(0, 2, 3, 1)))
    assert transposes(combine_transposes(builder.graph(second, first))) == [
        (0, 3, 1, 2),
        (0, 2, 3, 1),
    ]
