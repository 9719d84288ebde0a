"""Networks that keep state between calls are quantised with their variables."""

import numpy as np
import pytest

import matloom
from matloom.ir.attributes import Axis, FullyConnected, Slice
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op
from matloom.kernels.interpreter import initial_state, interpret, next_state
from matloom.quantiser import quantise

CALLS, WIDTH, KEPT = 60, 6, 5


def remembering():
    """Return a network that keeps its last inputs as they come, and its last results."""
    random, builder = np.random.default_rng(4), GraphBuilder("remembering")
    x = builder.input("x", (1, WIDTH), "float32")
    old = builder.variable("inputs", random.standard_normal((KEPT, WIDTH)).astype(np.float32))
    both = builder.add(Op.CONCATENATION, [old, x], Axis(axis=0))
    later = Slice(begin=(1, 0), size=(KEPT, WIDTH), step=(1, 1), dropped=())
    rows = builder.add(Op.STRIDED_SLICE, [both], later)
    builder.assign(old, rows)
    flat = builder.add(Op.RESHAPE, [rows], shape=(1, KEPT * WIDTH))
    state = builder.variable("state", np.full((1, WIDTH), 4, np.float32))

    def dense(source, units):
        depth = builder.tensors[source].shape[-1]
        matrix = random.standard_normal((units, depth)) / np.sqrt(depth)
        kept = FullyConnected()
        return builder.add(
            Op.FULLY_CONNECTED, [source, builder.constant(matrix.astype(np.float32))], kept
        )

    mixed = builder.add(Op.CONCATENATION, [dense(flat, WIDTH), dense(state, WIDTH)], Axis(axis=1))
    result = dense(builder.add(Op.TANH, [mixed]), WIDTH)
    builder.assign(state, result)
    return builder.graph(dense(result, 3))


@pytest.fixture(scope="module")
def calls():
    return np.random.default_rng(5).standard_normal((2 * CALLS, 1, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def made(calls):
    return quantise(remembering(), calls[:CALLS])


def test_calls_follow_the_float_network(made, calls):
    graph, found, wanted = remembering(), [], []
    state = initial_state(graph)
    with matloom.load(made.content, device="model", config="nano") as session:
        for x in calls[CALLS:]:
            results = interpret(graph, {**state, graph.inputs[0]: x})
            state = next_state(graph, results)
            wanted.append(results[graph.outputs[0]])
            found.append(session.dequantise(session.run(session.quantise(x))))
    error = np.square(np.subtract(found, wanted)).mean() / np.square(wanted).mean()
    # Errors of the state stay for some calls.
    assert 10 * np.log10(error) < -20


def test_a_variable_has_one_scale(made):
    graph = made.graph
    assert [variable.name for variable in graph.variables] == ["inputs", "state"]
    for variable in graph.variables:
        before, after = (graph.tensors[at] for at in (variable.before, variable.after))
        assert before.quantisation == after.quantisation
        assert variable.initial.dtype == np.int8
    # What only moves keeps its scale; a result is converted to that of the state.
    assert [node.op for node in graph.nodes].count(Op.QUANTIZE) == 1
    assert np.unique(graph.variables[0].initial).size > KEPT


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
def test_the_chip_remembers_like_the_model(made, calls, preset):
    found = []
    for device in ("model", "rtl"):
        with matloom.load(made.graph, device=device, config=preset) as session:
            results = [session.run(session.quantise(x)) for x in calls[CALLS:][:8]]
            found.append((results, session.state))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    for name, kept in found[0][1].items():
        np.testing.assert_array_equal(kept, found[1][1][name])


def test_only_outputs_are_reported(made):
    assert len(made.report.outputs) == len(made.graph.outputs) == 1
