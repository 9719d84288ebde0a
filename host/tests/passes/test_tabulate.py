"""Functions of a byte that a reference interpreter knows become tables, equal to its results."""

import sys

import numpy as np
import pytest

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file

import matloom
from matloom import frontend
from matloom.ir.graph import Op
from matloom.kernels.reference import ReferenceRun
from matloom.passes.tabulate import tabulate
from support.oracles import litert, micro


def functions(names, shape, dtype="int8", zeros=(3, -100, -20)):
    """Return a file of operators in a row, each with a scale of its own."""
    tensors = tuple(
        FileTensor(name=f"t{at}", shape=shape, dtype=dtype, scales=(scale,), zeros=(zero,))
        for at, (scale, zero) in enumerate(zip((0.0313, 0.0173, 0.0191), zeros, strict=True))
    )[: len(names) + 1]
    operators = tuple(
        FileOperator(name=name, inputs=(at,), outputs=(at + 1,)) for at, name in enumerate(names)
    )
    network = FileNetwork(tensors=tensors, operators=operators, inputs=(0,), outputs=(len(names),))
    return write_file(network)


@pytest.mark.parametrize(
    ("names", "shape"),
    [(["GELU"], (1, 256)), (["ELU"], (3, 7)), (["GELU", "EXP"], (1, 5, 300)), (["EXP"], (1, 1))],
    ids=lambda value: "-".join(map(str, value)),
)
def test_tables_equal_the_interpreter(names, shape):
    content = functions(names, shape)
    program = matloom.compile(content, "reference")
    assert {(layer.operator, layer.where) for layer in program.layers} == {("LOOKUP", "engine")}
    random = np.random.default_rng(0)
    with matloom.load(program, device="model") as session:
        for _ in range(3):
            given = random.integers(-128, 128, shape, np.int8)
            ask = (lambda *case: micro(*case, 1)) if names == ["ELU"] else litert
            np.testing.assert_array_equal(session.run(given), ask(content, [given])[0])


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_other_types_stay(dtype):
    graph = frontend.load(functions(["GELU"], (1, 8), dtype, zeros=(0, 0, 0)))
    assert [node.op for node in tabulate(graph).nodes] == [Op.REFERENCE]


def test_an_interpreter_starts_once_for_each_table(monkeypatch):
    """A small tensor needs many calls for the results of all bytes."""
    started = []

    class Counted(ReferenceRun):
        def __init__(self, graph, node):
            started.append(node.index)
            super().__init__(graph, node)

    # The package has a function of the module's name.
    monkeypatch.setattr(sys.modules["matloom.passes.tabulate"], "ReferenceRun", Counted)
    graph = tabulate(frontend.load(functions(["ELU"], (1, 2))))
    assert [node.op for node in graph.nodes] == [Op.LOOKUP]
    assert started == [0]
