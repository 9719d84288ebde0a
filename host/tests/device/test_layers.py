"""Random layers in random tiles: the chip, the functional model and the interpreter of graphs."""

import numpy as np
import pytest

from matloom.compiler import CompileOptions, compile_network
from matloom.kernels.interpreter import interpret
from matloom.program import EngineStep
from matloom.runtime import load
from matloom.verification.random_layers import random_layer

#: Every so many layers the compiler chooses the tiles, as it does for users.
CHOSEN = 5


@pytest.mark.parametrize(
    "pair",
    ["nano", "8x16", "reference", "narrow"],
    indirect=True,
)
@pytest.mark.parametrize(
    "numbers",
    [range(50), pytest.param(range(50, 1000), marks=pytest.mark.slow)],
    ids=["50", "1000"],
)
def test_layers(pair, numbers, seed):
    for number in range(seed + numbers.start, seed + numbers.stop):
        graph, inputs = random_layer(number, pair.config)
        options = CompileOptions(tiling_seed=number if number % CHOSEN else None)
        program = compile_network(graph, pair.config, options)
        # A QUANTIZE that changes no code is a RESHAPE; everything else runs on the engine.
        steps = program.steps
        engine = any(isinstance(step, EngineStep) for step in steps)
        assert engine or [step.operator for step in steps] == ["RESHAPE"], f"layer {number}"
        named = {graph.tensors[tensor].name: array for tensor, array in inputs.items()}
        expected = interpret(graph, inputs)
        pair.start_stalls(number)
        for name, driver in (("model", pair.model), ("rtl", pair.rtl)):
            results = load(program, device=driver).run(named)
            for tensor in graph.outputs:
                found, wanted = results[graph.tensors[tensor].name], expected[tensor]
                wrong = np.argwhere(found != wanted)
                assert not wrong.size, (
                    f"layer {number}, {graph.nodes[0]}: {name} differs at {tuple(wrong[0])}"
                )
