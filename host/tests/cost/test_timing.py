"""Instructions that `Timings` treats as equal have the same cost."""

import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction
from matloom.arch.isa import FORMATS, Opcode
from matloom.arch.machine import Machine
from matloom.arch.memory import Memory
from matloom.compiler import CompileOptions, compile_unchecked
from matloom.cost import timing
from matloom.cost.timing import _COSTLESS_FIELDS, Timings
from matloom.data.digits import NETWORK
from matloom.program.instruction_table import unpack_all

ROWS = Memory(read_latency=40, row_bytes=1024, row_miss_cycles=9)


@pytest.fixture(scope="module")
def instructions():
    program = compile_unchecked(frontend.load(NETWORK), PRESETS["nano"], CompileOptions()).program
    *found, _end = unpack_all(program.commands(program.steps[0]))
    return found[::7]


@pytest.mark.parametrize("memory", [Memory(), ROWS])
@pytest.mark.parametrize("preset", ["nano", "reference"])
def test_equal_instructions_cost_the_same(preset, memory, instructions):
    machine = Machine(config=PRESETS[preset], memory=memory)
    together, met = Timings(machine), set()
    for instruction in instructions:
        opcode, values = instruction.opcode, instruction.values
        alone = Timings(machine).of(instruction)
        assert together.of(instruction) == alone
        free = [each.name for each in FORMATS[opcode].fields if each.name in _COSTLESS_FIELDS]
        changed = {name: values.get(name, 0) + 1 for name in free}
        if opcode in (Opcode.LOAD, Opcode.STORE):
            changed["dram_offset"] = values.get("dram_offset", 0) + 3 * machine.offset_period
        other = Instruction(opcode, {**values, **changed})
        assert Timings(machine).of(other) == alone
        assert together.of(other) is together.of(instruction)
        met.add(opcode)
    assert met == {Opcode.LOAD, Opcode.EXEC, Opcode.POST, Opcode.STORE}


def test_more_instructions_than_are_remembered_cost_the_same(instructions, monkeypatch):
    machine = Machine(config=PRESETS["nano"])
    expected = [Timings(machine).of(instruction) for instruction in instructions]
    monkeypatch.setattr(timing, "_MAX_CACHED", 3)
    few = Timings(machine)
    assert [few.of(instruction) for instruction in instructions] == expected
    assert len(set(map(id, expected))) > len(few._known) <= 3
