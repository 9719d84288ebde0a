"""Operators that change no byte are removed."""

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.compiler import compile_network
from matloom.ir.attributes import Arithmetic
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from matloom.kernels.interpreter import interpret
from matloom.passes.drop_identities import drop_identities
from matloom.runtime import load

PLAIN = Arithmetic()


def quantisation(scale, zero):
    return Quantisation(scale=(scale,), zero_point=(zero,))


def scaled(factors, made=0.5, op=Op.MUL):
    """Return a network that multiplies bytes of scale 0.25 by bytes of scale 0.125."""
    builder = GraphBuilder()
    image = builder.input("x", (1, 3, 4, 2), "int8", quantisation(0.25, -128))
    constant = builder.constant(np.array(factors, np.int8), quantisation(0.125, 0))
    scale = quantisation(made, -128)
    return builder.graph(builder.add(op, [image, constant], PLAIN, quantisation=scale))


@pytest.mark.parametrize("factors", [16, [16], [16, 16], [[[[16, 16]]]]])
def test_a_product_that_only_changes_the_scale(factors):
    graph = scaled(factors)
    (node,) = drop_identities(graph).nodes
    assert (node.op, node.inputs, node.outputs) == (Op.RESHAPE, (0,), graph.outputs)
    draw = np.random.default_rng(0).integers(-128, 128, (1, 3, 4, 2), np.int8)
    np.testing.assert_array_equal(interpret(graph, {0: draw})[2], draw)
    program = compile_network(graph, PRESETS["nano"], check="full")
    np.testing.assert_array_equal(load(program, device="model").run(draw), draw)


@pytest.mark.parametrize(
    "graph",
    [
        *(scaled(15), scaled([16, 15]), scaled(16, made=0.25), scaled(16, op=Op.ADD)),
        # As many factors as channels, by rows.
        *(scaled(np.full((1, 3, 1, 1), 16)), scaled(np.full((1, 3, 4, 2), 16))),
    ],
)
def test_others_stay(graph):
    assert drop_identities(graph) is graph


def test_limits_that_are_never_exceeded():
    builder = GraphBuilder()
    image = builder.input("x", (1, 2), "int8", quantisation(0.25, -128))
    least = builder.constant(np.array(-128, np.int8), quantisation(0.25, -128))
    limited = builder.add(Op.MAXIMUM, [image, least])
    graph = builder.graph(builder.add(Op.RELU, [limited]))
    assert [node.op for node in drop_identities(graph).nodes] == [Op.RESHAPE, Op.RESHAPE]
