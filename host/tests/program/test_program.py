"""Programs and their files: round trips and refusals."""

from dataclasses import replace

import pytest

from matloom import frontend
from matloom.arch.config import PRESETS
from matloom.arch.isa import Region
from matloom.arch.memory import REFERENCE_MEMORY, Memory
from matloom.arch.program_file import CONFIGURATION_FIELDS, FILE_LIMIT
from matloom.compiler import CompileOptions, compile_network
from matloom.data.digits import NETWORK
from matloom.program import Program, ProgramError, Verdict
from matloom.verification.random_operators import KINDS, RandomOperators
from support.file_cases import NOT_UNSIGNED
from support.file_edits import FileParts


@pytest.fixture
def program(small_product):
    return compile_network(small_product, PRESETS["nano"])


def test_round_trip(program, tmp_path):
    path = tmp_path / "net.mloom"
    program.save(path)
    loaded = Program.load(path)
    assert loaded == program
    assert loaded.macs == 3 * 20 * 10
    assert loaded.region_bytes[Region.INPUT] >= 60
    assert loaded.predicted_cycles > 0


def test_round_trip_with_host_steps_and_layers():
    program = compile_network(frontend.load(NETWORK), PRESETS["small"])
    assert {step.kind for step in program.steps} == {"engine", "host"}
    assert any(tensor.quantised for tensor in program.tensors)
    assert any(layer.timestamp for layer in program.layers)
    data = program.to_bytes()
    assert Program.from_bytes(data) == program
    assert Program.from_bytes(data).to_bytes() == data


def test_round_trip_of_a_repetition(small_product):
    program = compile_network(small_product, PRESETS["nano"], CompileOptions(resident=True))
    assert program.repeat.predicted_cycles < program.predicted_cycles
    assert sum(end - start for start, end in program.repeat.kept) >= 20 * 10
    assert Program.from_bytes(program.to_bytes()) == program


def test_equal_programs_give_equal_bytes(small_product, program):
    again = compile_network(small_product, PRESETS["nano"])
    assert again.to_bytes() == program.to_bytes()


def test_round_trip_of_attributes():
    """Every kind of attribute, in operators that the engine does not run but for one."""
    for number, op in enumerate(KINDS):
        graph = RandomOperators([5, number], NOT_UNSIGNED.get(op, "uint8")).make(op)
        program = compile_network(graph, PRESETS["nano"])
        found = Program.from_bytes(program.to_bytes())
        assert found == program, op
        assert found.to_bytes() == program.to_bytes()


def test_round_trip_of_a_memory(program):
    assert program.memory == REFERENCE_MEMORY
    paged = Memory(bytes_per_cycle="8/3", read_latency=9, row_bytes=512, row_miss_cycles=7)
    other = replace(program, memory=paged)
    found = Program.from_bytes(other.to_bytes())
    assert found == other
    assert found.memory == paged
    # What was written before there was such a section means the reference memory.
    assert len(program.to_bytes()) < len(other.to_bytes())


def test_round_trip_of_a_verdict(program):
    verdict = Verdict(mode="sample", seed=7, share=0.25, calls=3, stages=(4, 5), fallback="why")
    checked = replace(program, verdict=verdict)
    assert Program.from_bytes(checked.to_bytes()) == checked
    with pytest.raises(ProgramError, match="a verdict must be of none, sample, full, not 'maybe'"):
        replace(program, verdict=Verdict(mode="maybe")).to_bytes()


def test_graphs_that_no_file_can_hold(program):
    layers = (replace(program.layers[0], macs=-1),)
    with pytest.raises(ProgramError, match="layers must fit their fields"):
        replace(program, layers=layers).to_bytes()
    with pytest.raises(ProgramError, match="a text must be Unicode, not"):
        replace(program, name="\ud800").to_bytes()


def test_another_configuration(program):
    program.require(PRESETS["nano"])
    with pytest.raises(ProgramError, match="the program is for configuration"):
        program.require(PRESETS["small"])


def test_fields_of_a_configuration_that_came_later(program):
    """A file without them is unchanged; one with them has another digest."""
    counts = []
    for limit in (0, 1):
        config = replace(PRESETS["nano"], time_limit=limit)
        data = replace(program, config=config).to_bytes()
        assert Program.from_bytes(data).config == config
        counts.append(len(FileParts.of(data).records("configuration")))
    assert counts == [CONFIGURATION_FIELDS, CONFIGURATION_FIELDS + 1]


def test_no_file(tmp_path):
    with pytest.raises(ProgramError, match=r"cannot read .*: no such file"):
        Program.load(tmp_path / "missing.mloom")


def test_a_file_that_is_too_large(tmp_path):
    path = tmp_path / "large.mloom"
    with path.open("wb") as stream:
        stream.truncate(FILE_LIMIT + 1)
    with pytest.raises(ProgramError, match="a program must have at most 134217728 bytes, not"):
        Program.load(path)
