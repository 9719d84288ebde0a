"""TRANSPOSE of an operand becomes a flag of the product that reads it."""

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.compiler import compile_network
from matloom.ir.attributes import BatchMatmul, Transpose
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.kernels.interpreter import interpret
from matloom.passes import run_passes
from matloom.passes.fold_transposes import fold_transposes
from matloom.runtime import load

SCALE = Quantisation(scale=(0.5,), zero_point=(3,))


def product(orders, shapes, adj=(False, False), dtype="int8"):
    """Return the network of a product of two transposed inputs."""
    builder, made = GraphBuilder(), []
    for name, shape, order in zip("ab", shapes, orders, strict=True):
        given = builder.input(name, shape, dtype, SCALE if dtype == "int8" else None)
        made.append(builder.add(Op.TRANSPOSE, [given], Transpose(permutation=order)))
    attributes = BatchMatmul(adj_x=adj[0], adj_y=adj[1])
    scale = Quantisation(scale=(40.0,), zero_point=(0,)) if dtype == "int8" else None
    return builder.graph(builder.add(Op.BATCH_MATMUL, made, attributes, quantisation=scale))


@pytest.mark.parametrize(
    ("orders", "shapes", "adj", "left"),
    [
        # Keys of each head are rows of their token: only rows are moved.
        (((0, 2, 1, 3), (0, 2, 3, 1)), ((1, 6, 2, 5), (1, 7, 2, 5)), (False, False), 2),
        # Both are what the product reads as they lie.
        (((1, 0), (1, 0)), ((5, 6), (7, 5)), (False, False), 0),
        (((0, 2, 1), (0, 2, 1)), ((2, 6, 5), (2, 5, 7)), (True, True), 0),
    ],
)
def test_only_rows_are_moved(orders, shapes, adj, left):
    graph = product(orders, shapes, adj)
    made = run_passes(graph)
    moves = [node for node in made.nodes if node.op is Op.TRANSPOSE]
    assert len(moves) == left
    assert all(node.attributes.permutation[-1] == 3 for node in moves)
    draw = np.random.default_rng(0)
    inputs = {at: draw.integers(-128, 128, graph.tensors[at].shape, np.int8) for at in graph.inputs}
    (output,) = graph.outputs
    wanted = interpret(graph, inputs)[output]
    np.testing.assert_array_equal(interpret(made, inputs)[output], wanted)
    program = compile_network(graph, load_config("nano+transposed_weights=1"), check="full")
    assert all(layer.where == "engine" for layer in program.layers)
    named = {graph.tensors[at].name: array for at, array in inputs.items()}
    (found,) = load(program, device="model").run(named).values()
    np.testing.assert_array_equal(found, wanted)


def test_floats_stay_as_they_are():
    """Sums of floating-point numbers depend on their order."""
    graph = product(((1, 0), (1, 0)), ((5, 6), (7, 5)), dtype="float32")
    assert fold_transposes(graph) is graph
