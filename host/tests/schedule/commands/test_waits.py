"""Waits give the same result for every order that the decoupled units may choose."""

import random

import numpy as np
import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import UNITS, Region
from matloom.compiler import CompileOptions, compile_network
from matloom.data.matrix_products import product_graph
from matloom.device.model import Engine
from matloom.kernels.interpreter import interpret
from matloom.program.instruction_table import unpack_all
from matloom.program.verify import verify_program
from matloom.schedule import search
from matloom.schedule.params import Candidate, Prologue
from matloom.verification.random_layers import random_layer

WAITS = ("wait_load", "wait_exec", "wait_post", "wait_store")


def _queues(program):
    """Return the instructions of each unit, in order, with their positions in the program."""
    (step,) = program.steps
    queues = {unit: [] for unit in UNITS}
    issued = dict.fromkeys(UNITS, 0)
    *commands, _end = unpack_all(program.commands(step))
    for instruction in commands:
        needs = {
            unit: issued[unit] - instruction.values[wait] + 1
            for unit, wait in zip(UNITS, WAITS, strict=True)
            if instruction.values[wait]
        }
        queues[instruction.opcode].append((instruction, needs))
        issued[instruction.opcode] += 1
    return queues


def _run(program, inputs, choose):
    """Execute instructions one at a time, in an order chosen by `choose` that obeys the waits."""
    regions = {region: np.zeros(size, np.uint8) for region, size in program.region_bytes.items()}
    regions[Region.PROGRAM] = np.frombuffer(program.image, np.uint8)
    (step,) = program.steps
    for binding, array in zip(step.inputs, inputs, strict=True):
        regions[binding.region][binding.offset : binding.offset + array.size] = array.reshape(
            -1
        ).view(np.uint8)
    engine = Engine(program.config, regions)
    queues = _queues(program)
    done = dict.fromkeys(UNITS, 0)
    while any(done[unit] < len(queues[unit]) for unit in UNITS):
        ready = [
            unit
            for unit in UNITS
            if done[unit] < len(queues[unit])
            and all(done[other] >= count for other, count in queues[unit][done[unit]][1].items())
        ]
        unit = choose(ready)
        engine._execute(queues[unit][done[unit]][0])
        done[unit] += 1
    (binding,) = step.outputs
    size = int(np.prod(binding.shape))
    output = regions[binding.region][binding.offset : binding.offset + size]
    return output.view(np.int8).reshape(binding.shape)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("config", ["nano", "reference"])
def test_every_order_that_obeys_the_waits_is_right(config, seed):
    draw = random.Random(seed)
    orders = (draw.choice, lambda ready: ready[0], lambda ready: ready[-1])
    for number in range(24):
        graph, inputs = random_layer(seed + number, PRESETS[config])
        program = compile_network(graph, PRESETS[config], CompileOptions(tiling_seed=number))
        expected = interpret(graph, inputs)[graph.outputs[0]]
        for choose in orders:
            arrays = [inputs[tensor] for tensor in graph.inputs]
            assert np.array_equal(_run(program, arrays, choose), expected), f"layer {number}"


@pytest.mark.parametrize("shape", [(33, 40, 24), (50, 30, 21), (70, 64, 9)])
@pytest.mark.parametrize("prologue", [(24, 2, 2), (40, 3, 1), (128, 8, 4)])
def test_products_that_arrive_panel_by_panel(shape, prologue, monkeypatch, seed):
    """Exact in any order that the waits allow, and verified, also when repeated."""
    rows, blocks, steps = prologue
    candidate = Candidate(first=Prologue(rows=rows, blocks=blocks, steps=steps))
    monkeypatch.setattr(search, "candidates", lambda _segment, **_options: (candidate,))
    graph = product_graph(*shape)
    program = compile_network(graph, PRESETS["nano"], CompileOptions(resident=True))
    verify_program(program)
    data = np.random.default_rng(seed).integers(-128, 128, shape[:2], np.int8)
    expected = interpret(graph, {0: data})[graph.outputs[0]]
    draw = random.Random(seed)
    for choose in (draw.choice, lambda ready: ready[0], lambda ready: ready[-1]):
        assert np.array_equal(_run(program, [data], choose), expected)
