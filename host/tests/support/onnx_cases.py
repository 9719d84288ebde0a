"""Small ONNX files of all operators, and edits that damage their messages."""

import random
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

__all__ = ["edit_onnx", "onnx_files", "quantised_convolution"]

#: Larger files are none of the cases.
_MOST = 8192
_NUMBERS = (0, 1, 2, -1, 3, 7, 8, 127, 255, 65535, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e38, float("inf"), float("nan"))


@cache
def onnx_files() -> dict[str, bytes]:
    """Return ONNX files by name: a test of ONNX for each operator, and a quantised layer."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    files, seen = {"quantised layer": quantised_convolution()}, set()
    for case in cases:
        assert case.model is not None
        content = case.model.SerializeToString()
        operators = frozenset(node.op_type for node in case.model.graph.node)
        if len(content) <= _MOST and operators not in seen:
            seen.add(operators)
            files[case.name] = content
    return files


def quantised_convolution() -> bytes:
    """Return a convolution between QuantizeLinear and DequantizeLinear."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.03),
        "z": np.int8(3),
        "w": draw.integers(-127, 128, (3, 2, 3, 3), np.int8),
        "t": np.array([0.01, 0.013, 0.017], np.float32),
        "n": np.zeros(3, np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "t", "n"], ["v"], axis=0),
        helper.make_node("Conv", ["d", "v"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    given, made = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 2, 5, 4]), ("y", [1, 3, 3, 2]))
    )
    held = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    graph = helper.make_graph(nodes, "quantised", [given], [made], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    content: bytes = model.SerializeToString()
    return content


def edit_onnx(data: bytes, rng: random.Random) -> bytes:
    """Return a damaged copy: cut short, with bytes replaced, or with up to three fields changed."""
    how = rng.random()
    if how < 0.05:
        return data[: rng.randrange(len(data))]
    if how < 0.4:
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            changed[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(changed)
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _edit_field(rng.choice(list(_messages(model))), model, rng)
    content: bytes = model.SerializeToString()
    return content


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message and all messages in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                yield from _messages(each)


def _edit_field(message: Any, model: Any, rng: random.Random) -> None:
    """Remove, duplicate, swap or change a field that is set in a message."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = rng.choice(fields)
    if rng.random() < 0.15:
        message.ClearField(field.name)
    elif not field.is_repeated:
        if field.message_type is None:
            setattr(message, field.name, _other(field, value, model, rng))
    elif rng.random() < 0.3:
        at = rng.randrange(len(value))
        del value[at]
    elif field.message_type is not None:
        value.add().CopyFrom(rng.choice(list(value)))
    elif rng.random() < 0.3:
        value.append(rng.choice(list(value)))
    else:
        at = rng.randrange(len(value))
        value[at] = _other(field, value[at], model, rng)


def _other(field: Any, value: Any, model: Any, rng: random.Random) -> Any:
    """Return another value of a field: near a limit, near the old one, or another name."""
    if isinstance(value, str):
        names = [name for node in model.graph.node for name in (*node.input, node.op_type)]
        return rng.choice([*names, "", "x", f"{value}2", "\u00e9", "n" * 5000])
    if isinstance(value, bytes):
        changed = bytearray(value) + bytes(rng.choice((0, 1, 64)))
        if changed and rng.random() < 0.7:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
            return bytes(changed)
        return bytes(changed[: len(changed) // 2])
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    if isinstance(value, float):
        return rng.choice((*_FLOATS, value * 2, -value))
    number = rng.choice((*_NUMBERS, value + 1, value - 1, value * 2))
    bits = 64 if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32
    return (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
