"""LSTM, GRU and RNN of ONNX written out: equal to ONNX Runtime in floats."""

from dataclasses import replace

import numpy as np
import pytest

from matloom import frontend
from matloom.frontend.errors import ModelError
from matloom.ir.graph import Op
from matloom.quantiser.prepare import prepare
from matloom.quantiser.run_nodes import outputs_of
from support.recurrent_onnx import RecurrentFile

pytest.importorskip("onnx", reason="onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

KINDS = {
    "LSTM": RecurrentFile(op="LSTM"),
    "GRU": RecurrentFile(op="GRU"),
    "GRU, linear before reset": RecurrentFile(op="GRU", options=(("linear_before_reset", 1),)),
    "RNN": RecurrentFile(op="RNN"),
    "RNN of RELU": RecurrentFile(op="RNN", options=(("activations", ["Relu"]),)),
}
FORMS = {
    "usual": {},
    "one step": {"steps": 1},
    "no bias": {"biased": False},
    "reverse": {"direction": "reverse"},
    "bidirectional": {"direction": "bidirectional"},
    "constant state": {"initial": "constant", "batch": 1},
    "given state": {"initial": "input", "direction": "reverse"},
    "one given step": {"initial": "input", "steps": 1, "biased": False},
}
REFUSED = {
    "many steps": (RecurrentFile(op="GRU", steps=129), "has 129 steps, more than 128"),
    "clip": (RecurrentFile(op="LSTM", options=(("clip", 3.0),)), "has clip"),
    "gates": (
        RecurrentFile(op="GRU", options=(("activations", ["Relu", "Tanh"]),)),
        "gates of another function than Sigmoid",
    ),
    "function": (RecurrentFile(op="RNN", options=(("activations", ["Softsign"]),)), "Softsign"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_equals_onnx_runtime(kind, form):
    file = replace(KINDS[kind], **FORMS[form])
    if file.direction == "bidirectional" and "activations" in dict(file.options):
        file = replace(file, options=(("activations", ["Relu", "Relu"]),))
    content = file.content()
    graph = prepare(frontend.load_floats(content))
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    given = {
        each.name: random.normal(0, 1, each.shape).astype(np.float32)
        for each in session.get_inputs()
    }
    arrays = {number: given[graph.tensors[number].name][np.newaxis] for number in graph.inputs}
    for found, wanted in zip(outputs_of(graph, arrays), session.run(None, given), strict=True):
        assert found[0].shape == wanted.shape
        assert np.allclose(found[0], wanted, atol=1e-6)


def test_steps_share_their_weights():
    graph = frontend.load_floats(KINDS["LSTM"].content())
    layers = [node for node in graph.nodes if node.op is Op.FULLY_CONNECTED]
    assert len(layers) == 4
    assert len({node.inputs[1] for node in layers}) == 2


@pytest.mark.parametrize("form", REFUSED)
def test_refused(form):
    file, why = REFUSED[form]
    with pytest.raises(ModelError, match=why):
        frontend.load_floats(file.content())
