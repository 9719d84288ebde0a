"""Operators that together map each byte to a byte become a table, equal to the interpreters'."""

import numpy as np
import pytest

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
from single_operators.model_file import FileNetwork, FileOperator, FileTensor, write_file

import matloom
from matloom import frontend
from matloom.passes.compose_functions import compose_functions
from support.oracles import litert, micro

SHAPE = (1, 16, 16, 3)
RELU6 = 3


def network(steps, outputs=(), shape=SHAPE):
    """Return a file; a step has its name, inputs, quantisation, and constant or activation.

    Tensor 0 is the input; each step makes one tensor, after its constant if it has one.
    """
    tensors = [FileTensor(name="x", shape=shape, scales=(0.05,), zeros=(4,))]
    operators = []
    for name, inputs, (scale, zero), *more in steps:
        constant = next((each for each in more if not isinstance(each, int)), None)
        activation = next((each for each in more if isinstance(each, int)), 0)
        if constant is not None:
            data = np.array(constant, np.int8)
            tensors.append(FileTensor(shape=data.shape, scales=(0.025,), zeros=(0,), data=data))
            inputs = (*inputs, len(tensors) - 1)
        tensors.append(FileTensor(shape=shape, scales=(scale,), zeros=(zero,)))
        table = {"MUL": "MulOptions", "ADD": "AddOptions", "SUB": "SubOptions"}.get(name)
        options = None if table is None else (table, {"fusedActivationFunction": activation})
        operators.append(
            FileOperator(name=name, inputs=inputs, outputs=(len(tensors) - 1,), options=options)
        )
    return write_file(
        FileNetwork(
            tensors=tuple(tensors),
            operators=tuple(operators),
            inputs=(0,),
            outputs=tuple(outputs) or (len(tensors) - 1,),
        )
    )


SIGMOID = ("LOGISTIC", (0,), (1 / 256, -128))
SILU = [SIGMOID, ("MUL", (0, 1), (0.03, -117))]
#: As TensorFlow writes it: the input plus 3, limited, times the input, over 6.
HARD_SWISH = [
    ("ADD", (0,), (0.0235, -128), [120], RELU6),
    ("MUL", (0, 2), (0.15, -120)),
    ("MUL", (3,), (0.025, -113), [7]),
]
SQUARE = [("MUL", (0, 0), (0.15, -128))]
TANH_OF_SILU = [*SILU, ("TANH", (2,), (1 / 128, 0)), ("MUL", (3, 0), (0.04, -100))]


@pytest.mark.parametrize(
    "steps",
    [SILU, HARD_SWISH, SQUARE, TANH_OF_SILU],
    ids=["silu", "hard swish", "square", "tanh of silu"],
)
def test_tables_equal_the_interpreters(steps):
    content = network(steps)
    program = matloom.compile(content, "reference")
    assert [(layer.operator, layer.where) for layer in program.layers] == [("LOOKUP", "engine")]
    every = np.resize(np.arange(-128, 128).astype(np.int8), SHAPE)
    with matloom.load(program, device="model") as session:
        result = session.run(every)
    np.testing.assert_array_equal(result, litert(content, [every])[0])
    np.testing.assert_array_equal(result, micro(content, [every], 1)[0])


def operators(content):
    return [str(node.op) for node in compose_functions(frontend.load(content)).nodes]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (network(SILU, outputs=(1, 2)), ["LOGISTIC", "MUL"]),
        (network([SIGMOID, ("SUB", (1,), (0.02, 0), [9])]), ["LOGISTIC", "SUB"]),
        (network([SIGMOID, ("TANH", (1,), (1 / 128, 0))]), ["LOOKUP"]),
        (network([("MUL", (0,), (0.03, 2), [1, 2, 3]), ("MUL", (0, 2), (0.1, 3))]), ["MUL"] * 2),
        (network([SIGMOID, ("TANH", (0,), (1 / 128, 0)), ("MUL", (1, 2), (0.01, 0))]), ["LOOKUP"]),
    ],
    ids=["inner output", "one table", "two tables", "by channel", "two branches"],
)
def test_operators_that_are_joined(content, expected):
    assert operators(content) == expected


def test_without_tables_the_engine_keeps_its_operators():
    program = matloom.compile(network(HARD_SWISH), "reference+tables=0+channel_tables=0")
    assert [layer.operator for layer in program.layers] == ["ADD", "MUL", "MUL"]


def test_silu_after_a_convolution_takes_the_time_of_a_table():
    shape = (1, 16, 16, 16)
    random = np.random.default_rng(3)
    weights = random.integers(-127, 128, (16, 1, 1, 16), np.int8)

    def cycles(steps):
        tensors = [
            FileTensor(name="x", shape=shape, scales=(0.05,), zeros=(4,)),
            FileTensor(shape=weights.shape, scales=(0.01,), zeros=(0,), data=weights),
            *(
                FileTensor(shape=shape, scales=(scale,), zeros=(zero,))
                for scale, zero in ((0.1, 5), (1 / 256, -128), (0.1, -120))
            ),
        ]
        convolution = FileOperator(
            name="CONV_2D",
            inputs=(0, 1),
            outputs=(2,),
            options=("Conv2DOptions", {"strideW": 1, "strideH": 1, "padding": 0}),
        )
        sigmoid = FileOperator(name="LOGISTIC", inputs=(2,), outputs=(3,))
        product = FileOperator(name="MUL", inputs=(2, 3), outputs=(4,), options=("MulOptions", {}))
        whole = (convolution, sigmoid, product)[:steps]
        content = write_file(
            FileNetwork(tensors=tuple(tensors), operators=whole, inputs=(0,), outputs=(steps + 1,))
        )
        return matloom.compile(content, "reference").predicted_cycles

    # One LOAD of the table.
    assert cycles(3) < cycles(1) + 60
