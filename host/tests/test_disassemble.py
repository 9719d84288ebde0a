"""The disassembler: a line an instruction, with waits, fields and layers."""

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Instruction, IsaError, Opcode, pack
from matloom.compiler import compile_network
from matloom.data.digits import NETWORK
from matloom.disassemble import disassemble
from matloom.frontend.tflite import load_tflite


def test_fields_and_waits():
    load = Instruction(Opcode.LOAD, {"rows": 2, "spad_addr": 7, "wait_exec": 3, "mark": 5})
    text = disassemble(pack(load) + pack(Instruction(Opcode.END)))
    first, second = text.splitlines()
    assert first.split() == (
        [
            "0",
            "0",
            "LOAD",
            "after",
            "exec-3",
            "spad_addr=7",
            "rows=2",
            ";",
            "completes",
            "mark",
            "5",
        ]
    )
    assert second.split() == ["1", "32", "END"]


def test_program_names_layers_and_host_steps():
    program = compile_network(load_tflite(NETWORK), PRESETS["small"])
    text = disassemble(program)
    assert "completes CONV_2D stem" in text
    assert "host, SOFTMAX" in text
    engine = [line for line in text.splitlines() if not line.startswith("step")]
    commands = sum(len(pack(Instruction(Opcode[line.split()[2]]))) for line in engine)
    assert commands == program.steps[0].command_bytes


def test_foreign_bytes():
    with pytest.raises(IsaError, match="opcode must be one of"):
        disassemble(bytes([15]) * 16)
