"""Inputs of the check: the whole range, and its ends."""

import numpy as np
import pytest

from matloom.ir.attributes import Attributes, Axis, Reference
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.selfcheck.stimuli import inputs_of, values_of
from matloom.tools.compare import random_inputs
from matloom.verification.random_operators import RandomOperators


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 127), ("int16", -(2**15), 2**15 - 1), ("uint8", 0, 255), ("bool", 0, 1)],
)
def test_ranges(dtype, low, high):
    tensor = Tensor(name="x", shape=(50, 2000), dtype=dtype)
    draw = np.random.default_rng(0)
    for kind, wanted in (("minimum", {low}), ("maximum", {high})):
        array = values_of(tensor, kind, draw)
        assert array.dtype == dtype
        assert set(np.unique(array)) == wanted
    array = values_of(tensor, "random", draw)
    assert (array.min(), array.max()) == (low, high)


def test_floats_stay_finite():
    tensor = Tensor(name="x", shape=(1000,), dtype="float32")
    draw = np.random.default_rng(0)
    ends = [float(values_of(tensor, kind, draw)[0]) for kind in ("minimum", "maximum")]
    assert ends == [-1, 1]
    assert 0.9 < values_of(tensor, "random", draw).std() < 1.1


def test_equal_seeds_give_equal_inputs():
    graph = RandomOperators(0).make(Op.ADD)
    one, other = (inputs_of(graph, "random", np.random.default_rng(5)) for _ in range(2))
    assert all(np.array_equal(one[number], other[number]) for number in graph.inputs)


@pytest.mark.parametrize("opaque", [False, True])
def test_indices_of_opaque_operators_are_zero(opaque):
    tensors = {
        0: Tensor(name="x", shape=(90,), dtype="int32"),
        1: Tensor(name="y", shape=(90,), dtype="int32"),
    }
    attributes = Reference(operators=("GATHER",), reasons=("",)) if opaque else Attributes()
    op = Op.REFERENCE if opaque else Op.RESHAPE
    node = Node(op=op, inputs=(0,), outputs=(1,), attributes=attributes, index=0)
    graph = Graph(name="", inputs=(0,), outputs=(1,), tensors=tensors, nodes=(node,))
    array = inputs_of(graph, "random", np.random.default_rng(0))[0]
    assert array.any() != opaque


def test_indices_are_valid():
    """Through operators that move them, and at the least length of several tables."""
    builder = GraphBuilder()
    ids, plain = builder.input("ids", (2, 3), "int64"), builder.input("plain", (4,), "int64")
    flat = builder.add(Op.RESHAPE, [ids], shape=(6,))
    rows = [
        builder.add(Op.GATHER, [builder.constant(np.ones(shape, np.int8)), flat], Axis(axis=axis))
        for shape, axis in (((7, 6), 0), ((6, 5), 1))
    ]
    graph = builder.graph(*rows, builder.add(Op.RESHAPE, [plain], shape=(2, 2)))
    draw = np.random.default_rng(0)
    values = [inputs_of(graph, kind, draw) for kind in ("random", "minimum", "maximum")]
    values += [random_inputs(graph, seed) for seed in range(9)]
    found = {int(index) for each in values for index in each[ids].reshape(-1)}
    assert found == set(range(5))
    assert max(int(each[plain].max()) for each in values) == 2**63 - 1
