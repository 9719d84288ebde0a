"""SVDF of int8, written out, equals TensorFlow Lite Micro's kernel in consecutive calls."""

from dataclasses import replace

import numpy as np
import pytest
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file
from single_operators.svdf import SvdfFile

import matloom
from matloom import frontend
from matloom.ir.graph import Op
from matloom.kernels.interpreter import initial_state, interpret, next_state
from matloom.program import EngineStep
from support.oracles import micro, micro_session

USUAL = SvdfFile()
BYTES = replace(USUAL, state="int8", bits=8)
FORMS = {
    "usual": USUAL,
    "batch": replace(USUAL, batch=3),
    "one rank": replace(USUAL, rank=1),
    "many ranks": replace(USUAL, rank=5),
    "nothing remembered": replace(USUAL, memory=1),
    "narrow weights": replace(USUAL, bits=8),
    "bytes": BYTES,
    "bytes, batch": replace(BYTES, batch=2, rank=3),
    "large": SvdfFile(depth=40, units=64, memory=10),
}
OTHERS = {
    "weights of all bits": (replace(USUAL, bits=16), "weights of 1016 at most"),
    "a long memory": (replace(USUAL, memory=60), "at most 255 rows of weights, not 300"),
    "no bias": (replace(USUAL, biased=False), "two weights, a bias and a state"),
    "a zero point": (replace(BYTES, zero=3), "zero point 0 for 'state'"),
}
#: More than the memory holds, so that the oldest inputs are forgotten.
CALLS = 8


def inputs(form, seed):
    """Return the inputs of consecutive calls."""
    shape = (CALLS, form.batch, form.depth)
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(2))
def test_equals_micro(form, seed):
    content = FORMS[form].content(seed)
    graph = frontend.load(content)
    assert Op.REFERENCE not in {node.op for node in graph.nodes}
    run, state, seen = micro_session(content), initial_state(graph), set()
    (given,), (made,) = graph.inputs, graph.outputs
    for array in inputs(FORMS[form], seed):
        results = interpret(graph, {given: array, **state})
        state, wanted = next_state(graph, results), run(array)[0]
        seen.update(wanted.ravel().tolist())
        assert np.array_equal(results[made], wanted)
    assert len(seen) > 20


def revealed(random):
    """Return an input and an SVDF whose bias is minus its memory, so that errors of one show."""
    weights, data = random.integers(-127, 128, (200, 1)).astype(np.int8), 127
    first, second, ratio = map(float, np.float32(random.uniform(1.2, 1.99, 3)))
    state = float(np.float32(first * second / ratio))
    exact = weights.astype(np.int64).ravel() * data * first * second / state
    bias = -np.clip(np.rint(exact), -(2**15), 2**15 - 1).astype(np.int32)
    tensors = [
        FileTensor(name="x", shape=(1, 1), scales=(first,), zeros=(0,)),
        FileTensor(shape=(200, 1), data=weights, scales=(second,), zeros=(0,)),
        FileTensor(
            shape=(200, 1), dtype="int16", data=np.ones((200, 1), np.int16), scales=(1,), zeros=(0,)
        ),
        FileTensor(shape=(200,), dtype="int32", data=bias, scales=(state,), zeros=(0,)),
        FileTensor(shape=(1, 200), dtype="int16", scales=(state,), zeros=(0,), variable=True),
        FileTensor(name="y", shape=(1, 200), scales=(state,), zeros=(0,)),
    ]
    operator = FileOperator(
        name="SVDF", inputs=(0, 1, 2, 3, 4), outputs=(5,), options=("SVDFOptions", {"rank": 1})
    )
    network = FileNetwork(tensors=tuple(tensors), operators=(operator,), inputs=(0,), outputs=(5,))
    return write_file(network), np.full((1, 1), data, np.int8)


def test_scales_are_multiplied_in_float64():
    """A product in float32, as LiteRT's, would change the memory by one now and then."""
    random = np.random.default_rng(0)
    for _ in range(100):
        content, array = revealed(random)
        graph = frontend.load(content)
        found = interpret(graph, {graph.inputs[0]: array, **initial_state(graph)})
        assert np.array_equal(found[graph.outputs[0]], micro(content, [array], 1)[0])


@pytest.mark.parametrize("form", OTHERS)
def test_other_forms_are_an_interpreters(form):
    svdf, why = OTHERS[form]
    (node,) = frontend.load(svdf.content(0)).nodes
    assert node.op is Op.REFERENCE
    assert why in node.attributes.reasons[0]


@pytest.mark.parametrize(
    ("config", "form"),
    [
        *(("nano+i16xi8", form) for form in ("usual", "batch", "nothing remembered")),
        ("small+i16xi8", "large"),
        ("nano", "bytes"),
        ("reference", "bytes, batch"),
    ],
)
def test_the_engine_has_all_of_it(config, form):
    """One command buffer a call, whose memory stays with the engine until a reset."""
    content = FORMS[form].content(5)
    run, given = micro_session(content), inputs(FORMS[form], 5)
    with matloom.load(content, device="model", config=config, check="full") as session:
        assert [type(step) for step in session.program.steps] == [EngineStep]
        for array in given:
            assert np.array_equal(session.run(array), run(array)[0])
        session.reset()
        assert np.array_equal(session.run(given[0]), micro(content, [given[0]], 1)[0])


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["nano", "small", "reference"])
@pytest.mark.parametrize("form", ["usual", "bytes"])
def test_on_the_simulated_chip(preset, form):
    content, config = FORMS[form].content(6), preset if form == "bytes" else f"{preset}+i16xi8"
    run = micro_session(content)
    with matloom.load(content, device="rtl", config=config) as session:
        for array in inputs(FORMS[form], 6):
            assert np.array_equal(session.run(array), run(array)[0])


def test_an_engine_without_words_leaves_it_to_the_host():
    content = USUAL.content(7)
    run = micro_session(content)
    with matloom.load(content, device="model", config="nano") as session:
        (row,) = [each for each in session.program.layers if each.operator == "DEPTHWISE_CONV_2D"]
        assert row.reason == "the engine is built with i8xi8, not i16xi8"
        for array in inputs(USUAL, 7):
            assert np.array_equal(session.run(array), run(array)[0])
