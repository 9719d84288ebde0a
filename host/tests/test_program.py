"""The Program file: round trip, and every way in which one can be unusable."""

import json
import struct
import zlib

import pytest

from matloom.arch.config import PRESETS
from matloom.arch.isa import Region
from matloom.compiler import compile_network
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


def damaged(program, change):
    data = bytearray(program.to_bytes())
    change(data)
    return bytes(data)


def test_damage(program):
    data = program.to_bytes()
    with pytest.raises(ProgramError, match="must have 24 bytes or more, not 5"):
        Program.from_bytes(data[:5])
    with pytest.raises(ProgramError, match="must begin with b'MLOOMPRG'"):
        Program.from_bytes(b"x" + data[1:])
    with pytest.raises(ProgramError, match=f"format must be {FORMAT_VERSION}, not 99"):
        Program.from_bytes(data[:8] + struct.pack("<I", 99) + data[12:])
    with pytest.raises(ProgramError, match="bytes behind its header, not"):
        Program.from_bytes(data[:-1])
    with pytest.raises(ProgramError, match="checksum must be"):
        Program.from_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def test_malformed_metadata():
    body = json.dumps({"name": "x"}).encode()
    head = struct.pack("<8sIIII", b"MLOOMPRG", FORMAT_VERSION, len(body), 0, zlib.crc32(body))
    with pytest.raises(ProgramError, match="metadata must be whole"):
        Program.from_bytes(head + body)


def test_another_configuration(program):
    program.require(PRESETS["nano"])
    with pytest.raises(ProgramError, match="must be made for the device's configuration"):
        program.require(PRESETS["small"])


def test_no_file(tmp_path):
    with pytest.raises(ProgramError, match="a program must be a file"):
        Program.load(tmp_path / "missing.mloom")
