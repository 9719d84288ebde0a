"""Encoders whose callers give masks: close to ONNX Runtime in floats, and equal to micro."""

import numpy as np
import pytest

import matloom
from matloom.errors import UserError
from matloom.frontend.readers import load_floats
from matloom.ir.graph import Op
from matloom.quantiser.prepare import prepare
from matloom.quantiser.quantise import quantise
from support.masked_file import LENGTH
from support.masked_onnx import MASKS, TOKENS, encoder, texts
from support.oracles import micro

pytest.importorskip("onnx", reason="onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

CONFIG = "nano+products=3+softmax=2+tables=2"


def rows(given):
    """Yield the inputs of each sample."""
    for at in range(len(given["input_ids"])):
        yield {name: array[at] for name, array in given.items()}


def floats(content, given):
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    return np.array([session.run(None, each)[0] for each in rows(given)])


def real(running, each):
    (info,) = running.program.outputs
    (found,) = running.run(each).values()
    return found, (found.astype(np.float32) - info.quantised.zero_point) * info.quantised.scale


@pytest.mark.parametrize("kind", MASKS)
def test_padding_is_excluded(kind):
    content, given, others = encoder(kind), texts(48), texts(40, seed=2)
    made = quantise(content, given, equalise=False)
    wanted, found = floats(content, others), []
    padding = others["attention_mask"] == 0
    changed = {**others, "input_ids": np.where(padding, TOKENS - 1, others["input_ids"])}
    with matloom.load(made.content, device="fast", config=CONFIG) as running:
        for each, other in zip(rows(others), rows(changed), strict=True):
            bits, numbers = real(running, each)
            found.append(numbers)
            # What stands in padding changes no bit.
            np.testing.assert_array_equal(bits, real(running, other)[0])
    assert 10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()) > 25


@pytest.mark.parametrize("device", ["model", pytest.param("rtl", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["scaled", "filled", "causal", "indexed"])
def test_engines_equal_micro(kind, device):
    made = quantise(encoder(kind, dtype="int32"), texts(24, dtype="int32"), equalise=False)
    with matloom.load(made.content, device=device, config=CONFIG) as running:
        for each in rows(texts(3, dtype="int32", seed=2)):
            order = [each[info.name] for info in running.program.inputs]
            np.testing.assert_array_equal(real(running, each)[0], micro(made.content, order, 1)[0])


def test_texts_of_a_batch_have_their_own_padding():
    """A batch of two texts has the results that each has alone."""
    content, given = encoder("chosen", batch=2), texts(48, batch=2)
    wanted = floats(content, given)
    alone = [
        floats(encoder("chosen"), {name: each[:, [at]] for name, each in given.items()})
        for at in range(2)
    ]
    np.testing.assert_allclose(wanted, np.concatenate(alone, axis=1), atol=1e-5)
    assert quantise(content, given, samples=24, equalise=False).report.outputs[0].sqnr_db > 25


def test_masks_are_limited_to_0_and_1():
    content, given = encoder("scaled"), texts(24)
    bad = {**given, "attention_mask": given["attention_mask"] * 2}
    message = "must have indices of 0 to 1, not 2"
    with pytest.raises(UserError, match=message) as caught:
        quantise(content, bad)
    assert "attention_mask" in str(caught.value.hint)
    made = quantise(content, given, equalise=False)
    with matloom.load(made.content, device="model", config=CONFIG) as running:
        for wrong in (2, -1, 1 << 40):
            (each, *_others) = rows(given)
            with pytest.raises(UserError, match=f"must have indices of 0 to 1, not {wrong}"):
                running.run({**each, "attention_mask": np.full((1, LENGTH), wrong)})


@pytest.mark.parametrize("kind", ["filled", "causal"])
def test_scores_are_not_multiplied(kind):
    """Scores that a mask replaces are added to it, and two masks of the same scores are one."""
    graphs = [prepare(load_floats(encoder(each))) for each in (kind, "indexed")]
    first, last = ([node.op for node in graph.nodes] for graph in graphs)
    for op in (Op.MUL, Op.ADD, Op.GATHER):
        assert first.count(op) == last.count(op), op
