import numpy as np

from matloom.arch.config import PRESETS
from matloom.arch.instruction import illegal_field
from matloom.arch.isa import Opcode, Region
from matloom.compiler import CompileOptions, compile_network
from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Graph, Node, Op
from matloom.kernels.interpreter import interpret
from matloom.program import EngineStep, Program
from matloom.program.instruction_table import unpack_all
from matloom.runtime import load
from matloom.tools.compare import random_inputs
from matloom.verification.random_layers import random_layer
from matloom.verification.random_operators import RandomOperators


def test_programs_are_whole(seed):
    config = PRESETS["small"]
    for number in range(30):
        graph, _ = random_layer(seed + number, config)
        program = compile_network(graph, config, CompileOptions(tiling_seed=number))
        (step,) = program.steps
        assert isinstance(step, EngineStep)
        assert step.command_offset % 16 == 0
        assert program.region_bytes[Region.PROGRAM] == len(program.image)
        instructions = list(unpack_all(program.commands(step)))
        assert instructions[-1].opcode is Opcode.END
        assert not any(illegal_field(instruction, config) for instruction in instructions)
        assert [instruction.timestamp for instruction in instructions if instruction.timestamp] == [
            1
        ]
        assert program.inputs == tuple(
            info for info in program.tensors if info.name in {t.name for t in program.inputs}
        )
        assert Program.from_bytes(program.to_bytes()) == program


def test_tensors_of_a_region_do_not_overlap():
    config = PRESETS["small"]
    number = 0
    while True:
        graph, _ = random_layer(number, config)
        if len(graph.inputs) == 2:
            break
        number += 1
    program = compile_network(graph, config)
    first, second = program.steps[0].inputs
    size = graph.tensors[graph.inputs[0]].size_bytes
    assert first.offset + size <= second.offset
    assert second.offset + size <= program.region_bytes[Region.INPUT]


def test_a_constant_is_broadcast_to_the_shape_of_each_result():
    draw = RandomOperators(0, engine=True)
    tensors = {
        number: draw._tensor(f"t{number}", shape)
        for number, shape in enumerate([(2, 3), (2, 5), (2, 1), (2, 3), (2, 5)])
    }
    tensors[2] = draw._constant(tensors[2])
    graph = Graph(
        name="shared",
        inputs=(0, 1),
        outputs=(3, 4),
        tensors=tensors,
        nodes=tuple(
            Node(
                op=Op.ADD,
                inputs=(at, 2),
                outputs=(at + 3,),
                attributes=Arithmetic(),
                index=at,
            )
            for at in range(2)
        ),
    )
    given = random_inputs(graph, 0)
    program = compile_network(graph, PRESETS["small"])
    assert all(layer.where == "engine" for layer in program.layers)
    found = load(program, device="model").run({f"t{at}": array for at, array in given.items()})
    for number, array in interpret(graph, given).items():
        np.testing.assert_array_equal(found[f"t{number}"], array)
