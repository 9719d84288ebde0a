"""Random networks of uint8 on random engines: the same results as the kernels for uint8."""

import random
from dataclasses import replace

import numpy as np
import pytest

from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes.signed_bytes import store_signed_bytes
from matloom.tools.compare import random_inputs
from support.network_campaign import case_of, failure_of
from support.unsigned import as_unsigned


def zero_point(weights):
    """Return a zero point from 1 to 255 that depends on the weights."""
    return random.Random(weights.data.tobytes()).randint(1, 255)


def one_scale(graph):
    """Return a network whose weights have the scale of their first channel."""
    tensors = {
        number: tensor
        if tensor.quantisation is None or tensor.quantisation.axis is None
        else replace(
            tensor,
            quantisation=replace(
                tensor.quantisation,
                scale=tensor.quantisation.scale[:1],
                zero_point=tensor.quantisation.zero_point[:1],
                axis=None,
            ),
        )
        for number, tensor in graph.tensors.items()
    }
    return replace(graph, tensors=tensors)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("first", range(880_000, 880_300, 25))
def test_random_networks_of_uint8(first):
    made = 0
    for seed in range(first, first + 25):
        case = case_of(seed)
        graph = as_unsigned(one_scale(case.graph), zero_point)
        if graph is None or not passes_rules(graph):
            continue
        signed, given = store_signed_bytes(graph), random_inputs(graph, seed)
        results = interpret(signed, given)
        for number, expected in interpret(graph, given).items():
            np.testing.assert_array_equal(results[number], expected, err_msg=str(seed))
        assert failure_of(replace(case, graph=graph, precision=None)) is None, seed
        made += 1
    assert made > 5


def passes_rules(graph):
    """Return whether every operator of a network has types that kernels know."""
    try:
        verify(graph, "test")
    except ValueError:
        return False
    return True
