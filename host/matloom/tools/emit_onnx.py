"""Emits host steps that ONNX Runtime would run as calls of C kernels."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matloom.errors import MissingPackageError
from matloom.ir.graph import Array
from matloom.kernels.onnx_model import parse, value_numbers
from matloom.tools.emit_values import (
    CValue,
    CValues,
    call,
    combination,
    concatenation,
    conversion,
    copy,
    negation,
    reduction,
    selection,
)


@dataclass(frozen=True)
class _Operator:
    """An operator of an ONNX file.

    Members
    -------
    node:
        The NodeProto.
    inputs, output:
        The inputs passed to the kernel, without absent ones, and the only output. For operators of
        one tensor and constants, only the first input.
    constants:
        Values of the inputs that are constants, by name.
    """

    node: Any
    inputs: Sequence[CValue]
    output: CValue
    constants: Mapping[str, Array]

    @property
    def input(self) -> CValue:
        """First input of the operator."""
        return self.inputs[0]

    def attribute(self, name: str, default: Any) -> Any:
        """Return the value of an attribute of the ONNX node, or `default` if it has none."""
        import onnx

        found = {item.name: item for item in self.node.attribute}
        return onnx.helper.get_attribute_value(found[name]) if name in found else default

    def scale(self, place: int) -> tuple[np.float32, int] | None:
        """Return the scale and zero point, inputs `place` and `place + 1` of the node.

        An absent zero point is 0. Return None if there are several scales, or they are not float32.
        """
        names = [*self.node.input, ""]
        scale = self.constants[names[place]]
        zero = self.constants[names[place + 1]] if names[place + 1] else np.zeros(1, np.uint8)
        if scale.size != 1 or zero.size != 1 or scale.dtype != np.float32:
            return None
        return np.float32(scale.item()), int(zero.item())


def emit_onnx(
    content: bytes, attributes: Mapping[str, Any], places: Sequence[Sequence[str]]
) -> tuple[list[str], list[str]]:
    """Return the C lines of a step that runs ONNX operators, and those without a kernel in C.

    Parameters
    ----------
    content
        The model file of the step.
    attributes
        Attributes of the step: the indices of the nodes that it runs (`positions`), and the value
        numbers of its `inputs` and `outputs`.
    places
        C expressions of the step's inputs, and of its outputs.
    """
    try:
        file = _File(parse(content).graph)
    except ImportError:
        raise MissingPackageError("onnx", "writing an ONNX network as C") from None
    names = list(value_numbers(file.graph))
    for side, own in zip((attributes["inputs"], attributes["outputs"]), places, strict=True):
        file.values.places |= {names[n]: each for n, each in zip(side, own, strict=True)}
    lines, missing = [], []
    for at in attributes["positions"]:
        node = file.graph.node[at]
        operator = file.operator(node)
        statement = None if operator is None else _statement(operator)
        if statement is not None:
            lines.append(statement)
        elif operator is None:
            missing.append(str(node.op_type))
        else:
            missing.append(f"{node.op_type} from {operator.input.dtype} to {operator.output.dtype}")
    return [*file.values.declared, *lines], missing


def _statement(operator: _Operator) -> str | None:
    """Return the statement of an operator; None if it has no kernel in C."""
    emit = _KERNELS.get(operator.node.op_type)
    alone = all(name in operator.constants for name in operator.node.input[1:] if name)
    if emit is not None and alone:
        return emit(operator)
    emit = _OF_SEVERAL.get(operator.node.op_type)
    return None if emit is None else emit(operator)


class _File:
    """An ONNX file, with the C expressions of its values."""

    def __init__(self, graph: Any) -> None:
        self.graph, self.values = graph, CValues()
        self._infos = {each.name: each for each in (*graph.input, *graph.output, *graph.value_info)}
        self._held = {each.name: each for each in graph.initializer}

    def operator(self, node: Any) -> _Operator | None:
        """Return a node as an operator.

        Return None if it has no input, not exactly one output, or a value of unknown type.
        """
        names = [name for name in node.input if name]
        known = {*self._infos, *self._held}
        if not names or len(node.output) != 1 or not {*names, *node.output} <= known:
            return None
        # Of other operators, constants are arguments.
        read = names if node.op_type in _OF_SEVERAL else names[:1]
        constants = {name: self._constant(name) for name in names if name in self._held}
        inputs = [self._value(name) for name in read]
        return _Operator(node, inputs, self._value(node.output[0]), constants)

    def _constant(self, name: str) -> Array:
        """Return the array of a constant of the file."""
        from onnx import numpy_helper

        array: Array = numpy_helper.to_array(self._held[name])
        return array

    def _value(self, name: str) -> CValue:
        """Return a value of the file as a value for C."""
        import onnx

        if name in self._held:
            data = self._constant(name)
            return self.values.value(name, data.shape, data.dtype.name, data)
        kind = self._infos[name].type.tensor_type
        shape = tuple(dim.dim_value for dim in kind.shape.dim)
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)).name
        return self.values.value(name, shape, dtype)


def _c_integers(value: CValue, zero: int) -> str:
    """Return the C expression of a value's dtype and a zero point."""
    return f"(struct matloom_integers){{{value.kind}, {zero}}}"


def _emit_quantize(operator: _Operator) -> str | None:
    """Return the statement of a QuantizeLinear; None unless from float32 with one scale."""
    given, made, scale = operator.input, operator.output, operator.scale(1)
    if given.dtype != "float32" or made.dtype not in ("int8", "uint8") or scale is None:
        return None
    factor = f"{float(scale[0]).hex()}f"
    integers = _c_integers(made, scale[1])
    return call(
        "matloom_onnx_quantize",
        made.place,
        f"(const void*){given.place}",
        made.elements,
        factor,
        integers,
    )


