"""Constants computed from constants, such as a float16 network's weights."""

from dataclasses import replace

import numpy as np

import matloom
from matloom.ir.graph import Node, Op, Tensor
from matloom.kernels.interpreter import interpret
from matloom.passes.fold_constants import fold_constants
from matloom.verification.random_operators import RandomOperators


def half_precision():
    """Return a dense layer with weights from a DEQUANTIZE, and the same layer without it."""
    graph = RandomOperators(3, "float32").make(Op.FULLY_CONNECTED)
    weights = graph.tensors[1].data.astype(np.float16)
    last = max(graph.tensors) + 1
    kept = Tensor(name="half", shape=weights.shape, dtype="float16", data=weights)
    tensors = {**graph.tensors, last: kept, 1: replace(graph.tensors[1], data=None)}
    wider = Node(op=Op.DEQUANTIZE, inputs=(last,), outputs=(1,), index=0)
    single = replace(graph.tensors[1], data=weights.astype(np.float32))
    (node,) = graph.nodes
    nodes = (wider, replace(node, index=1))
    return replace(graph, tensors=tensors, nodes=nodes), replace(
        graph, tensors={**graph.tensors, 1: single}
    )


def test_weights_become_constants():
    half, single = half_precision()
    folded = fold_constants(half)
    assert [node.op for node in folded.nodes] == [Op.FULLY_CONNECTED]
    assert np.array_equal(folded.tensors[1].data, single.tensors[1].data)
    assert fold_constants(folded) is folded


def test_folded_networks_run():
    half, single = half_precision()
    given = np.random.default_rng(0).standard_normal(half.tensors[0].shape).astype(np.float32)
    with matloom.load(half, device="model", config="small") as session:
        result = session.run(given)
    (expected,) = interpret(single, {0: given}).values()
    np.testing.assert_array_equal(result, expected)


def test_a_result_may_be_constant():
    graph = RandomOperators(1, "float32").make(Op.RELU)
    data = np.array([-1, 2], np.float32)
    constant = Tensor(name="constant", shape=(2,), dtype="float32", data=data)
    made = Tensor(name="made", shape=(2,), dtype="float32")
    node = Node(op=Op.RELU, inputs=(8,), outputs=(9,), index=1)
    graph = replace(
        graph,
        tensors={**graph.tensors, 8: constant, 9: made},
        outputs=(*graph.outputs, 9),
        nodes=(*graph.nodes, node),
    )
    with matloom.load(graph, device="model", config="small") as session:
        results = session.run({"input": np.ones(graph.tensors[0].shape, np.float32)})
    assert results["made"].tolist() == [0, 2]
