"""The Program file: round trip, and every way in which one can be unusable."""

import json
import struct
import zlib

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Region
from matloom.compiler import CompileOptions, compile_network
from matloom.data.digits import NETWORK
from matloom.frontend.tflite import load_tflite
from matloom.program import FORMAT_VERSION, Program, ProgramError


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
    program = compile_network(load_tflite(NETWORK), PRESETS["small"])
    assert {step.kind for step in program.steps} == {"engine", "host"}
    assert any(tensor.quantised for tensor in program.tensors)
    assert any(layer.mark for layer in program.layers)
    data = program.to_bytes()
    assert Program.from_bytes(data) == program
    assert Program.from_bytes(data).to_bytes() == data


def test_round_trip_of_a_repetition(small_product):
    program = compile_network(small_product, PRESETS["nano"], CompileOptions(resident=True))
    assert program.repeat.predicted_cycles < program.predicted_cycles
    assert sum(end - start for start, end in program.repeat.kept) >= 20 * 10
    assert Program.from_bytes(program.to_bytes()) == program


def file_of(metadata):
    body = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
    head = struct.pack("<8sIIIII", b"MLOOMPRG", FORMAT_VERSION, len(body), 0, 0, zlib.crc32(body))
    return head + body


def metadata_of(program):
    data = program.to_bytes()
    return json.loads(data[28 : 28 + struct.unpack_from("<I", data, 12)[0]])


def test_damage(program):
    data = program.to_bytes()
    with pytest.raises(ProgramError, match="must have 28 bytes or more, not 5"):
        Program.from_bytes(data[:5])
    with pytest.raises(ProgramError, match="must begin with b'MLOOMPRG'"):
        Program.from_bytes(b"x" + data[1:])
    with pytest.raises(ProgramError, match=f"format must be {FORMAT_VERSION}, not 99"):
        Program.from_bytes(data[:8] + struct.pack("<I", 99) + data[12:])
    with pytest.raises(ProgramError, match="bytes behind its header, not"):
        Program.from_bytes(data[:-1])
    with pytest.raises(ProgramError, match="checksum must be"):
        Program.from_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def test_every_cut_is_seen(program):
    data = program.to_bytes()
    for size in range(0, len(data), 97):
        with pytest.raises(ProgramError, match="a program must have"):
            Program.from_bytes(data[:size])


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: {"name": "x"},
        lambda whole: [],
        lambda whole: b"{",
        lambda whole: b"\xff\xfe",
        lambda whole: {**whole, "config": {**whole["config"], "rows": 5}},
        lambda whole: {**whole, "config": {**whole["config"], "colour": 5}},
        lambda whole: {**whole, "region_bytes": {"STACK": 1}},
        lambda whole: {**whole, "tensors": [{**whole["tensors"][0], "colour": 1}]},
        lambda whole: {**whole, "steps": [{"kind": "engine"}]},
        lambda whole: {**whole, "steps": [3]},
    ],
)
def test_malformed_metadata(program, change):
    whole = metadata_of(program)
    Program.from_bytes(file_of(whole))
    with pytest.raises(ProgramError, match="a program's metadata must be whole: "):
        Program.from_bytes(file_of(change(whole)))


def test_another_configuration(program):
    program.require(PRESETS["nano"])
    with pytest.raises(ProgramError, match="must be made for the device's configuration"):
        program.require(PRESETS["small"])


def test_no_file(tmp_path):
    with pytest.raises(ProgramError, match="a program must be a file"):
        Program.load(tmp_path / "missing.mloom")