def _emit_dequantize(operator: _Operator) -> str | None:
    """Return the statement of a DequantizeLinear; None unless to float32 with one scale."""
    given, made, scale = operator.input, operator.output, operator.scale(1)
    if given.dtype not in ("int8", "uint8", "int16") or made.dtype != "float32" or scale is None:
        return None
    numbers = given.elements, float(scale[0]).hex(), scale[1]
    return call("matloom_dequantize", f"(void*){made.place}", given.place, given.kind, *numbers)


def _emit_softmax(operator: _Operator) -> str | None:
    """Return the statement of a QLinearSoftmax over the last axis; None for other axes."""
    given, made, axis = operator.input, operator.output, operator.attribute("axis", -1)
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
    numbers = f"{rows}u", f"{columns}u", levels, _c_integers(made, zero)
    powers = f"(const float[]){{{table}}}"
    return call("matloom_onnx_softmax", made.place, given.place, powers, *numbers)


def _powers(scale: np.float32, columns: int) -> Array:
    """Return the table of powers of ONNX Runtime's QLinearSoftmax, as float32 (256,)."""
    most = np.log(np.finfo(np.float32).max / np.float32(columns))
    shift = max(0.0, float(most) - 5) / float(scale)
    return np.array([math.exp((i - 255 + shift) * float(scale)) for i in range(256)], np.float32)


def _emit_transpose(operator: _Operator) -> str | None:
    """Return the statement of a Transpose."""
    given, made = operator.input, operator.output
    order = operator.attribute("perm", list(reversed(range(len(given.shape)))))
    size = np.dtype(given.dtype).itemsize
    strides = [size * math.prod(given.shape[axis + 1 :]) for axis in order]
    lists = (f"(const uint32_t[]){{{', '.join(map(str, each))}}}" for each in (made.shape, strides))
    return call("matloom_transpose", made.place, given.place, f"{size}u", f"{len(order)}u", *lists)


def _emit_gather(operator: _Operator) -> str | None:
    """Return the copy of one slice, at a constant index; None if there are several indices."""
    given, made, axis = operator.input, operator.output, operator.attribute("axis", 0)
    index = operator.constants[operator.node.input[1]]
    if index.size != 1:
        return None
    axis %= len(given.shape)
    count, inner = math.prod(given.shape[:axis]), given.shape[axis:]
    size = made.bytes // max(1, count)
    place = size * (int(index.item()) % inner[0])
    source = f"(const uint8_t*){given.place} + {place}u"
    numbers = (f"{number}u" for number in (count, size, size, size * inner[0]))
    return call("matloom_copy_parts", made.place, source, *numbers)


def _reduction_emitter(operation: str) -> Callable[[_Operator], str | None]:
    """Return a function that emits the statement of a reduction, such as ``MAX``."""

    def emit(operator: _Operator) -> str | None:
        """Return the statement of a reduction over the operator's axes; None without kernel."""
        given, rank = operator.input, len(operator.input.shape)
        names = [*operator.node.input, ""]
        listed = operator.constants[names[1]] if names[1] else operator.attribute("axes", [])
        axes = [int(axis) % rank for axis in listed]
        if not axes and operator.attribute("noop_with_empty_axes", 0):
            return copy(given, operator.output)
        return reduction(operation, given, operator.output, axes or list(range(rank)))

    return emit


def _binary_emitter(operation: str, *, swapped: bool = False) -> Callable[[_Operator], str | None]:
    """Return a function that emits the statement of an operation on two tensors."""
    emit = combination(operation, swapped=swapped)
    return lambda operator: emit(operator.inputs, operator.output)


#: Emitters for operators of one tensor and constants, by operator name, unique across domains here.
_KERNELS: dict[str, Callable[[_Operator], str | None]] = {
    "Cast": lambda operator: conversion(operator.input, operator.output),
    "DequantizeLinear": _emit_dequantize,
    "Gather": _emit_gather,
    "Not": lambda operator: negation(operator.input, operator.output),
    "QLinearSoftmax": _emit_softmax,
    "QuantizeLinear": _emit_quantize,
    "ReduceMax": _reduction_emitter("MAXIMUM"),
    "ReduceMin": _reduction_emitter("MINIMUM"),
    "ReduceSum": _reduction_emitter("ADD"),
    "Transpose": _emit_transpose,
    **dict.fromkeys(
        ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"),
        lambda operator: copy(operator.input, operator.output),
    ),
}
#: Emitters for operators of several tensors.
_OF_SEVERAL: dict[str, Callable[[_Operator], str | None]] = {
    "Add": _binary_emitter("ADD"),
    "And": _binary_emitter("MINIMUM"),
    "Concat": lambda operator: concatenation(
        operator.inputs, operator.output, operator.attribute("axis", 0) % len(operator.output.shape)
    ),
    "Equal": _binary_emitter("EQUAL"),
    "Greater": _binary_emitter("LESS", swapped=True),
    "GreaterOrEqual": _binary_emitter("LESS_EQUAL", swapped=True),
    "Less": _binary_emitter("LESS"),
    "LessOrEqual": _binary_emitter("LESS_EQUAL"),
    "Max": _binary_emitter("MAXIMUM"),
    "Min": _binary_emitter("MINIMUM"),
    "Mul": _binary_emitter("MULTIPLY"),
    "Or": _binary_emitter("MAXIMUM"),
    "Sub": _binary_emitter("SUBTRACT"),
    "Where": lambda operator: selection(operator.inputs, operator.output),
    "Xor": _binary_emitter("NOT_EQUAL"),
}
