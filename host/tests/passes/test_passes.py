from dataclasses import replace

import numpy as np

from matloom.arch.config import PRESETS
from matloom.ir.attributes import Arithmetic, Conv2D, Pad, Padding
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.ir.verify import verify
from matloom.kernels.interpreter import interpret
from matloom.passes import PASSES, run_passes
from matloom.passes.drop_unused import drop_unused
from matloom.passes.order_branches import order_branches
from matloom.verification.random_layers import random_layer

SCALE = Quantisation(scale=(0.5,), zero_point=(3,))
WEIGHT_SCALE = Quantisation(scale=(0.01,), zero_point=(0,))


def _conv(number, source, target, kernel):
    pad = kernel // 2
    return Node(
        op=Op.CONV_2D,
        inputs=(source, 10 + kernel),
        outputs=(target,),
        attributes=Conv2D(padding=Padding(top=pad, bottom=pad, left=pad, right=pad)),
        index=number,
    )


def _residual():
    """Return two convolutions of one input, the larger one first, and their sum."""
    tensors = {
        number: Tensor(name=f"t{number}", shape=(1, 5, 5, 4), dtype="int8", quantisation=SCALE)
        for number in range(4)
    }
    for kernel in (1, 3):
        shape = (4, kernel, kernel, 4)
        data = np.random.default_rng(kernel).integers(-128, 128, shape).astype(np.int8)
        tensors[10 + kernel] = Tensor(
            name=f"w{kernel}", shape=shape, dtype="int8", quantisation=WEIGHT_SCALE, data=data
        )
    addition = Node(
        op=Op.ADD,
        inputs=(1, 2),
        outputs=(3,),
        attributes=Arithmetic(),
        index=2,
    )
    nodes = (_conv(0, 0, 1, 3), _conv(1, 0, 2, 1), addition)
    return Graph(name="residual", inputs=(0,), outputs=(3,), tensors=tensors, nodes=nodes)


def test_the_heavier_branch_comes_last():
    graph = order_branches(_residual())
    assert [node.index for node in graph.nodes] == [1, 0, 2]
    assert [node.index for node in order_branches(graph).nodes] == [1, 0, 2]


def test_a_branch_that_ends_with_padding_is_moved_as_a_whole():
    """As the shortcut of a residual block with more channels than its input."""
    graph = _residual()
    heavy, light, addition = graph.nodes
    pad = Node(
        op=Op.PAD,
        inputs=(4,),
        outputs=(2,),
        attributes=Pad(before=(0,) * 4, after=(0, 0, 0, 1), value=None),
        index=3,
    )
    tensors = {**graph.tensors, 4: replace(graph.tensors[2], name="t4", shape=(1, 5, 5, 3))}
    nodes = (heavy, replace(light, outputs=(4,)), pad, addition)
    found = order_branches(replace(graph, tensors=tensors, nodes=nodes))
    assert [node.index for node in found.nodes] == [1, 3, 0, 2]


def test_branches_that_depend_on_each_other_stay():
    graph = _residual()
    chained = replace(graph, nodes=(graph.nodes[0], _conv(1, 1, 2, 1), graph.nodes[2]))
    assert order_branches(chained).nodes == chained.nodes


def test_operators_without_use_go():
    graph = replace(_residual(), outputs=(2,))
    assert [node.index for node in drop_unused(graph).nodes] == [1]
    assert drop_unused(_residual()).nodes == _residual().nodes


def test_passes_keep_graphs_valid_and_their_meaning(seed):
    graphs = [(_residual(), {0: np.full((1, 5, 5, 4), 7, np.int8)})]
    graphs += [random_layer(seed + number, PRESETS["small"]) for number in range(10)]
    for graph, inputs in graphs:
        expected = interpret(graph, inputs)
        for change in PASSES:
            changed = change(graph)
            verify(changed, change.__name__)
            for number, array in interpret(changed, inputs).items():
                assert np.array_equal(array, expected[number])


def test_each_pass_is_verified_on_request(monkeypatch):
    monkeypatch.setenv("MATLOOM_VERIFY", "1")
    assert len(run_passes(_residual()).nodes) == 3
