"""Extremes that operators with one wide quantity reach, in the graph and in instructions."""

from collections import defaultdict

import pytest

from matloom.arch.config import load_config
from matloom.arch.isa import Opcode
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.graph import Op
from matloom.ir.work import macs
from matloom.program import EngineStep
from matloom.program.instruction_table import InstructionTable
from matloom.verification.pair import MEMORY_BYTES
from matloom.verification.wide_operators import WINDOWED, WideOperators

SMALL = "nano+tables=1+products=1"
LARGE = "nano+rows=12+columns=8+lanes=4+weight_rows=4+spad_bytes=262144+acc_bytes=65536"

#: The largest values that must be seen at either configuration, of what the size of the
#: scratchpad does not limit.
LARGEST = {
    (Opcode.EXEC, "kernel_rows"): 127,
    (Opcode.EXEC, "kernel_cols"): 254,
    (Opcode.EXEC, "kernel_row_step"): 127,
    (Opcode.EXEC, "kernel_col_step"): 4095,
    (Opcode.EXEC, "x_step"): 4095,
    (Opcode.EXEC, "y_step"): 254,
    (Opcode.EXEC, "first_byte"): 4095,
    (Opcode.EXEC, "input_row_bytes"): 4095,
    (Opcode.EXEC, "oc_blocks"): 60,
    (Opcode.EXEC, "blocks"): 60,
    (Opcode.POST, "oc_blocks"): 60,
    (Opcode.POST, "output_zero"): 127,
    (Opcode.POST, "dest_pitch"): 4095,
    (Opcode.LOAD, "row_bytes"): 4095,
    (Opcode.STORE, "row_bytes"): 4095,
    (Opcode.STORE, "dram_plane_step"): 500,
}
SMALLEST = {
    (Opcode.EXEC, "first_row"): -250,
    (Opcode.EXEC, "first_byte"): -250,
    (Opcode.EXEC, "pad_value"): -128,
    (Opcode.POST, "shift"): -30,
    (Opcode.POST, "output_zero"): -128,
}


def test_a_seed_gives_the_same_network_again():
    for op in WINDOWED:
        assert WideOperators([1, 2]).make(op).nodes == WideOperators([1, 2]).make(op).nodes


def test_attributes_reach_the_ends_of_their_fields():
    steps = defaultdict(set)
    for number in range(400):
        attributes = WideOperators(number).make(Op.CONV_2D).nodes[0].attributes
        steps["stride"].update(attributes.stride)
        steps["dilation"].update(attributes.dilation)
    assert all({1, 2, 255} <= seen and max(seen) == 255 for seen in steps.values())
    shapes = [
        WideOperators(number).make(Op.FULLY_CONNECTED).tensors[1].shape for number in range(2000)
    ]
    assert [max(sides) for sides in zip(*shapes, strict=True)] == [4095, 4095]


@pytest.mark.parametrize("number", [742, 884, 1640, 3481027057])
def test_a_layer_is_small_enough_to_be_simulated(number):
    """The first draws of these seeds have 5 to 42 million multiply-accumulates."""
    graph = WideOperators(number).make(WINDOWED[number // 2 % len(WINDOWED)])
    assert 0 < macs(graph, graph.nodes[0]) <= 1_000_000
    program = compile_network(graph, load_config("nano"), CompileOptions(tiling_seed=number))
    assert sum(program.region_bytes.values()) <= MEMORY_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", [SMALL, LARGE])
def test_fields_of_their_instructions(name):
    config, seen = load_config(name), defaultdict(set)
    for number in range(500):
        graph = WideOperators([0, number]).make(WINDOWED[number % len(WINDOWED)])
        options = CompileOptions(tiling_seed=number if number % 4 else None)
        program = compile_network(graph, config, options)
        for step in program.steps:
            if isinstance(step, EngineStep):
                table = InstructionTable.unpack(program.commands(step))
                for opcode, _numbers, fields in table.columns():
                    for field, values in fields.items():
                        seen[opcode, field].update((int(values.min()), int(values.max())))
    found = {key: max(seen[key]) for key in LARGEST}
    assert {key: value for key, value in found.items() if value < LARGEST[key]} == {}
    found = {key: min(seen[key]) for key in SMALLEST}
    assert {key: value for key, value in found.items() if value > SMALLEST[key]} == {}
