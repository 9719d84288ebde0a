"""REDUCE_MAX and REDUCE_MIN of int8: their nodes against TensorFlow Lite Micro."""

import numpy as np
import pytest
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file

import matloom
from matloom import frontend
from matloom.ir.graph import Op
from matloom.kernels.interpreter import interpret
from support.oracles import micro

CASES = {
    "image": ((2, 5, 6, 7), (1, 2)),
    "channels": ((1, 4, 3, 9), (3,)),
    "negative axis": ((3, 8), (-1,)),
    "all": ((2, 3, 4), (0, 1, 2)),
    "rows": ((4, 6, 5), (1,)),
}


def content(name, shape, axes, *, keep=False, scale=0.1, scaled=True):
    reduced = {axis % len(shape) for axis in axes}
    made = [1 if axis in reduced else length for axis, length in enumerate(shape)]
    if not keep:
        made = [length for axis, length in enumerate(made) if axis not in reduced]
    given, made_of = ((0.1,), (scale,)) if scaled else ((), ())
    tensors = (
        FileTensor(name="x", shape=shape, scales=given, zeros=(3,)),
        FileTensor(name="axes", shape=(len(axes),), dtype="int32", data=np.array(axes, np.int32)),
        FileTensor(name="y", shape=tuple(made), scales=made_of, zeros=(3,)),
    )
    options = "ReducerOptions", {"keepDims": keep}
    operator = FileOperator(name=name, inputs=(0, 1), outputs=(2,), options=options)
    return write_file(
        FileNetwork(tensors=tensors, operators=(operator,), inputs=(0,), outputs=(2,))
    )


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["REDUCE_MAX", "REDUCE_MIN"])
def test_equals_micro(name, case, keep):
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    shape, axes = CASES[case]
    file = content(name, shape, axes, keep=keep)
    graph = frontend.load(file)
    assert Op.REFERENCE not in {node.op for node in graph.nodes}
    array = np.random.default_rng(4).integers(-128, 128, shape, np.int8)
    (wanted,) = micro(file, [array], 1)
    assert np.array_equal(interpret(graph, {0: array})[graph.outputs[0]], wanted)


@pytest.mark.parametrize("name", ["REDUCE_MAX", "REDUCE_MIN"])
def test_the_engine_runs_it(name):
    shape, axes = CASES["image"]
    array = np.random.default_rng(5).integers(-128, 128, shape, np.int8)
    with matloom.load(content(name, shape, axes), device="model", config="reference") as session:
        assert {layer.where for layer in session.program.layers} == {"engine"}
        most = array.max if name == "REDUCE_MAX" else array.min
        assert np.array_equal(session.run(array), most(axis=axes))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"scale": 0.2}, "int8 of one scale"),
        ({"scaled": False}, "int8 of one scale"),
        ({"axes": (0, 2)}, "not neighbours"),
    ],
)
def test_other_forms_are_an_interpreters(changes, why):
    shape, axes = CASES["rows"]
    (node,) = frontend.load(content("REDUCE_MAX", shape, **{"axes": axes, **changes})).nodes
    assert node.op is Op.REFERENCE
    assert why in node.attributes.reasons[0]
