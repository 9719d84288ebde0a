"""GATHER of constant indices as slices; NumPy's `take` is the reference."""

import numpy as np
import pytest

from matloom.ir.attributes import Axis
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes.slice_gathers import slice_gathers

SHAPE = (2, 6, 4, 3)
SLICE, JOIN, RESHAPE = Op.STRIDED_SLICE, Op.CONCATENATION, Op.RESHAPE


def gather(indices, axis, dtype="int8"):
    builder = GraphBuilder()
    scale = Quantisation(scale=(0.1,), zero_point=(0,)) if dtype == "int8" else None
    data = builder.input("data", SHAPE, dtype, scale)
    chosen = builder.constant(np.array(indices, np.int32))
    return builder.graph(builder.add(Op.GATHER, [data, chosen], Axis(axis=axis)))


@pytest.mark.parametrize(
    ("indices", "axis", "ops"),
    [
        ([1], 1, [SLICE]),
        ([0, 2, 4], 1, [SLICE]),
        ([2, 1, 0], 3, [SLICE]),
        (3, 2, [SLICE]),
        ([[1, 2], [3, 4]], 1, [SLICE, RESHAPE]),
        ([0, 1, 5], 1, [SLICE, SLICE, JOIN]),
        ([[1], [1]], 0, [SLICE, SLICE, JOIN, RESHAPE]),
        ([1, 1] * 5, 0, [SLICE] * 10 + [JOIN]),
        ([0] * 11, 1, [Op.GATHER]),
    ],
)
def test_indices_become_slices(indices, axis, ops):
    graph = gather(indices, axis)
    made = slice_gathers(graph)
    verify(made, "slice_gathers")
    assert [node.op for node in made.nodes] == ops
    data = np.random.default_rng(1).integers(-128, 128, SHAPE).astype(np.int8)
    (found,) = interpret(made, {made.inputs[0]: data}).values()
    np.testing.assert_array_equal(found, data.take(np.array(indices, int), axis))


def test_integers_of_several_ranges_stay_one_operator():
    """The host moves indices in one GATHER."""
    graph = gather([0, 1, 5], 1, "int64")
    assert slice_gathers(graph) is graph
    (node,) = slice_gathers(gather([0, 2], 1, "int64")).nodes
    assert node.op is SLICE
