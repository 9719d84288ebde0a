"""LSTMs of int8: their nodes against TensorFlow Lite Micro's kernel, over calls that keep state."""

from dataclasses import replace

import numpy as np
import pytest
from single_operators.lstm import LstmFile
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file

import matloom
from matloom import frontend
from matloom.ir.graph import Op
from matloom.kernels.interpreter import initial_state, interpret, next_state
from matloom.kernels.recurrence import logistic_of_words, tanh_of_words
from matloom.program import EngineStep
from support.oracles import micro, micro_session

FORMS = {
    "usual": LstmFile(),
    "one step": LstmFile(steps=1, batch=3),
    "time first": LstmFile(batch=2, steps=4, time_major=True),
    "batch first": LstmFile(batch=2, steps=4),
    "no limit": LstmFile(clip=0.0, steps=9),
    "low limit": LstmFile(clip=0.7, steps=9),
    "wide state": LstmFile(power=-9, hidden_zero=17),
    "narrow state": LstmFile(power=-15, hidden_zero=0),
    "large": LstmFile(depth=300, cells=150, steps=5),
}
OTHERS = {
    "a state of another scale": (replace(FORMS["usual"], power=-11.5), "power of two"),
    "another activation": (replace(FORMS["usual"], activation=1), "tanh"),
    "many steps": (LstmFile(steps=129, depth=2, cells=2), "at most 128 steps, not 129"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(2))
def test_equals_micro(form, seed):
    content = FORMS[form].content(seed)
    graph = frontend.load(content)
    assert Op.REFERENCE not in {node.op for node in graph.nodes}
    random, run, state = np.random.default_rng(seed), micro_session(content), initial_state(graph)
    (given,), (made,) = graph.inputs, graph.outputs
    for _ in range(3):
        array = random.integers(-128, 128, graph.tensors[given].shape, np.int8)
        results = interpret(graph, {given: array, **state})
        state, wanted = next_state(graph, results), run(array)[0]
        assert len(np.unique(wanted)) > 10
        assert np.array_equal(results[made], wanted)


def test_scales_are_multiplied_in_float64():
    """A product in float32 would change sums by one, which outputs of a fine scale show."""
    form = LstmFile(batch=4, steps=25, depth=200, cells=200, hidden_scale=1.37e-4, recurrent=50.0)
    content = form.content(43)
    array = np.random.default_rng(43).integers(-128, 128, (4, 25, 200), np.int8)
    graph = frontend.load(content)
    found = interpret(graph, {graph.inputs[0]: array})[graph.outputs[0]]
    assert np.array_equal(found, micro(content, [array], 1)[0])


@pytest.mark.parametrize("form", OTHERS)
def test_other_forms_are_an_interpreters(form):
    lstm, why = OTHERS[form]
    (node,) = frontend.load(lstm.content(0)).nodes
    assert node.op is Op.REFERENCE
    assert why in node.attributes.reasons[0]


def test_the_engine_has_all_products():
    content = FORMS["batch first"].content(5)
    graph, run = frontend.load(content), micro_session(content)
    random = np.random.default_rng(5)
    with matloom.load(content, device="model", config="nano", check="none") as session:
        assert session.program.macs == session.program.engine_macs == 2 * 4 * 28 * (5 + 7)
        for _ in range(3):
            array = random.integers(-128, 128, graph.tensors[graph.inputs[0]].shape, np.int8)
            assert np.array_equal(session.run(array), run(array)[0])
        session.reset()
        assert np.array_equal(session.run(array), micro(content, [array], 1)[0])


@pytest.mark.parametrize("form", ["usual", "batch first", "low limit", "narrow state"])
def test_the_engine_has_whole_steps_with_products_and_curves_of_words(form):
    content = FORMS[form].content(5)
    graph, run = frontend.load(content), micro_session(content)
    random = np.random.default_rng(5)
    config = "nano+i16xi8+products=4+curves=1"
    with matloom.load(content, device="model", config=config, check="full") as session:
        assert [type(step) for step in session.program.steps] == [EngineStep]
        for _ in range(3):
            array = random.integers(-128, 128, graph.tensors[graph.inputs[0]].shape, np.int8)
            assert np.array_equal(session.run(array), run(array)[0])
        session.reset()
        assert np.array_equal(session.run(array), micro(content, [array], 1)[0])


@pytest.mark.parametrize(
    ("name", "function"), [("LOGISTIC", logistic_of_words), ("TANH", tanh_of_words)]
)
def test_functions_of_words(name, function):
    """All numbers of 16 bits."""
    every = np.arange(-(2**15), 2**15, dtype=np.int16).reshape(1, -1)
    ends = [(2.0**-12, "x"), (2.0**-15, "y")]
    tensors = [
        FileTensor(name=end, shape=every.shape, dtype="int16", scales=(scale,), zeros=(0,))
        for scale, end in ends
    ]
    operator = FileOperator(name=name, inputs=(0,), outputs=(1,))
    network = FileNetwork(tensors=tuple(tensors), operators=(operator,), inputs=(0,), outputs=(1,))
    (wanted,) = micro(write_file(network), [every], 1)
    assert np.array_equal(function(every.astype(np.int64)), wanted)
