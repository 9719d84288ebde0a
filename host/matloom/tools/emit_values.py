"""C expressions of the values of a step, and kernel calls that both model formats use."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from matloom.ir.graph import Array

#: Types of elements in C, by NumPy's names.
C_TYPES = {
    **{f"{kind}{bits}": f"{kind}{bits}_t" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{"bool": "uint8_t", "float16": "uint16_t", "float32": "float", "float64": "double"},
}
#: Types that the kernels for integers accept; of 64 bits, only signed ones.
_INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


class CValue(NamedTuple):
    """A value in C: the expression of its address, its shape and its NumPy dtype."""

    place: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def elements(self) -> str:
        """Number of elements as a C constant."""
        return f"{self.size}u"

    @property
    def bytes(self) -> int:
        """Number of bytes."""
        return self.size * np.dtype(self.dtype).itemsize

    @property
    def kind(self) -> str:
        """The dtype as a C constant."""
        return f"MATLOOM_DTYPE_{self.dtype.upper()}"


@dataclass
class CValues:
    """C values of the tensors of a host step, by any key.

    Members
    -------
    places:
        C expression of the address of each value.
    declared:
        Declarations of constants, and of buffers between two operators.
    """

    places: dict[Hashable, str] = field(default_factory=dict)
    declared: list[str] = field(default_factory=list)

    def value(
        self, key: Hashable, shape: tuple[int, ...], dtype: str, data: Array | None = None
    ) -> CValue:
        """Return the C value of the tensor `key`; the first call declares its buffer or constant.

        If it has no place yet, declare a buffer for it, or a constant that holds `data`.
        """
        if key not in self.places:
            name = self.places[key] = f"held_{len(self.declared)}"
            if data is None:
                size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
                self.declared.append(f"static _Alignas(16) uint8_t {name}[{size}];")
            else:
                self.declared.append(constant_array(name, data))
        return CValue(self.places[key], shape, dtype)


def constant_array(name: str, data: Array) -> str:
    """Return the C definition of an array with the elements of `data`.

    Elements other than integers and booleans are written as bytes.
    """
    if data.dtype.kind not in "biu":
        data = np.frombuffer(data.tobytes(), np.uint8)
    kind = C_TYPES[data.dtype.name]
    mask = (1 << 8 * data.dtype.itemsize) - 1
    numbers = ", ".join(f"({kind}){int(each) & mask:#x}u" for each in data.reshape(-1).tolist())
    return f"static _Alignas(16) const {kind} {name}[{max(1, data.size)}] = {{{numbers or 0}}};"


def call(function: str, *arguments: object) -> str:
    """Return a C statement that calls a function."""
    return f"{function}({', '.join(map(str, arguments))});"


def copy(source: CValue, target: CValue) -> str:
    """Return the statement that copies as many bytes as `target` has."""
    return call("matloom_copy", target.place, source.place, f"{target.bytes}u")


def combination(
    operation: str, *, swapped: bool = False
) -> Callable[[Sequence[CValue], CValue], str | None]:
    """Return a function that emits a binary operation on integers or booleans.

    It returns None unless there are two sources of the same type, each of the target's size or a
    single element. If `swapped`, the kernel receives the second source first.
    """

    def emit(sources: Sequence[CValue], target: CValue) -> str | None:
        """Return the statement of the operation; None for types or shapes without a kernel."""
        if any(each.dtype not in _INTEGERS for each in (*sources, target)):
            return None
        one, other, *more = sources
        if more:
            return None
        one, other = (other, one) if swapped else (one, other)
        if one.dtype != other.dtype or any(each.size not in (1, target.size) for each in sources):
            return None
        steps = (f"{int(each.size == target.size)}u" for each in (one, other))
        numbers = (target.kind, one.kind, f"MATLOOM_{operation}", target.elements, *steps)
        return call("matloom_combine", target.place, one.place, other.place, *numbers)

    return emit


def negation(source: CValue, target: CValue) -> str | None:
    """Return the statement that negates booleans; None for other types."""
    return combination("EQUAL")([source, CValue("(const uint8_t[]){0}", (), "bool")], target)


def conversion(source: CValue, target: CValue) -> str | None:
    """Return the statement that converts between integers and booleans; None for other types."""
    if not {source.dtype, target.dtype} <= {*_INTEGERS}:
        return None
    ends = target.place, source.place, target.kind, source.kind
    return call("matloom_convert", *ends, target.elements)


def selection(inputs: Sequence[CValue], target: CValue) -> str | None:
    """Return the statement that selects elements of two tensors by a condition.

    Return None unless both have the result's size and type, and the condition is boolean, of this
    size or a single element.
    """
    condition, *chosen = inputs
    same = all(each.size == target.size and each.dtype == target.dtype for each in chosen)
    if not same or condition.dtype != "bool" or condition.size not in (1, target.size):
        return None
    flags = f"(const uint8_t*){condition.place}"
    ends = target.place, flags, *(each.place for each in chosen)
    return call(
        "matloom_select", *ends, target.kind, target.elements, f"{int(condition.size > 1)}u"
    )


def reduction(operation: str, source: CValue, target: CValue, axes: Sequence[int]) -> str | None:
    """Return the statement that reduces integers over neighbouring axes.

    Return None for other axes or types.
    """
    types = ("int32", "int64") if operation == "ADD" else _INTEGERS
    first, last = min(axes), max(axes)
    if source.dtype not in types or sorted(axes) != list(range(first, last + 1)):
        return None
    parts = source.shape[:first], source.shape[first : last + 1], source.shape[last + 1 :]
    lengths = (f"{math.prod(part)}u" for part in parts)
    ends = target.place, source.place, source.kind
    return call("matloom_reduce", *ends, f"MATLOOM_{operation}", *lengths)


def concatenation(inputs: Sequence[CValue], target: CValue, axis: int) -> str:
    """Return the statements that join tensors along an axis, which must not be negative."""
    count = math.prod(target.shape[:axis])
    step, place, calls = target.bytes // max(1, count), 0, []
    for each in inputs:
        size = each.bytes // max(1, count)
        to = f"(uint8_t*){target.place} + {place}u"
        numbers = (f"{number}u" for number in (count, size, step, size))
        calls.append(call("matloom_copy_parts", to, each.place, *numbers))
        place += size
    return " ".join(calls)
