"""Bounds-checked access to the vectors of a TensorFlow Lite flatbuffer."""

import struct
from collections.abc import Iterator
from typing import Any

import flatbuffers
import numpy as np
import tflite

from matloom.frontend.errors import ModelError, Unsupported
from matloom.ir.graph import Array

#: Maximum length of a vector of operators, tensors or numbers, which catches corrupted lengths.
MAX_LENGTH = 1_000_000
#: Offset of `builtin_code` in the virtual table of an OperatorCode, in bytes.
BUILTIN_CODE = 10
#: A buffer with a table without fields, and the table's offset. Each field has its default, zero.
_EMPTY = (bytearray(struct.pack("<HHi", 4, 4, 4)), 4)
#: Kinds of options that interpreters treat as zeros if an operator has no table of them.
_ALL_ZERO = frozenset(
    {
        *("AddOptions", "CallOnceOptions", "ConcatenationOptions", "FullyConnectedOptions"),
        *("LeakyReluOptions", "MulOptions", "PackOptions", "ReducerOptions"),
        *("ResizeNearestNeighborOptions", "StridedSliceOptions", "SubOptions", "UnpackOptions"),
        "VarHandleOptions",
    }
)


def _length(owner: Any, field: str) -> int:
    """Return the length of a vector field; raise ModelError if it is impossible."""
    length = int(getattr(owner, f"{field}Length")())
    if not 0 <= length <= MAX_LENGTH:
        raise ModelError(f"{field} must have at most {MAX_LENGTH} entries, not {length}")
    return length


def records(owner: Any, field: str) -> Iterator[Any]:
    """Yield the tables in a vector field of `owner`."""
    item = getattr(owner, field)
    for at in range(_length(owner, field)):
        yield item(at)


def numbers(owner: Any, field: str) -> Array:
    """Return a vector field of numbers as an array; empty if it is absent.

    Raises
    ------
    ModelError
        The vector is too long, or reaches beyond the file.
    """
    if _length(owner, field) == 0:
        return np.empty(0, np.int64)
    values: Array = getattr(owner, f"{field}AsNumpy")()
    if values.size != _length(owner, field):
        raise ModelError(f"{field} must have {_length(owner, field)} entries, not {values.size}")
    return values


def operator_number(code: Any) -> int:
    """Return the number of an operator code, a member of `tflite.BuiltinOperator`.

    Files fill one of two fields, of which the older one has 8 bits. The generated accessor of the
    newer field returns the older one for small numbers, and so 0 (ADD) for a file that fills only
    the newer one.
    """
    old = int(code.DeprecatedBuiltinCode())
    place = code._tab.Offset(BUILTIN_CODE)
    if not place:
        return old
    new = code._tab.Get(flatbuffers.number_types.Int32Flags, place + code._tab.Pos)
    return max(int(new), old)


def text(raw: bytes | None) -> str:
    """Return a string field as text; empty if it is absent."""
    return "" if raw is None else raw.decode("utf-8", errors="replace")


def enum_name(enumeration: type, value: int) -> str:
    """Return the name of a value in an enumeration of `tflite`; its number if it has no name."""
    for name, number in vars(enumeration).items():
        if number == value and not name.startswith("_"):
            return name
    return str(value)


def options(operator: Any, table_class: type) -> Any:
    """Return the options table of an operator, of a class such as tflite.AddOptions.

    If it is absent, a table of zeros is returned for kinds in `_ALL_ZERO`. A table of another kind
    counts as absent, as in the interpreters.

    Raises
    ------
    Unsupported
        The table is absent, and zeros would be meaningless (a stride, a padding).
    """
    expected = getattr(tflite.BuiltinOptions, table_class.__name__)
    stored_kind = operator.BuiltinOptionsType()
    table = table_class()
    source = operator.BuiltinOptions()
    if stored_kind == expected and source is not None:
        table.Init(source.Bytes, source.Pos)
        return table
    if table_class.__name__ not in _ALL_ZERO:
        none = stored_kind == tflite.BuiltinOptions.NONE or source is None
        name = "none" if none else enum_name(tflite.BuiltinOptions, stored_kind)
        raise Unsupported(f"must have {table_class.__name__}, not {name}")
    table.Init(*_EMPTY)
    return table
