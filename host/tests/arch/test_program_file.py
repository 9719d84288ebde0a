"""Tables of Program files: aligned, with unique numbers, consistent with operators and Config."""

import dataclasses

import pytest
import tflite

from matloom.arch.config import ADDED_FIELDS, Config
from matloom.arch.program_file import (
    ATTRIBUTES,
    CONFIGURATION,
    CONFIGURATION_FIELDS,
    DIRECTORY,
    DTYPES,
    HEADER,
    LOOP,
    OPERATORS,
    SECTIONS,
)
from matloom.frontend.tflite.tensors import DTYPES as TFLITE_DTYPES
from matloom.ir.attributes import Activation
from matloom.ir.graph import OWN_OPERATORS, Op
from matloom.ir.operators import OPERATORS as RULES

RECORDS = {
    "header": HEADER,
    "directory": DIRECTORY,
    **{section.name: section.fields for section in SECTIONS if section.fields},
}


@pytest.mark.parametrize("name", RECORDS)
def test_fields_are_aligned(name):
    offset = 0
    for field in RECORDS[name]:
        for _word, kind in field.words:
            size = int(kind[1:]) // 8
            assert offset % size == 0, field.name
            offset += size
    if name != "integers":
        assert offset % 8 == 0


def test_tags_ascend_and_are_taken_once():
    tags = [section.tag for section in SECTIONS]
    assert tags == list(range(1, len(tags) + 1))


def test_ranges_lie_in_sections():
    names = {section.name for section in SECTIONS}
    targets = {field.of for fields in RECORDS.values() for field in fields if field.of}
    assert targets <= names


def test_operators_have_tensorflow_lites_numbers():
    # No host step is a MATRIX_PRODUCT, which the engine alone computes; no graph has a LOOP.
    names = sorted(operator.name for operator in OPERATORS)
    assert names == sorted({*Op, LOOP} - {Op.MATRIX_PRODUCT})
    for operator in OPERATORS:
        if operator.name in (*OWN_OPERATORS, LOOP):
            # They are Matloom's own: numbers beyond TensorFlow Lite's.
            numbers = [each for each in vars(tflite.BuiltinOperator).values() if type(each) is int]
            assert operator.number > max(numbers)
        elif operator.name != "REFERENCE":
            assert getattr(tflite.BuiltinOperator, operator.name) == operator.number
    assert len({operator.number for operator in OPERATORS}) == len(OPERATORS)


@pytest.mark.parametrize(
    "operator", [each for each in OPERATORS if each.name != LOOP], ids=lambda each: each.name
)
def test_operators_have_the_attributes_of_the_graph(operator):
    names = {item.name: item.python for item in ATTRIBUTES}
    wanted = [item.name for item in dataclasses.fields(RULES[Op(operator.name)].attributes)]
    assert [names[name] for name in operator.attributes] == wanted


def test_keys_are_taken_once():
    for attributes in (ATTRIBUTES, CONFIGURATION):
        assert [item.key for item in attributes] == list(range(1, len(attributes) + 1))


def test_configuration_is_complete():
    assert {item.name for item in CONFIGURATION} == {
        item.name for item in dataclasses.fields(Config)
    }
    assert CONFIGURATION_FIELDS == 23
    assert {item.name for item in CONFIGURATION[CONFIGURATION_FIELDS:]} == set(ADDED_FIELDS)


def test_choices_are_those_of_the_graph():
    (activation,) = (item for item in ATTRIBUTES if item.name == "activation")
    assert activation.choices == tuple(Activation)
    assert set(DTYPES) == set(TFLITE_DTYPES.values())
