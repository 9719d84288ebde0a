"""Attention with masks in integers: close to ONNX Runtime in floats, and equal to micro."""

import numpy as np
import pytest

from matloom.quantiser import quantise
from support.float_onnx import FloatFile
from support.oracles import micro

pytest.importorskip("onnx", reason="onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

_LATER = np.triu(np.ones((6, 6), bool), 1)


def attention(mask):
    """Return attention of six tokens; `mask` adds the operator that excludes scores."""
    file = FloatFile()
    query, key, value = (file.add("MatMul", "image", file.weights(8, 8)) for _ in range(3))
    scores = file.add("MatMul", query, file.add("Transpose", key, perm=[0, 2, 1]))
    chances = file.add("Softmax", mask(file, scores))
    return file.content((1, 6, 8), file.add("MatMul", chances, value))


def mask_of(least):
    mask = np.where(_LATER, np.float32(least), np.float32(0))
    return lambda file, scores: file.add("Add", scores, file.constant(mask))


def fill(file, scores):
    least = file.constant(np.array(-1e9, np.float32))
    return file.add("Where", file.constant(_LATER), least, scores)


@pytest.mark.parametrize(
    "mask",
    [mask_of(-np.inf), mask_of(np.finfo(np.float32).min), mask_of(-1e9), fill],
    ids=["infinity", "least float", "large", "where"],
)
def test_later_tokens_are_excluded(mask):
    content = attention(mask)
    samples = np.random.default_rng(1).normal(0, 1, (24, 1, 6, 8)).astype(np.float32)
    made = quantise(content, samples[:16])
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    wanted = np.array([session.run(None, {"image": each})[0] for each in samples[16:]])
    tensor, output = (made.graph.tensors[end[0]] for end in (made.graph.inputs, made.graph.outputs))
    integers = np.clip(np.rint(samples[16:] / tensor.scale) + tensor.zero_point, -128, 127)
    found = np.array([micro(made.content, [each], 1)[0] for each in integers.astype(np.int8)])
    real = (found.astype(np.float64) - output.zero_point) * output.scale
    assert 10 * np.log10(np.square(wanted).sum() / np.square(real - wanted).sum()) > 25
