"""Variables of a graph: inputs and outputs, rules, text form, and passes."""

import re
from dataclasses import replace

import numpy as np
import pytest

from matloom.data.growth import Growth
from matloom.data.streaming import delay
from matloom.ir.graph import Op
from matloom.ir.text import to_text
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes import run_passes


@pytest.fixture
def graph():
    """Return a network that returns its input, clamped, and remembers the last three rows."""
    growth = Growth((1,))
    given = growth.input((1, 2, 1, 4), "int8")
    delay(growth, given, 3)
    (output,) = growth.operator(Op.RELU, [given])
    return growth.graph("a test", [given], [output])


def test_inputs_and_outputs_of_variables(graph):
    (variable,) = graph.variables
    assert graph.entering == (*graph.inputs, variable.before)
    assert graph.leaving == (*graph.outputs, variable.after)
    same = replace(variable, name="again", before=graph.inputs[0])
    assert replace(graph, variables=(variable, same)).leaving == graph.leaving


def test_text(graph):
    (variable,) = graph.variables
    (line,) = (line for line in to_text(graph).splitlines() if line.startswith("variable"))
    before, after = (f"%{number}:int8[1x3x1x4]" for number in (variable.before, variable.after))
    assert re.fullmatch(rf"variable {re.escape(before)}.* becomes {re.escape(after)}.* 'v0'", line)


def test_calls_are_independent(graph):
    (variable,) = graph.variables
    (given,) = graph.inputs
    rows = np.arange(8, dtype=np.int8).reshape(1, 2, 1, 4)
    results = interpret(graph, {given: rows})
    assert set(results) == {*graph.outputs, variable.after}
    wanted = np.concatenate([variable.initial, rows], axis=1)[:, 2:]
    np.testing.assert_array_equal(results[variable.after], wanted)
    other = interpret(graph, {given: rows, variable.before: wanted})
    np.testing.assert_array_equal(other[variable.after][:, 1:], rows)
    with pytest.raises(ValueError, match="inputs must be tensors"):
        interpret(graph, {variable.before: wanted})


def test_passes_keep_what_only_a_variable_needs(graph):
    """An assignment is not unused, and a variable's value is not constant."""
    after = run_passes(graph)
    assert {node.op for node in after.nodes} == {Op.RELU, Op.CONCATENATION, Op.STRIDED_SLICE}
    assert after.variables == graph.variables
    without = run_passes(replace(graph, variables=()))
    assert {node.op for node in without.nodes} == {Op.RELU}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"after": 0},
            "variable 'v0' must be assigned int8 (1, 3, 1, 4), not int8 (1, 2, 1, 4)",
        ),
        (
            {"initial": np.zeros((3, 4), np.int8)},
            "variable 'v0' must begin as int8 (1, 3, 1, 4), not int8 (3, 4)",
        ),
        (
            {"initial": np.zeros((1, 3, 1, 4), np.uint8)},
            "variable 'v0' must begin as int8 (1, 3, 1, 4), not uint8 (1, 3, 1, 4)",
        ),
        ({"before": 0}, "input 0 must be given once and not be constant"),
    ],
)
def test_rules(graph, changes, sentence):
    (variable,) = graph.variables
    verify(graph, "a test")
    wrong = replace(graph, variables=(replace(variable, **changes),))
    with pytest.raises(ValueError, match=re.escape(f"a test: {sentence}")):
        verify(wrong, "a test")


def test_names_differ(graph):
    (variable,) = graph.variables
    number = max(graph.tensors) + 1
    tensors = {**graph.tensors, number: graph.tensors[variable.before]}
    twice = (variable, replace(variable, before=number))
    with pytest.raises(ValueError, match="variable names must differ, but 'v0' occurs twice"):
        verify(replace(graph, tensors=tensors, variables=twice), "a test")
