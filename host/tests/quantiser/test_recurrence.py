"""LSTM, GRU and RNN quantised: shared weights, noise, and the engine against the interpreter."""

from dataclasses import replace

import numpy as np
import pytest

import matloom
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from matloom.program import EngineStep
from matloom.quantiser import quantise
from support.oracles import micro
from support.recurrent_onnx import RecurrentFile

pytest.importorskip("onnx", reason="onnx is not installed")

GRU = (("linear_before_reset", 1),)
FILES = {
    "LSTM": RecurrentFile(op="LSTM", batch=1, cells=8),
    "GRU": RecurrentFile(op="GRU", batch=1, cells=8, options=GRU),
    "RNN": RecurrentFile(op="RNN", batch=1, cells=8),
}
#: By precision: an engine that has all operators, and the least SQNR in decibels.
ENGINES = {
    "i8xi8": ("nano+tables=1+products=1", 27),
    "i16xi8": ("nano+i16xi8+products=4+curves=1", 40),
}


def samples(count):
    return np.random.default_rng(2).normal(0, 1, (count, 4, 1, 3)).astype(np.float32)


def test_micro_runs_many_steps():
    """Its CONCATENATION takes ten inputs at most."""
    file = replace(FILES["RNN"], steps=101)
    samples = np.random.default_rng(4).normal(0, 1, (4, 101, 1, 3)).astype(np.float32)
    made = quantise(file.content(), samples, samples=2, equalise=False)
    array = np.zeros((101, 1, 3), np.int8)
    results = interpret(made.graph, {made.graph.inputs[0]: array})
    for number, wanted in zip(made.graph.outputs, micro(made.content, [array], 2), strict=True):
        assert np.array_equal(results[number], wanted)


@pytest.mark.parametrize("precision", ENGINES)
@pytest.mark.parametrize("kind", FILES)
def test_the_engine_has_all_steps(kind, precision):
    config, least = ENGINES[precision]
    made = quantise(FILES[kind].content(), samples(80), samples=40, precision=precision)
    assert min(each.sqnr_db for each in made.report.outputs) > least
    layers = [node for node in made.graph.nodes if node.op is Op.FULLY_CONNECTED]
    # One layer has the inputs of all steps; the first step has no state yet.
    assert len(layers) == 4
    assert len({node.inputs[1] for node in layers}) == 2
    given = made.graph.tensors[made.graph.inputs[0]]
    random, limits = np.random.default_rng(3), np.iinfo(given.dtype)
    with matloom.load(made.graph, "model", config=config, check="full") as session:
        assert [type(step) for step in session.program.steps] == [EngineStep]
        for _ in range(3):
            array = random.integers(limits.min, limits.max + 1, given.shape, given.dtype)
            found = session.run({given.name: array})
            wanted = micro(made.content, [array], len(made.graph.outputs))
            for one, other in zip(found.values(), wanted, strict=True):
                assert np.array_equal(one, other)
