"""Emits host steps that a TensorFlow Lite interpreter would run as calls of C kernels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tflite

from matloom.errors import MissingPackageError
from matloom.kernels.cut import plain_model
from matloom.tools.emit_values import (
    C_TYPES,
    CValue,
    CValues,
    combination,
    conversion,
    negation,
    selection,
)

#: Types of tensors that are not quantised.
_UNSCALED_TYPES = ("bool", "int32", "int64")
_DTYPES = {getattr(tflite.TensorType, name.upper()): name for name in (*C_TYPES, "complex64")}


def emit_tflite(
    content: bytes, attributes: Mapping[str, Any], places: Sequence[Sequence[str]]
) -> tuple[list[str], list[str]]:
    """Return the C lines of a step that runs LiteRT operators, and those without a kernel in C.

    Parameters are as for `emit_onnx`; `operators` in the attributes are the operators' names.
    """
    model, values = _model(content, attributes["interpreters"]), CValues()
    for side, own in zip((attributes["inputs"], attributes["outputs"]), places, strict=True):
        values.places |= dict(zip(side, own, strict=True))
    lines, missing = [], []
    for at, name in zip(attributes["positions"], attributes["operators"], strict=True):
        operator = model.subgraphs[0].operators[at]
        given = [_value(model, values, number) for number in operator.inputs if number >= 0]
        made, *more = [_value(model, values, number) for number in operator.outputs]
        statement = None if more else _statement(name, operator, given, made)
        if statement is None:
            kinds = " and ".join(dict.fromkeys(each.dtype for each in given))
            missing.append(f"{name} from {kinds} to {made.dtype}")
        else:
            lines.append(statement)
    return [*values.declared, *lines], missing


def _model(content: bytes, packages: Sequence[str]) -> Any:
    """Return a model file as objects, by the schema of the first interpreter that is installed.

    Raises
    ------
    MissingPackageError
        None of the packages is installed.
    """
    for package in packages:
        try:
            return plain_model(content, package)
        except ImportError:
            continue
    raise MissingPackageError(packages[0], "writing this network as C")


def _value(model: Any, values: CValues, number: int) -> CValue:
    """Return tensor `number` of a LiteRT model as a value for C, with its constant data."""
    tensor = model.subgraphs[0].tensors[number]
    shape = () if tensor.shape is None else tuple(map(int, tensor.shape))
    dtype, raw = _DTYPES.get(tensor.type, "uint8"), model.buffers[tensor.buffer].data
    held = raw is not None and len(raw) > 0
    data = np.frombuffer(bytes(raw), dtype).reshape(shape) if held else None
    return values.value(int(number), shape, dtype, data)


def _statement(name: str, operator: Any, inputs: Sequence[CValue], output: CValue) -> str | None:
    """Return the statement of an operator; None if it has no kernel in C."""
    if name in ("SELECT", "SELECT_V2"):
        return selection(inputs, output)
    emit = _KERNELS.get(name)
    if emit is None or any(each.dtype not in _UNSCALED_TYPES for each in (*inputs, output)):
        return None
    limited = getattr(operator.builtinOptions, "fusedActivationFunction", 0)
    return None if limited else emit(inputs, output)


_KERNELS: dict[str, Callable[[Sequence[CValue], CValue], str | None]] = {
    "ADD": combination("ADD"),
    "CAST": lambda given, made: conversion(given[0], made),
    "EQUAL": combination("EQUAL"),
    "GREATER": combination("LESS", swapped=True),
    "GREATER_EQUAL": combination("LESS_EQUAL", swapped=True),
    "LESS": combination("LESS"),
    "LESS_EQUAL": combination("LESS_EQUAL"),
    "LOGICAL_AND": combination("MINIMUM"),
    "LOGICAL_NOT": lambda given, made: negation(given[0], made),
    "LOGICAL_OR": combination("MAXIMUM"),
    "MAXIMUM": combination("MAXIMUM"),
    "MINIMUM": combination("MINIMUM"),
    "MUL": combination("MULTIPLY"),
    "NOT_EQUAL": combination("NOT_EQUAL"),
    "SUB": combination("SUBTRACT"),
}
