import numpy as np
import pytest

from matloom.compiler import compile_network
from matloom.ir.graph import Op
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.runtime import load
from support.mobilenet import mobilenet


@pytest.mark.parametrize("layers", [10, 52, 160])
def test_a_stem_and_blocks_of_three_layers(layers):
    graph = mobilenet(layers, 48)
    verify(graph, "mobilenet")
    convolutions = [node for node in graph.nodes if node.op in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D)]
    assert len(convolutions) == layers
    deepest = graph.tensors[graph.outputs[0]].shape
    assert deepest[1] == deepest[2] <= 24
    assert layers < 52 or deepest == (1, 2, 2, 112)


def test_numbers_neither_vanish_nor_saturate_and_the_program_is_exact():
    graph = mobilenet(16, 24)
    given = np.random.default_rng(1).integers(-128, 128, (1, 24, 24, 3), np.int8)
    expected = interpret(graph, {0: given})[graph.outputs[0]]
    assert len(np.unique(expected)) > 10
    program = compile_network(graph, "nano", check="none")
    (made,) = load(program, device="model").run({"image": given}).values()
    assert np.array_equal(made, expected)
