"""Operators that repeat another on the same inputs."""

import numpy as np

from matloom.ir.attributes import Arithmetic, Padding, Pool2D
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes.merge_equal import merge_equal

SCALE = Quantisation(scale=(0.5,), zero_point=(3,))
POOL = Pool2D(window=(3, 3), padding=Padding(top=1, bottom=1, left=1, right=1))


def pools(*kinds, outputs=()):
    """Return maxima over an image, and the sum of the first two."""
    builder = GraphBuilder()
    image = builder.input("x", (1, 4, 4, 2), "int8", SCALE)
    made = [builder.add(Op.MAX_POOL_2D, [image], kind) for kind in kinds]
    total = builder.add(Op.ADD, made[:2], Arithmetic())
    return builder.graph(total, *(made[at] for at in outputs))


def test_equal_operators_are_computed_once():
    graph = pools(POOL, POOL)
    merged = merge_equal(graph)
    verify(merged, "merged")
    assert [node.op for node in merged.nodes] == [Op.MAX_POOL_2D, Op.ADD]
    assert len(set(merged.nodes[1].inputs)) == 1
    given = {0: np.arange(32, dtype=np.int8).reshape(1, 4, 4, 2)}
    (output,) = graph.outputs
    np.testing.assert_array_equal(interpret(merged, given)[output], twice_the_maxima(given[0]))


def twice_the_maxima(image):
    """Return twice the largest of 3 x 3 elements, in units of one scale."""
    padded = np.pad(image[0].astype(int), ((1, 1), (1, 1), (0, 0)), constant_values=-128)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    return np.clip(2 * (windows.max(axis=(3, 4)) - 3) + 3, -128, 127)[None]


def test_different_attributes_stay():
    graph = pools(POOL, Pool2D(window=(1, 1)))
    assert merge_equal(graph) is graph


def test_outputs_keep_their_operator():
    graph = pools(POOL, POOL, outputs=(1,))
    assert merge_equal(graph) is graph


def test_what_reads_merged_tensors_may_be_equal_in_turn():
    builder = GraphBuilder()
    image = builder.input("x", (1, 4, 4, 2), "int8", SCALE)
    twice = [builder.add(Op.RELU, [builder.add(Op.MAX_POOL_2D, [image], POOL)]) for _ in range(2)]
    merged = merge_equal(builder.graph(builder.add(Op.ADD, twice, Arithmetic())))
    assert [node.op for node in merged.nodes] == [Op.MAX_POOL_2D, Op.RELU, Op.ADD]
