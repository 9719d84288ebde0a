"""Emits steps that ONNX Runtime runs as calls of kernels in C."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from matloom.errors import MissingPackageError
from matloom.ir.graph import Array
from matloom.kernels.onnx_model import parsed, value_numbers

__all__ = ["emit_onnx"]


class _Value(NamedTuple):
    """A value: its expression in C, shape and dtype."""

    place: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> str:
        return f"{math.prod(self.shape)}u"

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class _Operator(NamedTuple):
    """An operator: the NodeProto, its values, and a function that returns a constant by name."""

    node: Any
    given: _Value
    made: _Value
    constant: Callable[[str], Array]

    def attribute(self, name: str, default: Any) -> Any:
        import onnx

        found = {item.name: item for item in self.node.attribute}
        return onnx.helper.get_attribute_value(found[name]) if name in found else default

    def scale(self, at: int) -> tuple[np.float32, int] | None:
        """Return the scale and zero point that are inputs from `at`; None if there are several."""
        names = [*self.node.input, ""]
        scale = self.constant(names[at])
        zero = self.constant(names[at + 1]) if names[at + 1] else np.zeros(1, np.uint8)
        if scale.size != 1 or zero.size != 1 or scale.dtype != np.float32:
            return None
        return np.float32(scale.item()), int(zero.item())


def emit_onnx(
    content: bytes, attributes: Mapping[str, Any], places: Sequence[Sequence[str]]
) -> tuple[list[str], list[str]]:
    """Return the statements of a step, and the operators that have no kernel in C.

    Parameters
    ----------
    content
        The model file of the step.
    attributes
        Attributes of the step: which nodes of the file it runs, and the names of its ends.
    places
        C expressions of the inputs and of the outputs.
    """
    file = _File(content)
    for side, own in zip((attributes["inputs"], attributes["outputs"]), places, strict=True):
        file.place(side, own)
    lines, missing = [], []
    for at in attributes["positions"]:
        node = file.graph.node[at]
        operator, emit = file.operator(node), _KERNELS.get(node.op_type)
        call = None if operator is None or emit is None else emit(operator)
        if call is not None:
            lines.append(call)
        elif operator is None:
            missing.append(str(node.op_type))
        else:
            missing.append(f"{node.op_type} from {operator.given.dtype} to {operator.made.dtype}")
    return [*file.buffers, *lines], missing


class _File:
    """A model file, and the C expression that holds each of its values.

    Members
    -------
    buffers:
        Declarations of values between two operators of a step.
    """

    def __init__(self, content: bytes) -> None:
        try:
            self.graph = parsed(content).graph
        except ImportError:
            raise MissingPackageError("onnx", "writing an ONNX network as C") from None
        self.buffers: list[str] = []
        self._names = list(value_numbers(self.graph))
        self._places: dict[str, str] = {}
        graph = self.graph
        self._infos = {each.name: each for each in (*graph.input, *graph.output, *graph.value_info)}
        self._held = {each.name: each for each in graph.initializer}

    def place(self, numbers: Sequence[int], places: Sequence[str]) -> None:
        """Set the places of values."""
        self._places |= {self._names[n]: each for n, each in zip(numbers, places, strict=True)}

    def operator(self, node: Any) -> _Operator | None:
        """Return an operator of one tensor and constants; None if it is another."""
        first, *others = node.input or [""]
        if first not in self._infos or node.output[0] not in self._infos:
            return None
        if len(node.output) > 1 or any(name and name not in self._held for name in others):
            return None
        return _Operator(node, self._value(first), self._value(node.output[0]), self._constant)

    def _constant(self, name: str) -> Array:
        from onnx import numpy_helper

        array: Array = numpy_helper.to_array(self._held[name])
        return array

    def _value(self, name: str) -> _Value:
        import onnx

        kind = self._infos[name].type.tensor_type
        shape = tuple(dim.dim_value for dim in kind.shape.dim)
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)).name
        place = self._places.get(name)
        value = _Value(place or f"inner_{len(self.buffers)}", shape, dtype)
        if place is None:
            self._places[name] = value.place
            self.buffers.append(f"static _Alignas(16) uint8_t {value.place}[{value.bytes}];")
        return value


def _integers(value: _Value, zero: int) -> str:
    return f"(struct matloom_integers){{MATLOOM_DTYPE_{value.dtype.upper()}, {zero}}}"


def _call(function: str, *arguments: object) -> str:
    return f"{function}({', '.join(map(str, arguments))});"


def _quantize(operator: _Operator) -> str | None:
    given, made, scale = operator.given, operator.made, operator.scale(1)
    if given.dtype != "float32" or made.dtype not in ("int8", "uint8") or scale is None:
        return None
    factor = f"{float(scale[0]).hex()}f"
    integers = _integers(made, scale[1])
    return _call(
        "matloom_onnx_quantize",
        made.place,
        f"(const void*){given.place}",
        made.elements,
        factor,
        integers,
    )


def _dequantize(operator: _Operator) -> str | None:
    given, made, scale = operator.given, operator.made, operator.scale(1)
    if given.dtype not in ("int8", "uint8", "int16") or made.dtype != "float32" or scale is None:
        return None
    kind = f"MATLOOM_DTYPE_{given.dtype.upper()}"
    numbers = given.elements, float(scale[0]).hex(), scale[1]
    return _call("matloom_dequantize", f"(void*){made.place}", given.place, kind, *numbers)


def _softmax(operator: _Operator) -> str | None:
    given, made, axis = operator.given, operator.made, operator.attribute("axis", -1)
    before, after, last = operator.scale(1), operator.scale(3), len(given.shape) - 1
    if before is None or after is None:
        return None
    if given.dtype != made.dtype or axis % len(given.shape) != last:
        return None
    (scale, _), (made_scale, zero) = before, after
    columns = given.shape[-1]
    rows = math.prod(given.shape[:-1])
    table = ", ".join(f"{float(each).hex()}f" for each in _powers(scale, columns))
    levels = f"{float(np.floor(np.float32(1) / made_scale)).hex()}f"
    numbers = f"{rows}u", f"{columns}u", levels, _integers(made, zero)
    powers = f"(const float[]){{{table}}}"
    return _call("matloom_onnx_softmax", made.place, given.place, powers, *numbers)


def _powers(scale: np.float32, columns: int) -> Array:
    """Return the table of powers of ONNX Runtime's QLinearSoftmax, as float32 (256,)."""
    most = np.log(np.finfo(np.float32).max / np.float32(columns))
    shift = max(0.0, float(most) - 5) / float(scale)
    return np.array([math.exp((i - 255 + shift) * float(scale)) for i in range(256)], np.float32)


def _transpose(operator: _Operator) -> str | None:
    given, made = operator.given, operator.made
    order = operator.attribute("perm", list(reversed(range(len(given.shape)))))
    size = np.dtype(given.dtype).itemsize
    strides = [size * math.prod(given.shape[axis + 1 :]) for axis in order]
    lists = (f"(const uint32_t[]){{{', '.join(map(str, each))}}}" for each in (made.shape, strides))
    return _call("matloom_transpose", made.place, given.place, f"{size}u", f"{len(order)}u", *lists)


def _copy(operator: _Operator) -> str | None:
    given, made = operator.given, operator.made
    return _call("matloom_copy", made.place, given.place, f"{made.bytes}u")


#: Kernels of operators by their names, which no two domains share here.
_KERNELS: dict[str, Callable[[_Operator], str | None]] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "QLinearSoftmax": _softmax,
    "Transpose": _transpose,
    **dict.fromkeys(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"), _copy),
}
