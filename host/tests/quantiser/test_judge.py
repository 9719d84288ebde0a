"""Measurements of quantised networks that a search compares."""

import numpy as np
import pytest

from matloom.ir.attributes import FullyConnected
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op
from matloom.quantiser import quantise
from matloom.quantiser.judge import Judge
from matloom.quantiser.samples import SampleSplit

SAMPLES = np.random.default_rng(4).normal(0, 1, (40, 1, 12)).astype(np.float32)


def judged(outputs):
    """Return the judgement of a network whose outputs are all equal, and the closeness of one."""
    draw = np.random.default_rng(3)
    builder = GraphBuilder("equal outputs")
    given = builder.input("x", (1, 12), "float32")
    weights = builder.constant(draw.normal(0, 1, (6, 12)).astype(np.float32))
    bias = builder.constant(draw.normal(0, 1, 6).astype(np.float32))
    dense = [
        builder.add(Op.FULLY_CONNECTED, [given, weights, bias], FullyConnected())
        for _ in range(outputs)
    ]
    graph = builder.graph(*dense)
    made = quantise(graph, SAMPLES)
    sets = {key: {given: SAMPLES} for key in ("calibration", "trial", "test")}
    none = np.array([], np.int64)
    split = SampleSplit(**sets, chosen=np.arange(len(SAMPLES)), tried=none, others=none)
    return Judge(graph, split, "nano", None).judge(made.graph), made.report.outputs[0]


def test_a_ratio_does_not_depend_on_the_number_of_outputs():
    (one, output), (three, _output) = judged(1), judged(3)
    assert one.sqnr_db == pytest.approx(output.sqnr_db, abs=0.01)
    assert three.sqnr_db == pytest.approx(one.sqnr_db, abs=0.01)
    assert three.varying_noise == pytest.approx(one.varying_noise, rel=0.01)
