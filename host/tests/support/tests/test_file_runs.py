"""Damaged files: some cases of bench/fuzz_files.py, and tests of the harness itself."""

import random
from dataclasses import replace

import numpy as np
import pytest

from matloom.arch.isa import Region
from matloom.device.driver import Driver
from matloom.program import Program, ProgramError
from support import file_runs
from support.file_cases import REFERENCE, networks, programs
from support.file_edits import FileParts, cut, edit_bytes, edit_structure
from support.file_runs import StrayError, network_outcome, program_outcome
from support.tflite_edits import edit_tflite, tables_of


def test_programs_are_of_many_kinds():
    found = {name: Program.from_bytes(data) for name, data in programs().items()}
    kinds = {step.kind for program in found.values() for step in program.steps}
    assert kinds == {"engine", "host"}
    assert any(program.repeat is not None for program in found.values())
    modes = {mode for program in found.values() for mode in program.config.mac_modes}
    assert {"i8xi8", "i16xi8", "bf16"} <= modes
    assert len({item.name for program in found.values() for item in program.constants}) > 1
    assert found[REFERENCE].steps[0].operator == "REFERENCE"


@pytest.mark.parametrize("edit", [edit_structure, edit_bytes, cut])
def test_edits_of_programs(edit):
    names, refused = sorted(programs()), 0
    for number in range(150):
        draw = random.Random(number)
        data = programs()[draw.choice(names)]
        given = FileParts.of(data) if edit is edit_structure else data
        refused += program_outcome(edit(given, draw)) is not None
    assert refused > 75


def test_edits_of_networks():
    names, refused = sorted(networks()), 0
    for number in range(40):
        draw = random.Random(number)
        data = networks()[draw.choice(names)]
        refused += network_outcome(edit_tflite(data, tables_of(data), draw)) is not None
    assert 5 < refused < 40


def test_parts_are_the_whole_file():
    for data in programs().values():
        assert FileParts.of(data).to_bytes() == data


def test_whole_files_run():
    assert program_outcome(programs()["digits"]) is None
    assert network_outcome(networks()["digits"]) is None


@pytest.fixture
def recorder():
    program = Program.from_bytes(programs()["product"])
    device = file_runs._Recorder(program)
    driver = Driver(device, program.config)
    driver.place_regions(program.region_bytes)
    return program, device, driver


def test_stray_accesses_are_seen(recorder):
    program, _device, driver = recorder
    with pytest.raises(StrayError, match="must lie in one of"):
        driver.write_region(Region.INPUT, program.region_bytes[Region.INPUT], b"x")
    with pytest.raises(StrayError, match="must lie in one of"):
        driver.read_region(Region.INPUT, 0, 1)


def test_stray_writes_of_the_engine_are_seen(recorder):
    """With regions larger than the program's, the engine writes where it must not."""
    program, device, driver = recorder
    driver.write_region(Region.PROGRAM, 0, program.image)
    step = program.steps[0]
    driver.run(step.command_offset, step.command_bytes)
    driver.write("OUTPUT_BASE", len(device.memory) - 100)
    driver.write("OUTPUT_BYTES", 100)
    with pytest.raises(StrayError, match="the engine must write to regions OUTPUT and ARENA alone"):
        driver.run(step.command_offset, step.command_bytes)


def test_other_errors_are_not_swallowed(monkeypatch):
    def broken(program):
        raise KeyError("a defect")

    monkeypatch.setattr(file_runs, "_run", broken)
    with pytest.raises(KeyError):
        program_outcome(programs()["product"])
    monkeypatch.setattr(file_runs, "_run", lambda program: _refuse(""))
    with pytest.raises(AssertionError, match="an error must be a sentence"):
        program_outcome(programs()["product"])


def _refuse(sentence):
    raise ProgramError(sentence)


def test_inputs_have_their_types():
    noise = np.random.default_rng(0)
    info = Program.from_bytes(programs()["product"]).inputs[0]
    for dtype in ("int8", "float32", "bool", "int64"):
        array = file_runs._array(replace(info, dtype=dtype), noise)
        assert (array.dtype, array.shape) == (np.dtype(dtype), info.shape)
