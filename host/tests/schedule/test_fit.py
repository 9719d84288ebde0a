"""Networks larger than the scratchpad, on the functional model."""

import dataclasses

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.data.matrix_products import product_graph
from matloom.kernels.interpreter import interpret
from matloom.program import EngineStep
from matloom.runtime import load
from matloom.verification.random_layers import random_layer

LARGE = {
    "input and weights": product_graph(3, 5000, 5),
    "weights": product_graph(40, 300, 150),
    "input": product_graph(700, 300, 16),
}


def _check(graph, inputs, config):
    program = compile_network(graph, config)
    assert all(isinstance(step, EngineStep) for step in program.steps)
    named = {graph.tensors[tensor].name: array for tensor, array in inputs.items()}
    results = load(program, device="model").run(named)
    expected = interpret(graph, inputs)
    for tensor in graph.outputs:
        assert np.array_equal(results[graph.tensors[tensor].name], expected[tensor])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", list(LARGE))
def test_products_larger_than_the_scratchpad(name, seed):
    config = dataclasses.replace(PRESETS["nano"], spad_bytes=8 * 1024)
    shape = LARGE[name].tensors[0].shape
    given = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    _check(LARGE[name], {0: given}, config)


def test_random_layers_in_two_kibibytes(seed):
    config = dataclasses.replace(PRESETS["nano"], spad_bytes=2 * 1024)
    for number in range(seed, seed + 30):
        graph, inputs = random_layer(number, config)
        _check(graph, inputs, config)
