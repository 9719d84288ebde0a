"""The report on a precision, compared with the outputs themselves."""

import json

import numpy as np
import pytest

import matloom
from matloom.data.digits import NETWORK
from matloom.ir.graph import Op
from matloom.tools.precision import precision_report
from matloom.verification.random_operators import RandomOperators

CONFIG = "small+i8xi4"


def images(count):
    return np.random.default_rng(0).integers(-128, 128, (count, 8, 8, 1), np.int8)


@pytest.fixture(scope="module")
def outputs():
    """Return the digits' probabilities for images, before and after."""
    found = []
    for precision in (None, "i8xi4"):
        with matloom.load(NETWORK, "model", CONFIG, precision=precision) as session:
            made = session.run(images(20)).astype(float)
            quantised = session.program.outputs[0].quantised
            found.append((made - quantised.zero_point) * quantised.scale)
    return found


def test_outputs_and_labels(outputs):
    before, after = outputs
    labels = before.argmax(axis=1)
    labels[:5] = (labels[:5] + 1) % 10
    report = precision_report(NETWORK, "i8xi4", images(20), labels, CONFIG)
    assert report.samples == 20
    (change,) = report.outputs
    assert change.largest == np.abs(after - before).max()
    assert change.mean == pytest.approx(np.abs(after - before).mean())
    same = after.argmax(axis=1) == before.argmax(axis=1)
    assert change.agreement == same.mean()
    assert report.accuracy_before == 0.75
    assert report.accuracy_after == (after.argmax(axis=1) == labels).mean()
    assert report.cycles_after < report.cycles_before
    text = str(report)
    assert "of 20 samples" in text
    assert "accuracy 75.0% before" in text
    assert json.loads(report.to_json())["layers"][0]["name"] == "stem"


def test_layers():
    report = precision_report(NETWORK, {"*": "i8xi4", "stem": "i8xi8"}, config=CONFIG)
    layers = {layer.name: layer for layer in report.layers}
    assert list(layers) == ["stem", "inner", "outer", "wide", "logits"]
    assert (layers["stem"].mode, layers["stem"].weights_sqnr_db) == ("i8xi8", None)
    # Four bits: 6.02 dB each, and 1.76 less what a peak is above the mean.
    for name in list(layers)[1:]:
        assert layers[name].mode == "i8xi4"
        assert 15 < layers[name].weights_sqnr_db < 6.02 * 4 + 1.76
    assert layers["inner"].cycles_after < 0.6 * layers["inner"].cycles_before
    assert (report.samples, report.outputs, report.accuracy_after) == (0, (), None)


def test_each_layer_alone():
    report = precision_report(NETWORK, "i8xi4", images(4), config=CONFIG, by_layer=True)
    alone = {layer.name: layer.alone for layer in report.layers}
    for name in ("stem", "inner"):
        (change,) = precision_report(NETWORK, {name: "i8xi4"}, images(4), config=CONFIG).outputs
        assert alone[name] == change
    assert "alone" in str(report)


@pytest.mark.parametrize(("mode", "bits"), [("bf16", 8), ("fp16", 11)])
def test_floating_point(mode, bits):
    graph = RandomOperators(0, "float32").make(Op.FULLY_CONNECTED)
    config = f"small+{mode}+weight_rows=2"
    (layer,) = precision_report(graph, mode, config=config).layers
    # So many significant bits, nearest: errors are spread evenly over a step.
    assert 6 * bits < layer.weights_sqnr_db < 6.1 * bits + 12
    assert layer.cycles_before == 0 < layer.cycles_after


@pytest.mark.parametrize("labels", [[1.0, 2.0], [1]])
def test_labels_that_do_not_fit(labels):
    with pytest.raises(ValueError, match="labels must be 2 integers, not"):
        precision_report(NETWORK, "i8xi4", images(2), labels, CONFIG)


def test_verbs_that_need_inputs():
    for given in ({"labels": [1]}, {"by_layer": True}):
        with pytest.raises(ValueError, match="labels and by_layer must go with inputs"):
            precision_report(NETWORK, "i8xi4", config="small+i8xi4", **given)


def test_neither_a_mode_nor_a_table():
    with pytest.raises(TypeError, match=r"must be a mode or a table by layer, not \['i8xi4'\]"):
        precision_report(NETWORK, ["i8xi4"], config="small+i8xi4")
