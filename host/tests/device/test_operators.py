"""Single operators with random attributes: the chip and the functional model."""

import numpy as np
import pytest

from matloom.compare import random_inputs
from matloom.compiler import CompileOptions, compile_network
from matloom.hostops.interpreter import interpret
from matloom.instances import Instances
from matloom.ir.text import to_text
from matloom.runtime import load
from matloom.schedule.operators import ENGINE

OPERATORS = sorted(ENGINE)
#: Every so many instances the compiler chooses the tiles, as it does for users.
CHOSEN = 4


@pytest.mark.parametrize(
    ("pair", "numbers"),
    [
        ("nano", range(30)),
        ("8x16", range(40)),
        pytest.param("units", range(1000), marks=pytest.mark.slow),
        pytest.param("reference", range(200), marks=pytest.mark.slow),
    ],
    ids=["nano-30", "8x16-40", "units-1000", "reference-200"],
    indirect=["pair"],
)
def test_operators(pair, numbers, seed):
    for number in numbers:
        op = OPERATORS[number % len(OPERATORS)]
        graph = Instances([seed, number], engine=True).make(op)
        given = random_inputs(graph, seed + number)
        options = CompileOptions(tiling_seed=number if number % CHOSEN else None)
        program = compile_network(graph, pair.config, options)
        named = {graph.tensors[tensor].name: array for tensor, array in given.items()}
        expected = interpret(graph, given)
        pair.disturb(number)
        for name, driver in (("model", pair.model), ("rtl", pair.rtl)):
            results = load(program, device=driver).run(named)
            for tensor in graph.outputs:
                found = results[graph.tensors[tensor].name]
                message = f"instance {number}, {name}: {to_text(graph)}"
                np.testing.assert_array_equal(found, expected[tensor], message)
