"""Sums by tables on probes: those of an ADD of the network, whichever operand is a result."""

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.kernels.result_sums import add_results, sum_table
from matloom.meaning.context import NodeInputs
from matloom.meaning.elementwise import add
from matloom.meaning.errors import MeaningError
from matloom.meaning.result_sums import ResultSums
from support.chain import Chain


def example():
    """Return a network with an ADD, its results for all bytes, and their table."""
    graph = Chain((1, 4, 4, 16)).convolve(16).convolve(16).convolve(16).add().graph()
    node = graph.nodes[-1]
    first, second, output = (graph.tensors[each].scale for each in (*node.inputs, node.output))
    sums = add_results(graph, node)
    return graph, sums, sum_table(sums, (first / output, second / output))


@pytest.mark.parametrize("swapped", [False, True])
def test_sums_are_those_of_the_operator(swapped):
    graph, sums, table = example()
    if swapped:
        first, second, output = (
            graph.tensors[each].scale for each in (*graph.nodes[-1].inputs, graph.nodes[-1].output)
        )
        table = sum_table(sums.T, (second / output, first / output))
    tables = np.tile(table.view(np.int8), (16, 1)).astype(np.int64)
    operands = np.random.default_rng(0).integers(-128, 128, (2, 1, 4, 4, 16))
    given = operands[::-1] if swapped else operands
    made = ResultSums(graph=graph).apply(tables, *given)
    node = NodeInputs(
        graph=graph,
        node=graph.nodes[-1],
        config=load_config("reference"),
        raw=tuple(each.reshape(-1) for each in operands),
        lookup=None,
        made=[],
    )
    (expected,) = add(node)
    assert np.array_equal(made, expected)


def test_a_table_of_other_sums_is_refused():
    graph, _sums, table = example()
    tables = np.tile(table.view(np.int8), (16, 1)).astype(np.int64)
    results, others = np.zeros((2, 1, 1, 16), np.int64)
    tables[:, 3] ^= 1
    with pytest.raises(MeaningError, match="must make the results of an ADD"):
        ResultSums(graph=graph).apply(tables, results, others)
    tables[5, 3] ^= 1
    with pytest.raises(MeaningError, match="alike in all lanes"):
        ResultSums(graph=graph).apply(tables, results, others)
