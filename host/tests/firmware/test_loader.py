"""The C loader and the Python reader accept and refuse the same files."""

import dataclasses
import re
import struct

import pytest

from matloom.program import Program, ProgramError
from support.file_cases import programs
from support.file_edits import FileParts

#: What Python checks and C does not: operators' own rules, values of the configuration (the digest
#: of the engine stands for them), reports, and that texts are UTF-8.
LEFT_TO_PYTHON = re.compile(
    r"configuration|a program's (configuration|digest|memory)|mac_modes|texts.* must be UTF-8"
    r"|layer '|a host step's operator|step \d+: operator|step \d+ \([A-Z]|a verdict"
    r"|[A-Z_0-9]+(: .*)? must (have|be)"
)


def python_says(data):
    """Return the message of the Python reader, or None if it accepts a file."""
    try:
        Program.from_bytes(data)
    except ProgramError as error:
        return str(error)
    return None


def test_whole_files(build):
    files = list(programs().values())
    assert build.open_files(files) == [(0, 0, 0, 0)] * len(files)


@pytest.mark.slow
def test_same_verdict_as_the_reader(build, edits):
    accepted, refused = 0, 0
    edited_files = edits(2500)
    for data, (result, *_place) in zip(edited_files, build.open_files(edited_files), strict=True):
        sentence = python_says(data)
        if result == 0:
            accepted += 1
            assert sentence is None or LEFT_TO_PYTHON.match(sentence), sentence
        else:
            refused += 1
            assert sentence is not None, result
    assert min(accepted, refused) > 300


def test_a_field_of_the_configuration_that_came_later(build):
    """A file for such an engine is one field longer; a further field is refused."""
    program = Program.from_bytes(programs()["digits"])
    config = dataclasses.replace(program.config, time_limit=1)
    parts = FileParts.of(dataclasses.replace(program, config=config).to_bytes())
    fields = parts.records("configuration")
    more = parts.with_records("configuration", [*fields, fields[-1]])
    fewer = parts.with_records("configuration", fields[:-2])
    files = [each.to_bytes() for each in (parts, more, fewer)]
    assert [row[0] == 0 for row in build.open_files(files)] == [True, False, False]


def test_a_file_in_a_larger_flash(build):
    """Bytes after the file are ignored; one byte too few is refused."""
    data = programs()["digits"]
    assert build.open_files([data + b"\xff" * 100, data[:-1]]) == [(0, 0, 0, 0), (5, 0, 0, 0)]


def edited(offset, value):
    """Return the digits' file with one header word replaced, and its old checksum."""
    data = programs()["digits"]
    return data[:offset] + struct.pack("<I", value) + data[offset + 4 :]


def test_results_of_the_header(build):
    """Result codes are part of the interface (matloom.h), so they must not change."""
    files = [edited(0, 0), edited(8, 4), edited(16, 2**31), edited(12, 0)]
    assert [row[0] for row in build.open_files(files)] == [3, 4, 5, 6]


def test_mutated_files(build, engine_files):
    """Run the fuzzer briefly; docs/firmware.md describes long runs."""
    program = build.program("fuzz", "tests/fuzz.c")
    said = build.run([program, "5000", "1", *engine_files]).decode()
    cases, accepted = re.fullmatch(r"(\d+) cases, (\d+) accepted\n", said).groups()
    assert int(cases) == 5000
    # Edits of constants and instructions are none of the loader's.
    assert 100 < int(accepted) < 4900
