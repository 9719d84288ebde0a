"""Records within their limits that refer to nothing."""

import pytest

from matloom.program import Program, ProgramError

SOFTMAX, KEY_BETA = 25, 28


def refused(data, sentence):
    with pytest.raises(ProgramError, match=sentence):
        Program.from_bytes(data)


def test_texts(parts):
    refused(parts.with_word("texts", 1, "offset", 0).to_bytes(), r"texts\[1\]: offset must be")
    last = len(parts.records("texts")) - 1
    refused(
        parts.with_word("texts", last, "bytes", 0).to_bytes(), "must have a zero within|strings"
    )
    refused(parts.with_word("texts", last, "bytes", 9999).to_bytes(), "must have a zero within")
    strings = parts.sections[3][2]
    refused(parts.with_bytes("strings", strings + b"\0").to_bytes(), "strings must have")
    refused(parts.with_bytes("strings", b"\xff" + strings[1:]).to_bytes(), "must be UTF-8, not")


@pytest.mark.parametrize(
    ("section", "record", "word", "value", "sentence"),
    [
        ("steps", 0, "index", 1, r"steps\[0\] must be engine step 0 of 1, not 1"),
        ("steps", 0, "kind", 1, r"steps\[1\] must be host step 1 of 1, not 0"),
        ("bindings", 0, "tensor", 99, "must be one of .* tensors, not 99"),
        ("host_steps", 0, "operator", 999, "operator must have a kernel, not number 999"),
        ("host_steps", 0, "operator", 0, r"ADD must have the attributes \[1\], not \[28\]"),
        ("attributes", 0, "key", 9, r"SOFTMAX must have the attributes \[28\], not \[9\]"),
        ("configuration", 1, "key", 1, r"configuration must have the attributes"),
        ("tensors", 0, "quantised", 0, "a tensor must be quantised to have a scale, not"),
    ],
)
def test_records(parts, section, record, word, value, sentence):
    refused(parts.with_word(section, record, word, value).to_bytes(), sentence)


def integer(parts, section, record, word, value):
    """Return the parts with the first value in a record's list replaced."""
    words = {"host_steps": {"inputs": 2, "outputs": 4}, "configuration": {"values": 2}}
    first = parts.records(section)[record][words[section][word]]
    return parts.with_word("integers", first, "value", value)


def test_operands(parts):
    refused(integer(parts, "host_steps", 0, "inputs", 99).to_bytes(), "of 3 tensors, not 99")
    refused(integer(parts, "host_steps", 0, "inputs", -1).to_bytes(), "of 0 constants, not 0")
    refused(integer(parts, "host_steps", 0, "outputs", -1).to_bytes(), "of 3 tensors, not -1")


def test_configuration(parts):
    refused(
        integer(parts, "configuration", 1, "values", 3).to_bytes(),
        "a program's configuration must be valid: rows must be 4 to 64, not 3",
    )
    refused(
        integer(parts, "configuration", 0, "values", 8).to_bytes(),
        "configuration: mac_modes must be one of i8xi8, .*, not 8",
    )
    refused(integer(parts, "configuration", 1, "values", 8).to_bytes(), "digest must be")


def test_attributes(parts):
    rows = parts.records("attributes")
    (key, _kind, _first, _count) = rows[0]
    text = parts.with_records("attributes", [(key, 0, 0, 0)]).with_records("floats", [])
    refused(text.to_bytes(), "all|SOFTMAX: beta must be of kind FLOAT, not NONE|floats")
    for value in (float("nan"), float("inf"), 2e6):
        first = rows[0][2]
        changed = parts.with_word("floats", first, "value", value)
        refused(changed.to_bytes(), "SOFTMAX: beta must be -1048576 to 1048576, not")
