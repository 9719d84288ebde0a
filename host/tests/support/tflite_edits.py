"""Edits of TensorFlow Lite files: of fields, tables and vectors of the flatbuffer, or bytes."""

import random
import struct
from collections.abc import Iterator
from typing import Any

import tflite

__all__ = ["edit_tflite", "tables_of"]

_VALUES = (0, 1, 2, 3, 4, 9, 127, 128, 255, 256, 65535, 2**20, 2**31 - 1, 2**31, 2**32 - 1)


def tables_of(data: bytes) -> list[int]:
    """Return the positions of the tables in an intact file."""
    model = tflite.Model.GetRootAs(data)
    return sorted(set(_model_tables(model)))


def _model_tables(model: Any) -> Iterator[int]:
    yield model._tab.Pos
    for field in ("OperatorCodes", "Buffers"):
        for at in range(getattr(model, f"{field}Length")()):
            yield getattr(model, field)(at)._tab.Pos
    for number in range(model.SubgraphsLength()):
        graph = model.Subgraphs(number)
        yield graph._tab.Pos
        for at in range(graph.TensorsLength()):
            tensor = graph.Tensors(at)
            yield tensor._tab.Pos
            if tensor.Quantization() is not None:
                yield tensor.Quantization()._tab.Pos
        for at in range(graph.OperatorsLength()):
            operator = graph.Operators(at)
            yield operator._tab.Pos
            if operator.BuiltinOptions() is not None:
                yield operator.BuiltinOptions().Pos


def edit_tflite(data: bytes, tables: list[int], rng: random.Random) -> bytes:
    """Return a file with 1 to 3 edits; `tables` are its `tables_of`."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.random()
        if kind < 0.3:
            changed[rng.randrange(8, len(changed))] = rng.randrange(256)
        elif kind < 0.35:
            del changed[rng.randrange(8, len(changed)) :]
            return bytes(changed)
        else:
            _edit_table(changed, rng.choice(tables), rng)
    return bytes(changed)


def _edit_table(data: bytearray, table: int, rng: random.Random) -> None:
    """Change a vtable slot, a field, or the vector that a field refers to."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if not 0 <= vtable <= len(data) - 4:
        return
    size = struct.unpack_from("<H", data, vtable)[0]
    slots = range(vtable + 4, min(vtable + size, len(data) - 1), 2)
    if not slots:
        return
    slot = rng.choice(slots)
    offset = struct.unpack_from("<H", data, slot)[0]
    kind = rng.random()
    if kind < 0.2:
        _put(data, slot, "<H", rng.choice((0, 4, 8, offset + 4, rng.randrange(65536))))
    elif offset and kind < 0.6:
        _change(data, table + offset, rng)
    elif offset and table + offset + 4 <= len(data):
        target = table + offset + struct.unpack_from("<I", data, table + offset)[0]
        if target + 4 > len(data):
            return
        if rng.random() < 0.4:
            _change(data, target, rng)
        else:
            length = min(struct.unpack_from("<I", data, target)[0], 64)
            _change(data, target + 4 + 4 * rng.randrange(length + 1), rng)


def _change(data: bytearray, at: int, rng: random.Random) -> None:
    kind, size = rng.choice((("<B", 1), ("<I", 4), ("<I", 4)))
    if at + size > len(data):
        return
    now = struct.unpack_from(kind, data, at)[0]
    value = rng.choice((*_VALUES, now + 1, now - 1, 2 * now, rng.getrandbits(32)))
    _put(data, at, kind, value & (2 ** (8 * size) - 1))


def _put(data: bytearray, at: int, kind: str, value: int) -> None:
    struct.pack_into(kind, data, at, value)
