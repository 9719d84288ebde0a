"""Decoders with rotary positions and shared keys: close to ONNX Runtime, and equal to micro."""

import numpy as np
import pytest

import matloom
from matloom.quantiser.quantise import quantise
from support.llama_onnx import llama
from support.masked_onnx import texts
from support.oracles import micro

pytest.importorskip("onnx", reason="onnx is not installed")
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
