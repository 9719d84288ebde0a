"""Header, directory and field limits: each rule with a file that breaks it."""

import struct
from dataclasses import replace

import pytest

from matloom.program import Program, ProgramError
from matloom.program.write import with_checksum

VERDICT = 17


def with_word(data, offset, value):
    return with_checksum(data[:offset] + struct.pack("<I", value) + data[offset + 4 :])


def entry(data, tag):
    """Return the offset of a section's entry in the directory."""
    return next(
        at for at in range(32, 32 + 24 * 20, 24) if data[at : at + 4] == bytes((tag, 0, 0, 0))
    )


def refused(data, sentence):
    with pytest.raises(ProgramError, match=sentence):
        Program.from_bytes(data)


def test_header(digits):
    data = digits.to_bytes()
    refused(data[:5], "must have 32 bytes or more, not 5")
    refused(b"x" + data[1:], "must begin with b'MLOOMPRG'")
    refused(data[:-1], f"must have {len(data)} bytes, not {len(data) - 1}")
    refused(data[:-1] + bytes([data[-1] ^ 1]), "checksum must be")
    refused(
        with_word(data, 20, 5), "chips of interface version 5, and this Matloom makes version 8"
    )
    refused(with_word(data, 24, 0), "digest must be its configuration's")
    refused(with_word(data, 28, 2**31), "a directory of 2147483648 sections must fit")


@pytest.mark.parametrize("version", [3, 4])
def test_older_versions_are_refused_by_name(version):
    """Old header: magic, version, three sizes, checksum; then JSON."""
    data = struct.pack("<8sIIIII", b"MLOOMPRG", version, 2, 0, 0, 0) + b"{}" + bytes(20)
    refused(data, f"the program has format {version}, from an older Matloom; this one reads 5")


def test_newer_versions_are_refused_by_name(digits):
    data = digits.to_bytes()
    refused(
        data[:8] + b"\6" + data[9:],
        "the program has format 6, from a newer Matloom; this one reads 5",
    )


def test_directory(digits):
    data = digits.to_bytes()
    first, second = entry(data, 1), entry(data, 2)
    refused(with_word(data, second, 1), "tag 1 must be above 1, not 1")
    refused(with_word(data, second + 4, 2), r"section 2 \(configuration\): flags must be 0 or 1")
    refused(with_word(data, first + 8, 8), "must begin at the next multiple of 8 from")
    refused(with_word(data, first + 12, 2**32 - 8), "must end by byte")
    refused(with_word(data, first + 20, 41), "must have records of 40 bytes, not 41")
    refused(with_word(data, second + 16, 1), "must have 16 bytes, not")
    (offset,) = struct.unpack_from("<I", data, entry(data, 18) + 8)
    assert offset % 64 == 0
    if data[offset - 1] == 0:
        # It may be the last byte of the section before.
        changed = with_checksum(data[: offset - 1] + b"\1" + data[offset:])
        refused(changed, "zeros before it|must have|must be 0")


def test_bytes_after_the_last_section(digits):
    data = digits.to_bytes() + bytes(64)
    refused(with_word(data, 16, len(data)), "the last section must end at byte")


def test_unknown_sections(digits, parts):
    known = dict(parts.sections)
    optional = type(parts)(sections={**known, 77: (0, 3, b"abc")}, digest=parts.digest)
    assert Program.from_bytes(optional.to_bytes()) == digits
    required = type(parts)(sections={**known, 77: (1, 3, b"abc")}, digest=parts.digest)
    refused(required.to_bytes(), "section 77 must be known, and this version does not know it")


def test_absent_sections(digits, parts):
    without = {key: value for key, value in parts.sections.items() if key != VERDICT}
    optional = type(parts)(sections=without, digest=parts.digest)
    assert Program.from_bytes(optional.to_bytes()) == replace(digits, verdict=None)
    for tag in set(parts.sections) - {VERDICT}:
        fewer = {key: value for key, value in parts.sections.items() if key != tag}
        lacking = type(parts)(sections=fewer, digest=parts.digest)
        refused(lacking.to_bytes(), "must have the section .*, which is absent")


@pytest.mark.parametrize(
    ("section", "word", "value", "sentence"),
    [
        ("tensors", "dtype", 99, r"tensors\[0\]: dtype must be one of bool, uint8, .*, not 99"),
        ("tensors", "name", 10_000, r"tensors\[0\]: name must be one of \d+ texts, not 10000"),
        ("tensors", "scale", float("nan"), r"tensors\[0\]: scale must be 0.0 to 3.5e\+38, not nan"),
        ("tensors", "shape_first", 2**32 - 1, r"shape must end by integers \d+, not 4294967299"),
        ("tensors", "shape_count", 2**32 - 1, r"shape must be 0 to 16, not 4294967295"),
        ("tensors", "shape_count", 3, r"all \d+ integers must belong to one record each, not"),
        ("network", "reserved", 1, r"network\[0\]: reserved must be 0, not 1"),
        ("engine_steps", "command_bytes", 0, r"command_bytes must be 16 to 4294967295, not 0"),
        ("bindings", "region", 4, r"region must be one of PROGRAM, INPUT, OUTPUT, ARENA, not 4"),
        ("configuration", "kind", 7, r"kind must be 0 to 6, not 7"),
        ("configuration", "values_count", 9, r"values of configuration must end by|each, not"),
        ("attributes", "values_first", 2**31, r"values of attributes must end by floats"),
    ],
)
def test_limits(parts, section, word, value, sentence):
    refused(parts.with_word(section, 0, word, value).to_bytes(), sentence)


def test_texts_are_not_read_twice(parts):
    rows = parts.records("attributes")
    key, _kind, _first, _count = rows[0]
    many = parts.with_records("attributes", [(key, 6, 0, 2**31), *rows[1:]])
    refused(many.to_bytes(), "values of attributes must end by texts")
    texts = len(parts.records("texts"))
    both = [(key, 6, 0, texts), (key, 6, 0, texts), *rows[1:]]
    refused(parts.with_records("attributes", both).to_bytes(), "must be at most|each, not")
