"""Operands broadcast along their last axes, on the engine, against TensorFlow Lite Micro."""

import numpy as np
import pytest

import matloom
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.kernels.interpreters import LIBRARIES, Cut

#: Shapes of both operands.
SHAPES = {
    "of rows": ((16, 24), (16, 1)),
    "of images": ((2, 3, 5, 7), (2, 3, 1, 1)),
    "of an outer product": ((6, 1), (1, 20)),
    "of fewer axes": ((2, 5, 9), (5, 1)),
}


def network(op, shapes, seed):
    random = np.random.default_rng(seed)
    made = np.broadcast_shapes(*shapes)
    scales = [*random.uniform(0.01, 0.05, 2), 0.4]
    tensors = {
        number: Tensor(
            name=name,
            shape=shape,
            dtype="int8",
            quantisation=Quantisation(
                scale=(float(np.float32(scale)),), zero_point=(int(random.integers(-20, 20)),)
            ),
        )
        for number, (name, shape, scale) in enumerate(
            zip("xyz", (*shapes, made), scales, strict=True)
        )
    }
    attributes = Arithmetic()
    node = Node(op=op, inputs=(0, 1), outputs=(2,), attributes=attributes, index=0)
    return Graph(name="one", inputs=(0, 1), outputs=(2,), tensors=tensors, nodes=(node,))


@pytest.mark.parametrize("form", SHAPES)
@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL])
def test_equals_micro(op, form):
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    random = np.random.default_rng(2)
    for shapes in (SHAPES[form], SHAPES[form][::-1]):
        graph = network(op, shapes, 7)
        given = [random.integers(-128, 128, shape, np.int8) for shape in shapes]
        cut = Cut(content=write_tflite(graph), arena=10**5, inputs=2, outputs=1)
        (wanted,) = LIBRARIES["tflite-micro"](cut).run(given)
        with matloom.load(graph, device="model", config="reference") as session:
            assert [layer.where for layer in session.program.layers] == ["engine"]
            found = session.run(dict(zip("xy", given, strict=True)))["z"]
        assert len(np.unique(wanted)) > 10
        assert np.array_equal(found, wanted)


def test_a_scalar_repeats():
    """It needs no stage of its own: its one element repeats in the accumulators."""
    program = matloom.compile(network(Op.ADD, ((4, 6), (1, 1)), 3), "reference")
    assert [layer.where for layer in program.layers] == ["engine"]
