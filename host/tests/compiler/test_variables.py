"""Variables in external memory: which may stay there, and which would be corrupted."""

import dataclasses

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction
from matloom.arch.isa import Opcode, Region
from matloom.compiler import CheckError, CompileOptions, compile_unchecked, schedule_runs
from matloom.compiler.variables import overwritten_addresses
from matloom.data.growth import Growth
from matloom.data.streaming import delay
from matloom.ir.attributes import Arithmetic, Softmax
from matloom.ir.graph import Op
from matloom.meaning import MeaningError, check_meaning
from matloom.selfcheck import check_program

NANO = PRESETS["nano"]
NOTHING = Arithmetic()


def made(graph):
    return compile_unchecked(graph, NANO, CompileOptions())


def placed(graph):
    """Return whether a graph's variables stay in external memory.

    Check that its program is right.
    """
    result = made(graph)
    result.check("full")
    return [variable.place is not None for variable in result.program.variables]


class Network:
    """A variable with the shape of an input, and their sum."""

    def __init__(self, height=4):
        self.growth = Growth((height,))
        self.shape = (1, height, 16, 16)
        self.input = self.growth.input(self.shape, "int8")
        self.before = self.variable()
        self.total = self.operator(Op.ADD, [self.before, self.input], NOTHING)

    def variable(self):
        kept = self.growth.tensors[self.input].quantisation
        return self.growth.variable(self.shape, "int8", kept)

    def operator(self, op, inputs, attributes=None):
        return self.growth.operator(op, inputs, attributes)[0]

    def graph(self, after, *outputs):
        self.growth.assign(self.before, after)
        return self.growth.graph("a test", [self.input], outputs)


def two_readers(height):
    """Return a network that reads a variable again after computing its next value."""
    network = Network(height)
    again = network.operator(Op.SUB, [network.input, network.before], NOTHING)
    return network.graph(network.total, again)


def test_a_sum_overwrites_its_input():
    network = Network()
    assert placed(network.graph(network.total, network.operator(Op.RELU, [network.total]))) == [
        True
    ]


@pytest.mark.parametrize(("height", "pinned"), [(4, True), (16, False), (64, False)])
def test_variables_read_after_their_update(height, pinned):
    """Small tensors are read once and may stay; others would be read again."""
    assert placed(two_readers(height)) == [pinned]


def test_a_wrong_place_is_found_by_both_checks(monkeypatch):
    monkeypatch.setattr(schedule_runs, "overwritten_addresses", lambda *_arguments: set())
    wrong = made(two_readers(64))
    with pytest.raises(CheckError, match="tensor 't3'"):
        check_program(wrong.program, wrong.graph, wrong.numbers)
    names = {number: name for name, number in wrong.numbers.items()}
    with pytest.raises(MeaningError, match="output 't3'"):
        check_meaning(wrong.prepared, wrong.program, names)


def test_variables_that_are_inputs_or_outputs_stay_on_the_host():
    network = Network()
    assert placed(network.graph(network.total, network.total)) == [False]
    network = Network()
    assert placed(network.graph(network.input, network.total)) == [False]


def test_variables_used_by_the_host_stay_there():
    network = Network()
    chances = network.operator(Op.SOFTMAX, [network.before], Softmax(beta=1.0))
    assert placed(network.graph(network.total, chances)) == [False]
    network = Network()
    chances = network.operator(Op.SOFTMAX, [network.total], Softmax(beta=1.0))
    assert placed(network.graph(network.total, chances)) == [False]
    network = Network()
    chances = network.operator(Op.SOFTMAX, [network.total], Softmax(beta=1.0))
    assert placed(network.graph(chances, network.total)) == [False]


def test_values_of_two_variables_stay_on_the_host():
    network = Network()
    other = network.variable()
    network.growth.assign(other, network.total)
    result = network.operator(Op.RELU, [network.total])
    assert placed(network.graph(network.total, result)) == [False, False]


def test_a_queue_of_variables():
    """Each variable takes the value of the one before; only the first can be updated in place."""
    network = Network()
    other = network.variable()
    network.growth.assign(other, network.before)
    result = network.operator(Op.SUB, [network.total, other], NOTHING)
    assert placed(network.graph(network.total, result)) == [False, False]


def test_another_command_buffer_replaces_it():
    """The first buffer reads it, the host uses the result, and the second buffer replaces it."""
    network = Network()
    chances = network.operator(Op.SOFTMAX, [network.total], Softmax(beta=1.0))
    after = network.operator(Op.ADD, [chances, network.input], NOTHING)
    result = made(network.graph(after, network.total))
    assert [step.kind for step in result.program.steps] == ["engine", "host", "engine"]
    assert [variable.place is not None for variable in result.program.variables] == [True]
    result.check("full")


def test_state_in_two_command_buffers():
    growth = Growth((9,))
    given = growth.input((1, 4, 4, 8), "int8")
    first = delay(growth, given, 3)
    (chances,) = growth.operator(Op.SOFTMAX, [first], Softmax(beta=1.0))
    second = delay(growth, chances, 2)
    graph = growth.graph("a test", [given], growth.operator(Op.RELU, [second]))
    result = made(graph)
    assert [step.kind for step in result.program.steps] == ["engine", "host", "engine"]
    result.check("full")
    assert [variable.place is not None for variable in result.program.variables] == [True, True]
    # The first buffer writes a variable that it says nothing of.
    first, *others = result.program.steps
    outputs = tuple(each for each in first.outputs if each.region is not Region.ARENA)
    steps = (dataclasses.replace(first, outputs=outputs), *others)
    wrong = dataclasses.replace(result.program, steps=steps)
    names = {number: name for name, number in result.numbers.items()}
    with pytest.raises(MeaningError, match="variable 'v0' must stay as it is"):
        check_meaning(result.prepared, wrong, names)


def _transfer(opcode, offset, size, region=Region.ARENA):
    return Instruction(
        opcode,
        {"region": region, "dram_offset": offset, "row_bytes": size, "rows": 1, "planes": 1},
    )


@pytest.mark.parametrize(
    ("transfers", "found"),
    [
        ([(Opcode.LOAD, 0, 64), (Opcode.STORE, 0, 64)], set()),
        ([(Opcode.STORE, 0, 64), (Opcode.LOAD, 0, 64)], {0}),
        ([(Opcode.STORE, 63, 1), (Opcode.LOAD, 0, 1)], {0}),
        ([(Opcode.STORE, 64, 64), (Opcode.LOAD, 0, 64)], set()),
        ([(Opcode.STORE, 64, 64), (Opcode.LOAD, 100, 1)], {64}),
        ([(Opcode.STORE, 128, 64), (Opcode.LOAD, 128, 64)], set()),
        ([(Opcode.STORE, 0, 64, Region.OUTPUT), (Opcode.LOAD, 0, 64, Region.INPUT)], set()),
    ],
)
def test_order_of_transfers(transfers, found):
    instructions = [_transfer(*each) for each in transfers]
    assert overwritten_addresses(instructions, [(0, 64), (64, 128)], NANO) == found
