"""Random networks are valid, reproducible, and contain everything that the engine runs."""

import numpy as np
import pytest

from matloom.compiler import compile_network
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.graph import Op
from matloom.ir.text import to_text
from matloom.kernels.interpreter import interpret
from matloom.select.operators import ENGINE
from matloom.tools.compare import compare, random_inputs
from support.random_network import Size, random_network

SMALL = Size(operators=15, tensor_bytes=1024, macs=200_000)


def test_equal_seeds_give_equal_networks():
    one, other = (random_network(7, SMALL) for _ in range(2))
    assert to_text(one) == to_text(other)
    assert all(
        tensor.data is None or np.array_equal(tensor.data, other.tensors[number].data)
        for number, tensor in one.tensors.items()
    )
    assert to_text(random_network(8, SMALL)) != to_text(one)


@pytest.mark.parametrize("operators", [5, 40])
def test_sizes(operators):
    size = Size(operators=operators, tensor_bytes=600, macs=50_000)
    graph = random_network(1, size)
    # The last may be a few that belong together.
    assert operators <= len(graph.nodes) < operators + 5
    computed = [tensor for tensor in graph.tensors.values() if tensor.data is None]
    assert max(tensor.size for tensor in computed) < 20 * 600


def test_words():
    networks = [random_network(seed, SMALL, words=True) for seed in range(4)]
    made = (graph.tensors[at] for graph in networks for node in graph.nodes for at in node.outputs)
    assert {tensor.dtype for tensor in made} == {"int8", "int16"}


def test_networks_that_remember():
    """The library runs them, and their programs give its results on device and host."""
    placed = set()
    for seed in range(5):
        graph = random_network(seed, SMALL, state=True)
        assert graph.variables
        assert compare(write_tflite(graph), seed=seed).equal
        program = compile_network(graph, "small", check="full")
        assert not program.verdict.fallback
        placed.update(variable.place is not None for variable in program.variables)
    assert placed == {False, True}


@pytest.mark.slow
def test_every_operator_of_the_engine():
    networks = (
        random_network(seed, SMALL, words=seed % 4 == 0, products=seed % 4 == 1)
        for seed in range(200)
    )
    found = {node.op for graph in networks for node in graph.nodes}
    # LOOKUP is not in TensorFlow Lite, in which such networks are written.
    assert found >= ENGINE - {Op.LOOKUP}
    assert Op.SOFTMAX in found


def test_numbers_stay_alive():
    """Most tensors have many different values, at any depth, so that mistakes show."""
    distinct = total = 0
    for seed in range(5):
        graph = random_network(seed, Size(operators=40, tensor_bytes=1024, macs=200_000))
        tensors = interpret(graph, random_inputs(graph, seed), keep=True)
        for node in graph.nodes:
            for number in node.outputs:
                total += 1
                values = len(np.unique(tensors[number]))
                distinct += values >= min(16, tensors[number].size // 3)
    assert distinct > 0.75 * total
