"""Tables of all bytes in .tflite files: CAST, ADD and GATHER."""

import numpy as np
import pytest

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file

import matloom
from matloom import frontend
from matloom.ir.attributes import Function, Lookup
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation
from support.oracles import litert, micro

SHAPE = (1, 16, 8, 3)
EVERY = np.resize(np.arange(-128, 128).astype(np.int8), SHAPE)
GIVEN = Quantisation(scale=(0.05,), zero_point=(3,))
MADE = Quantisation(scale=(0.04,), zero_point=(-110,))


def test_functions_of_a_file_equal_the_interpreters():
    builder = GraphBuilder("table")
    x = builder.input("x", SHAPE, "int8", GIVEN)
    y = builder.add(Op.FUNCTION, [x], Function(function="Softplus(x)"), quantisation=MADE)
    content = frontend.write(builder.graph(y))[1]
    (node,) = frontend.load(content).nodes
    # The nearest byte, by NumPy.
    numbers = np.logaddexp(0, (np.arange(-128, 128) - 3) * np.float32(0.05).astype(float))
    steps = np.floor(numbers / np.float32(0.04).astype(float) + 0.5).astype(int) - 110
    assert node.attributes == Lookup(table=tuple(np.clip(steps, -128, 127).tolist()))
    program = matloom.compile(content, "reference")
    assert {layer.where for layer in program.layers} == {"engine"}
    with matloom.load(program, device="model") as session:
        found = session.run(EVERY)
    np.testing.assert_array_equal(found, litert(content, [EVERY])[0])
    np.testing.assert_array_equal(found, micro(content, [EVERY], 1)[0])


def network(*, offset=128, entries=256, kept=False, activation=0, backwards=False):
    """Return a file like that of a table, but for one property."""
    random = np.random.default_rng(1)
    quantised = {"scales": (0.05,), "zeros": (3,)}
    table = random.integers(-128, 128, entries, np.int8)
    tensors = (
        FileTensor(name="x", shape=SHAPE, **quantised),
        FileTensor(shape=SHAPE, dtype="int32"),
        FileTensor(shape=(1,), dtype="int32", data=np.array([offset], np.int32)),
        FileTensor(shape=SHAPE, dtype="int32"),
        FileTensor(shape=(entries,), data=table, **quantised),
        FileTensor(shape=SHAPE, **quantised),
    )
    types = ("CastOptions", {"inDataType": 9, "outDataType": 2})
    operators = (
        FileOperator(name="CAST", inputs=(0,), outputs=(1,), options=types),
        FileOperator(
            name="ADD",
            inputs=(2, 1) if backwards else (1, 2),
            outputs=(3,),
            options=("AddOptions", {"fusedActivationFunction": activation}),
        ),
        FileOperator(name="GATHER", inputs=(4, 3), outputs=(5,), options=("GatherOptions", {})),
    )
    outputs = (5, 3) if kept else (5,)
    return write_file(
        FileNetwork(tensors=tensors, operators=operators, inputs=(0,), outputs=outputs)
    )


def operators(content):
    return [node.op for node in frontend.load(content).nodes]


def test_only_tables_are_joined():
    assert operators(network()) == [Op.LOOKUP]


@pytest.mark.parametrize(
    "difference",
    [
        {"offset": 127},
        {"entries": 300},
        {"kept": True},
        {"activation": 1},
        {"backwards": True},
    ],
    ids=str,
)
def test_others_run_on_an_interpreter(difference):
    content = network(**difference)
    assert Op.LOOKUP not in operators(content)
    low = -120 if difference.get("offset") == 127 else -128
    given = np.maximum(EVERY, low).astype(np.int8)
    with matloom.load(content, device="model", config="reference") as session:
        (name,) = (info.name for info in session.program.inputs)
        found = next(iter(session.run({name: given}).values()))
    np.testing.assert_array_equal(found, litert(content, [given])[0])
