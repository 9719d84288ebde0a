"""LEAKY_RELU without a table: the larger of two sums, exact for every byte."""

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.ir.attributes import LeakyRelu
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.ir.names import unique_names
from matloom.meaning import check_meaning
from support.chain import exact_programs, executes


def network(alpha, zeros, scales, shape=(1, 9, 7, 24)):
    """Return a LEAKY_RELU of a tensor."""
    before, after = (
        Quantisation(scale=(scale,), zero_point=(zero,))
        for scale, zero in zip(scales, zeros, strict=True)
    )
    builder = GraphBuilder()
    x = builder.input("x", shape, "int8", before)
    return builder.graph(
        builder.add(Op.LEAKY_RELU, [x], LeakyRelu(alpha=alpha), quantisation=after)
    )


CASES = [
    (float(np.float32(0.1)), (-9, -101), (0.05, 0.031)),
    (float(np.float32(0.3)), (14, 3), (0.02, 0.02)),
    (0.25, (-128, 127), (0.07, 0.04)),
    (float(np.float32(0.01)), (127, -128), (0.03, 0.05)),
    (0.0, (5, -6), (0.05, 0.03)),
    # The constant has no factor below 128 for a single weight.
    (float(np.float32(0.1)), (-36, -114), (0.0564013533, 0.0380125083)),
]


@pytest.mark.parametrize("config", ["nano", "small", "medium"])
@pytest.mark.parametrize(("alpha", "zeros", "scales"), CASES)
@pytest.mark.parametrize("shape", [(1, 9, 7, 24), (3, 50), (1, 5, 6, 3)])
@pytest.mark.fast_cases(9)
def test_results_are_the_interpreters(config, alpha, zeros, scales, shape):
    graph = network(alpha, zeros, scales, shape)
    for program in exact_programs(graph, load_config(config), (None, 1, 2, 3)):
        assert any(each.maximum for each in executes(program))
        assert check_meaning(graph, program, unique_names(graph)) == (1, 1)


@pytest.mark.parametrize("case", [{"alpha": 1.5}, {"alpha": 0.0123}, {"change": "maximum=0"}])
def test_other_slopes_are_two_parts(case):
    """Slopes above 1, those that no two weights have, and engines without maxima."""
    graph = network(case.get("alpha", 0.1), (-9, -3), (0.05, 0.05))
    config = load_config("+".join(("small", case.get("change", "windows=1"))))
    (program,) = exact_programs(graph, config, (None,))
    assert not executes(program)
