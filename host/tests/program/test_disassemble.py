"""The disassembler: one line per instruction, with waits, fields and layers."""

import math

import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.arch.instruction import Instruction, IsaError, pack
from matloom.arch.isa import Opcode
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.data.streaming import streaming_network
from matloom.program.disassemble import disassemble


def test_fields_and_waits():
    load = Instruction(Opcode.LOAD, {"rows": 2, "spad_addr": 7, "wait_exec": 3, "timestamp": 5})
    text = disassemble(pack(load) + pack(Instruction(Opcode.END)))
    first, second = text.splitlines()
    wanted = "0 0 LOAD after exec-3 spad_addr=7 rows=2 ; completes timestamp 5"
    assert first.split() == wanted.split()
    assert second.split() == ["1", "32", "END"]


def test_values_with_names():
    values = {"region": 2, "source": 1, "destination": 2, "rounding": 4, "bias": -3}
    load = Instruction(Opcode.LOAD, {"region": 2})
    post = Instruction(Opcode.POST, {name: values[name] for name in list(values)[1:]})
    reserved = Instruction(Opcode.POST, {"rounding": 3})
    modes = [Instruction(Opcode.EXEC, {"mode": number}) for number in (1, 15)]
    lines = disassemble(b"".join(map(pack, (load, post, reserved, *modes)))).splitlines()
    assert [line[15:] for line in lines] == [
        "LOAD  region=OUTPUT",
        "POST  source=SPAD destination=ACC_ADD rounding=AVERAGE bias=-3",
        "POST  rounding=3",
        "EXEC  mode=i8xi4",
        "EXEC  mode=15",
    ]


def test_nothing_after_end():
    assert len(disassemble(pack(Instruction(Opcode.END)) + b"\xff" * 16).splitlines()) == 1


def test_program_names_layers_and_host_steps():
    program = compile_network(frontend.load(NETWORK), PRESETS["small"])
    text = disassemble(program)
    assert "completes CONV_2D stem" in text
    assert "host, SOFTMAX" in text
    first, second, *lines = text.splitlines()
    assert first == "; checked when compiled: nothing"
    assert second == "; cycles are predicted for memory reference"
    engine = [line for line in lines if not line.startswith("step")]
    commands = sum(len(pack(Instruction(Opcode[line.split()[2]]))) for line in engine)
    assert commands == program.steps[0].command_bytes


def test_foreign_bytes():
    with pytest.raises(IsaError, match="opcode must be one of"):
        disassemble(bytes([15]) * 16)


def test_state_comes_first():
    program = compile_network(streaming_network(1, layers=1), PRESETS["nano"])
    lines = disassemble(program).splitlines()
    sizes = [math.prod(variable.place.shape) for variable in program.variables]
    assert lines[2] == f"; state: {sum(sizes)} bytes in 3 variables"
    for line, variable, size in zip(lines[3:6], program.variables, sizes, strict=True):
        offset = variable.place.offset
        shape = "x".join(map(str, variable.place.shape))
        expected = f";   {variable.name}: int8[{shape}], {size} bytes, ARENA {offset}, in place"
        assert line == expected
    # A LOAD and a STORE each, of a first call and of later ones.
    assert program.repeat is not None
    assert sum("region=ARENA" in line for line in lines) == 2 * 6
