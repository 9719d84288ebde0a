"""Networks of tokens: indices choose rows of a table, of floats and then of integers."""

import numpy as np
import pytest

import matloom
from matloom.errors import UserError
from matloom.frontend.readers import load
from matloom.ir.graph import Op
from matloom.quantiser.quantise import quantise
from support.float_onnx import FloatFile
from support.oracles import litert, micro

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

TOKENS, LENGTH, WIDTH = 40, 6, 16


def network(kind):
    """Return a network: a row for each token, one for each place, and two dense layers."""
    file = FloatFile(seed=3)
    table = file.random.normal(size=(TOKENS, WIDTH)).astype(np.float32)
    # No sample has this token, whose numbers are the largest.
    table[-1] *= 1.5
    places = file.constant(file.random.normal(size=(1, LENGTH, WIDTH)).astype(np.float32))
    x = file.add("Add", file.add("Gather", file.constant(table), "image"), places)
    dense = file.add("Relu", file.add("MatMul", x, file.constant(draw(file, WIDTH, 24))))
    pooled = file.add("ReduceMean", dense, axes=[1], keepdims=0)
    return file.content(
        (1, LENGTH), file.add("MatMul", pooled, file.constant(draw(file, 24, 5))), kind
    )


def floats(content):
    """Return the constants of an ONNX file."""
    return map(onnx.numpy_helper.to_array, onnx.load_from_string(content).graph.initializer)


def draw(file, *shape):
    return file.random.normal(0, 0.3, shape).astype(np.float32)


def samples(dtype, count=48):
    return np.random.default_rng(9).integers(0, TOKENS - 1, (count, 1, LENGTH)).astype(dtype)


@pytest.mark.parametrize(("dtype", "kind"), [("int32", 6), ("int64", 7)])
def test_rows_of_a_table(dtype, kind):
    """The integers equal those of interpreters."""
    content, given = network(kind), samples(dtype)
    made = quantise(content, given, samples=32)
    (quality,) = made.report.outputs
    assert quality.sqnr_db > 30
    graph = load(made.content)
    (table,) = (node for node in graph.nodes if node.op is Op.GATHER)
    assert [graph.tensors[number].dtype for number in table.inputs] == ["int8", dtype]
    # Rows of tokens that no sample has are represented, too.
    data = graph.tensors[table.inputs[0]]
    (exact,) = (each for each in floats(content) if each.shape == (TOKENS, WIDTH))
    assert np.abs((data.data - np.float32(data.zero_point)) * data.scale - exact).max() < data.scale
    session = ort.InferenceSession(content)
    with matloom.load(made.content, device="model", config="nano") as running:
        (info,) = running.program.outputs
        for tokens in given[:4]:
            (found,) = running.run({"image": tokens}).values()
            runs = [litert(made.content, [tokens])]
            runs += [micro(made.content, [tokens], 1)] if dtype == "int32" else []
            for (wanted,) in runs:
                np.testing.assert_array_equal(found, wanted)
            real = (found.astype(np.float32) - info.quantised.zero_point) * info.quantised.scale
            (exact,) = session.run(None, {"image": tokens})
            assert np.abs(real - exact).max() < 0.25


def test_tokens_that_the_table_does_not_have():
    given = samples("int64")
    given[5, 0, 2] = TOKENS
    with pytest.raises(UserError, match=f"GATHER.* must have indices of 0 to {TOKENS - 1}, not 40"):
        quantise(network(7), given)


def test_an_onnx_file_keeps_its_indices():
    given = samples("int64")
    made = quantise(network(7), given)
    session = ort.InferenceSession(made.onnx())
    assert [each.type for each in session.get_inputs()] == ["tensor(int64)"]
    exact = ort.InferenceSession(network(7))
    for tokens in given[:5]:
        (found,), (wanted,) = (each.run(None, {"image": tokens}) for each in (session, exact))
        assert np.abs(found - wanted).max() < 0.1


@pytest.mark.parametrize("excluded", [-np.inf, -1e9])
def test_padding_is_excluded(excluded):
    """Tokens 0 are padding: what stands there has no part in the attention of other tokens."""
    file = FloatFile(seed=5)
    table = file.constant(file.random.normal(size=(TOKENS, WIDTH)).astype(np.float32))
    x = file.add("Gather", table, "image")
    query = file.add("MatMul", x, file.constant(draw(file, WIDTH, WIDTH)))
    scores = file.add("MatMul", query, file.add("Transpose", x, perm=[0, 2, 1]))
    padding = file.add("Equal", "image", file.constant(np.array(0)))
    numbers = [file.constant(np.array(each, np.float32)) for each in (excluded, 0)]
    mask = file.add("Unsqueeze", file.add("Where", padding, *numbers), file.constant(np.array([1])))
    shares = file.add("Softmax", file.add("Add", scores, mask), axis=-1)
    content = file.content((1, LENGTH), file.add("MatMul", shares, x), kind=7)
    given = samples("int64")
    given[:, 0, 4:] = 0
    made = quantise(content, given, samples=32)
    assert made.report.outputs[0].sqnr_db > 25
    config = "nano+products=3+softmax=2+tables=2"
    with matloom.load(made.content, device="model", config=config) as running:
        for tokens in given[:3]:
            (found,) = running.run({"image": tokens}).values()
            np.testing.assert_array_equal(found, litert(made.content, [tokens])[0])
