"""Multiply-accumulates compared with the counts in the collection."""

import pytest

from matloom import frontend
from matloom.ir.attributes import TransposeConv
from matloom.ir.graph import Op
from matloom.ir.work import macs
from matloom.verification.random_operators import RandomOperators


@pytest.mark.parametrize(
    ("network", "count"),
    [
        ("mlperf_tiny/kws_ref_model_float32", 2_656_768),
        ("mlperf_tiny/vww_96_int8", 7_489_664),
        ("tflm/simple_add_model", 0),
    ],
)
def test_networks(models, network, count):
    graph = frontend.load(models / "models" / f"{network}.tflite")
    assert sum(macs(graph, node) for node in graph.nodes) == count


def test_transposed_convolution():
    instances = RandomOperators(0)
    inputs = [instances._tensor("in", (1, 4, 5, 2)), instances._weights((3, 2, 3, 2), 0)]
    attributes = TransposeConv(size=(5, 7))
    graph = instances.network(Op.TRANSPOSE_CONV, inputs, attributes)
    assert macs(graph, graph.nodes[0]) == 4 * 5 * 2 * (3 * 2 * 3)
