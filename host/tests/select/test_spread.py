"""Operands broadcast along their last axes, on the engine, against TensorFlow Lite Micro."""

import numpy as np
import pytest

import matloom
from matloom.arch.isa import Opcode, Table
from matloom.frontend.tflite.write import write_tflite
from matloom.ir.attributes import Arithmetic
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Graph, Node, Op, Quantisation, Tensor
from matloom.kernels.interpreters import LIBRARIES, Cut
from matloom.program.instruction_table import unpack_all

#: Shapes of both operands.
SHAPES = {
    "of rows": ((16, 24), (16, 1)),
    "of images": ((2, 3, 5, 7), (2, 3, 1, 1)),
    "of an outer product": ((6, 1), (1, 20)),
    "of fewer axes": ((2, 5, 9), (5, 1)),
}


def network(op, shapes, seed, zeros=()):
    random = np.random.default_rng(seed)
    made = np.broadcast_shapes(*shapes)
    scales = [*random.uniform(0.01, 0.05, 2), 0.4]
    drawn = random.integers(-20, 20, 3)
    tensors = {
        number: Tensor(
            name=name,
            shape=shape,
            dtype="int8",
            quantisation=Quantisation(scale=(float(np.float32(scale)),), zero_point=(int(zero),)),
        )
        for number, (name, shape, scale, zero) in enumerate(
            zip("xyz", (*shapes, made), scales, zeros or drawn, strict=True)
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
        check(network(op, shapes, 7), random, "reference")


def check(graph, random, config, device="model"):
    """Compare the engine with TensorFlow Lite Micro on random bytes."""
    given = [random.integers(-128, 128, graph.tensors[at].shape, np.int8) for at in graph.inputs]
    cut = Cut(content=write_tflite(graph), arena=10**5, inputs=2, outputs=1)
    (wanted,) = LIBRARIES["tflite-micro"](cut).run(given)
    with matloom.load(graph, device=device, config=config) as session:
        assert [layer.where for layer in session.program.layers] == ["engine"]
        found = session.run(dict(zip("xy", given, strict=True)))["z"]
    assert len(np.unique(wanted)) > 10
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("config", ["reference", "nano+products=1", "small+products=2"])
@pytest.mark.parametrize("zeros", [(3, -128, 5), (-128, 127, 0), (9, 0, -7), (0, 1, 2)])
def test_factors_of_rows_with_any_zero_point(zeros, config):
    """The array makes differences from zero points, of which -128 needs two factors."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    random = np.random.default_rng(5)
    for shapes in (((12, 40), (12, 1)), ((3, 5, 1, 1), (3, 5, 2, 9)), ((37, 1), (37, 17))):
        check(network(Op.MUL, shapes, 3, zeros), random, config)


def test_a_factor_of_rows_takes_one_pass():
    """POST multiplies sums that the array made, and no repeated elements are written."""
    program = matloom.compile(network(Op.MUL, ((64, 64), (64, 1)), 3, (-128, -128, 0)), "reference")
    (step,) = program.steps
    posts = [each for each in unpack_all(program.commands(step)) if each.opcode is Opcode.POST]
    written = sum(
        16 * each.values["width"] * each.values["height"] * each.values["oc_blocks"]
        for each in posts
    )
    assert all(each.values["product"] for each in posts)
    assert written == 64 * 64


@pytest.mark.slow
def test_a_factor_of_rows_on_the_chip():
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    graph = network(Op.MUL, ((30, 40), (30, 1)), 3, (4, -128, 5))
    check(graph, np.random.default_rng(6), "reference", "rtl")


def test_a_scalar_repeats():
    """It needs no stage of its own: its one element repeats in the accumulators."""
    program = matloom.compile(network(Op.ADD, ((4, 6), (1, 1)), 3), "reference")
    assert [layer.where for layer in program.layers] == ["engine"]


def test_tables_of_sums_and_functions_are_filled_once():
    """A lookup of sums by rows follows all of them: POST would fill its memory for each tile."""
    builder = GraphBuilder("sums")
    scale = Quantisation(scale=(0.0371,), zero_point=(3,))
    data, means = (
        builder.input(name, shape, "int8", scale)
        for name, shape in (("x", (64, 64)), ("y", (64, 1)))
    )
    made = Quantisation(scale=(0.0517,), zero_point=(-5,))
    total = builder.add(Op.ADD, [data, means], Arithmetic(), quantisation=made)
    unit = Quantisation(scale=(1 / 256,), zero_point=(-128,))
    function = builder.add(Op.LOGISTIC, [total], quantisation=unit)
    program = matloom.compile(builder.graph(total, function), "reference")
    (step,) = program.steps
    uses = [each.values.get("table") for each in unpack_all(program.commands(step))]
    assert uses.count(Table.FILL) == len((total, function))
