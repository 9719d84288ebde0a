"""Graphs built by hand."""

import doctest

import numpy as np
import pytest

from matloom.ir import builder
from matloom.ir.attributes import Arithmetic, Axis
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.kernels.interpreter import interpret, next_state

SCALE = Quantisation(scale=(0.5,), zero_point=(0,))
NOTHING = Arithmetic()


def test_the_example_of_the_documentation():
    assert doctest.testmod(builder) == (0, 9)


def test_a_variable_keeps_what_it_is_assigned():
    graph = GraphBuilder()
    x = graph.input("x", (1, 3), "int8", SCALE)
    total = graph.variable("total", np.zeros((1, 3), np.int8), SCALE)
    after = graph.add(Op.ADD, [x, total], NOTHING)
    graph.assign(total, after)
    made = graph.graph(after)
    given = {x: np.array([[1, 2, 3]], np.int8)}
    first = interpret(made, given)
    second = interpret(made, {**given, **next_state(made, first)})
    np.testing.assert_array_equal(second[after], [[2, 4, 6]])


def test_misfits():
    graph = GraphBuilder("wrong")
    x = graph.input("x", (1, 3), "int8", SCALE)
    y = graph.input("y", (2, 4), "int8", SCALE)
    with pytest.raises(ValueError, match="must"):
        graph.add(Op.CONCATENATION, [x, y], Axis(axis=0))
    with pytest.raises(ValueError, match="shape must be given for RESHAPE"):
        graph.add(Op.RESHAPE, [x])
    flat = graph.add(Op.RESHAPE, [x], shape=(4,))
    with pytest.raises(ValueError, match=r"wrong: operator 0 \(RESHAPE\) must give 3 elements"):
        graph.graph(flat)
