"""Decoders with rotary positions and shared keys: close to ONNX Runtime, and equal to micro."""

import numpy as np
import pytest

import matloom
from matloom.frontend.readers import load_floats
from matloom.quantiser.quantise import quantise
from matloom.quantiser.run_nodes import outputs_of
from support.llama_onnx import llama
from support.masked_file import WIDTH, MaskedFile
from support.masked_onnx import TOKENS, texts
from support.oracles import micro

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

CONFIG = "nano+products=3+softmax=2+tables=2"


@pytest.mark.parametrize(("heads", "keys", "mask"), [(4, 2, "combined"), (2, 1, "scaled")])
def test_heads_share_keys(heads, keys, mask):
    given = texts(40, dtype="int32")
    del given["token_type_ids"]
    made = quantise(llama(heads, keys, mask), given, samples=24, equalise=False)
    assert made.report.outputs[0].sqnr_db > 25
    with matloom.load(made.content, device="model", config=CONFIG) as running:
        program = running.program
        # The host looks rows and masks up; all else is one command buffer.
        found = {layer.operator for layer in program.layers if layer.where == "host"}
        assert found <= {"GATHER", "MINIMUM", "RESHAPE"}
        for at in range(3):
            each = {name: array[at] for name, array in given.items()}
            (ours,) = running.run(each).values()
            order = [each[info.name] for info in program.inputs]
            np.testing.assert_array_equal(ours, micro(made.content, order, 1)[0])


def attention():
    """Return one operator of attention, with a mask of padding, for queries of four heads."""
    file = MaskedFile(7, 1, "int32")
    table = file.constant(file.random.normal(size=(TOKENS, WIDTH)).astype(np.float32))
    state = file.add("Gather", table, "input_ids")
    query, key, value = (file.dense(state, WIDTH, size) for size in (WIDTH, WIDTH // 2, WIDTH // 2))
    mask = file.expanded(file.keys(file.add("Cast", "attention_mask", to=9)))
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1}
    mixed = file.add("Attention", query, key, value, mask, **heads)
    return file.network(file.dense(mixed, WIDTH, 5), "input_ids", "attention_mask", opset=23)


def test_attention_in_one_operator():
    """Padding has no part in other tokens; the expected values are those of onnx's evaluator."""
    given = texts(24, dtype="int32")
    del given["token_type_ids"]
    content = attention()
    graph = load_floats(content)
    evaluator = onnx.reference.ReferenceEvaluator(onnx.load_from_string(content))
    numbers = {graph.tensors[number].name: number for number in graph.inputs}
    (ours,) = outputs_of(graph, {numbers[name]: array for name, array in given.items()})
    for at, result in enumerate(ours):
        each = {name: array[at] for name, array in given.items()}
        np.testing.assert_allclose(result, evaluator.run(None, each)[0], atol=1e-4)
    assert quantise(content, given, equalise=False).report.outputs[0].sqnr_db > 25
