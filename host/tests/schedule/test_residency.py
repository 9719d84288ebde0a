"""Weights that stay on chip where not all of them fit: exact, and fewer cycles for later calls."""

import numpy as np
import pytest

from matloom.arch.config import load_config
from matloom.arch.isa import Opcode, Region
from matloom.compiler import CompileOptions, compile_network
from matloom.device.open import open_device
from matloom.kernels.interpreter import interpret
from matloom.program import EngineStep
from matloom.program.instruction_table import unpack_all
from matloom.program.verify import verify_program
from matloom.runtime import load
from support.chain import Chain

#: Layers of 64 KiB of weights each, on a map of 16 positions.
LAYERS, DEPTH = 8, 256


@pytest.fixture(scope="module")
def graph():
    chain = Chain((1, 4, 4, DEPTH))
    for _ in range(LAYERS):
        chain.convolve(DEPTH)
    return chain.graph()


def constant_bytes(commands):
    """Return the bytes of weights and parameters that LOADs bring."""
    loads = [each.values for each in unpack_all(commands) if each.opcode is Opcode.LOAD]
    return sum(
        values["row_bytes"] * values["rows"] * values["planes"]
        for values in loads
        if values["region"] == Region.PROGRAM
    )


def steps(graph, **options):
    program = compile_network(graph, load_config("reference"), CompileOptions(**options))
    verify_program(program)
    (step,) = program.steps
    assert isinstance(step, EngineStep)
    return program, step


def test_later_calls_load_fewer_weights(graph):
    program, step = steps(graph)
    _, before = steps(graph, resident=False)
    assert step.repeat is not None
    assert program.config.spad_bytes < LAYERS * DEPTH**2
    first, later = (constant_bytes(program.commands(each)) for each in (step, step.repeat))
    assert first >= LAYERS * DEPTH**2
    assert later <= first - program.config.spad_bytes // 8
    # The bus brings less, and little else takes time here.
    assert step.repeat.predicted_cycles < 0.95 * before.predicted_cycles
    assert step.predicted_cycles <= 1.005 * before.predicted_cycles


@pytest.mark.parametrize("device", ["model", pytest.param("rtl", marks=pytest.mark.slow)])
def test_every_call_is_exact(graph, device):
    program, _step = steps(graph)
    draw = np.random.default_rng(1)
    with load(program, open_device(device, program.config)) as session:
        for _ in range(3):
            given = draw.integers(-128, 128, graph.tensors[0].shape).astype(np.int8)
            wanted = interpret(graph, {0: given})[graph.outputs[0]]
            (found,) = session.run({graph.tensors[0].name: given}).values()
            np.testing.assert_array_equal(found, wanted)


def test_nothing_stays_if_that_is_forbidden(graph):
    assert steps(graph, resident=False)[1].repeat is None


def test_a_part_stays_where_all_weights_fit_but_not_next_to_the_maps():
    chain = Chain((1, 32, 32, 64)).convolve(64).halve().halve().halve()
    for _ in range(4):
        chain.convolve(DEPTH)
    program, step = steps(chain.graph())
    weights = 3 * DEPTH**2 + 64 * DEPTH + 64**2
    maps = 2 * 32 * 32 * 64
    assert weights < program.config.spad_bytes < weights + maps
    assert step.repeat is not None
    assert 0 < constant_bytes(program.commands(step.repeat)) < weights
