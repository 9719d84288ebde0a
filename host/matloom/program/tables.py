"""Layout of a Program file's records by the schema, for tuples and for NumPy arrays."""

import struct
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from matloom.arch.program_file import (
    OPERATORS,
    SECTIONS,
    Attribute,
    HostOperator,
    RecordField,
    Section,
)

BY_NAME = {section.name: section for section in SECTIONS}
BY_TAG = {section.tag: section for section in SECTIONS}
OPERATOR_BY_NAME = {operator.name: operator for operator in OPERATORS}
OPERATOR_BY_NUMBER = {operator.number: operator for operator in OPERATORS}

_LETTERS = {"u32": "I", "i32": "i", "u64": "Q", "f64": "d"}
_ARRAYS = {"u32": "<u4", "i32": "<i4", "u64": "<u8", "f64": "<f8"}


def _names_and_types(fields: Iterable[RecordField]) -> list[tuple[str, str]]:
    """Return the name and the type of each word of a record."""
    return [word for field in fields for word in field.words]


@cache
def names(section: Section) -> tuple[str, ...]:
    """Return the names of the words of a section's records."""
    return tuple(name for name, _kind in _names_and_types(section.fields))


@cache
def packer(fields: tuple[RecordField, ...]) -> struct.Struct:
    """Return the struct that packs and unpacks a record, little-endian."""
    return struct.Struct("<" + "".join(_LETTERS[kind] for _name, kind in _names_and_types(fields)))


@cache
def array_type(section: Section) -> np.dtype[np.void]:
    """Return the NumPy dtype of a section's records."""
    return np.dtype([(name, _ARRAYS[kind]) for name, kind in _names_and_types(section.fields)])


def attributes_of(operator: HostOperator, attributes: Sequence[Attribute]) -> list[Attribute]:
    """Return those of `attributes` that an operator has, in the operator's order."""
    by_name = {item.name: item for item in attributes}
    return [by_name[name] for name in operator.attributes]
