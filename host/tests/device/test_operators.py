"""Single operators with random attributes: the chip and the functional model."""

import numpy as np
import pytest

from matloom.compiler import CompileOptions, compile_network
from matloom.ir.graph import Op
from matloom.ir.text import to_text
from matloom.kernels.interpreter import interpret
from matloom.program import EngineStep
from matloom.runtime import load
from matloom.select.operators import ENGINE
from matloom.tools.compare import random_inputs
from matloom.verification.random_operators import KINDS, RandomOperators
from matloom.verification.wide_operators import WINDOWED, WideOperators

OPERATORS = sorted(ENGINE & KINDS.keys())
WORDS = (
    *(Op.CONV_2D, Op.ADD, Op.FULLY_CONNECTED, Op.DEPTHWISE_CONV_2D, Op.QUANTIZE),
    *(Op.AVERAGE_POOL_2D, Op.LEAKY_RELU, Op.MAXIMUM, Op.MEAN, Op.MINIMUM, Op.MUL, Op.RELU),
    *(Op.LOGISTIC, Op.RELU6, Op.SUM, Op.TANH),
)
#: Every so many instances the compiler chooses the tiles, as it does for users.
CHOSEN = 4


def check(pair, graph, number, seed):
    """Compile a network and run it on both devices, compared with the host's kernels."""
    given = random_inputs(graph, seed + number)
    options = CompileOptions(tiling_seed=number if number % CHOSEN else None)
    program = compile_network(graph, pair.config, options)
    named = {graph.tensors[tensor].name: array for tensor, array in given.items()}
    expected = interpret(graph, given)
    pair.start_stalls(number)
    for name, driver in (("model", pair.model), ("rtl", pair.rtl)):
        results = load(program, device=driver).run(named)
        for tensor in graph.outputs:
            found = results[graph.tensors[tensor].name]
            # The text of a wide graph takes longer than its compilation.
            if not np.array_equal(found, expected[tensor]):
                message = f"instance {number}, {name}: {to_text(graph)}"
                np.testing.assert_array_equal(found, expected[tensor], message)
    return program


@pytest.mark.parametrize(
    ("pair", "numbers"),
    [
        ("nano", range(32)),
        ("8x16", range(20)),
        pytest.param("units", range(1000), marks=pytest.mark.slow),
        pytest.param("reference", range(200), marks=pytest.mark.slow),
    ],
    ids=["nano-32", "8x16-20", "units-1000", "reference-200"],
    indirect=["pair"],
)
def test_operators(pair, numbers, seed):
    for number in numbers:
        op = OPERATORS[number % len(OPERATORS)]
        check(pair, RandomOperators([seed, number], engine=True).make(op), number, seed)


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["narrow"], indirect=True)
def test_operators_of_words(pair, seed):
    """int16 data with int8 weights, with 64-bit and 32-bit sums."""
    for number in range(48):
        graph = RandomOperators([seed, number], "int16", engine=True).make(
            WORDS[number % len(WORDS)]
        )
        program = check(pair, graph, number, seed)
        assert [type(step) for step in program.steps] == [EngineStep]


@pytest.mark.parametrize(
    ("pair", "numbers"),
    [
        ("nano", range(30)),
        pytest.param("units", range(30, 600), marks=pytest.mark.slow),
        pytest.param("8x16", range(600, 900), marks=pytest.mark.slow),
        pytest.param("reference", range(900, 1000), marks=pytest.mark.slow),
    ],
    ids=["nano-30", "units-570", "8x16-300", "reference-100"],
    indirect=["pair"],
)
def test_wide_operators(pair, numbers, seed):
    """Sizes, kernels, strides, dilations, scales and biases near the ends of their fields."""
    for number in numbers:
        op = (*WINDOWED, *OPERATORS)[number % (len(WINDOWED) + len(OPERATORS))]
        check(pair, WideOperators([seed, number]).make(op), number, seed)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("pair", ["narrow"], indirect=True)
def test_wide_operators_of_words(pair, seed):
    for number in range(200):
        op = WORDS[number % len(WORDS)]
        check(pair, WideOperators([seed, number], "int16").make(op), number, seed)
