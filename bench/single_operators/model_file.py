"""Writes TensorFlow Lite files from plain descriptions, with all that tools write into them."""

from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from numpy.typing import NDArray
from tflite_micro.python.tflite_micro.runtime import schema_fb as schema

#: A tensor of fewer bytes never lies outside the flatbuffer.
_ALIGNMENT = 16


@dataclass(frozen=True, kw_only=True)
class FileTensor:
    """A tensor of a file.

    Members
    -------
    dtype:
        As in the schema, in lower case; ``int4`` has two values per byte.
    data:
        A constant's values; None for computed tensors and inputs.
    given:
        Values that an input must have when the file runs, such as axes; None for any values.
    scales, zeros, axis:
        Written unchanged, even if they are inconsistent; no quantisation table without scales.
    """

    name: str | None = None
    shape: tuple[int, ...] = ()
    dtype: str = "int8"
    data: NDArray[Any] | None = field(default=None, repr=False)
    given: NDArray[Any] | None = field(default=None, repr=False)
    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = ()
    axis: int = 0
    variable: bool = False


@dataclass(frozen=True, kw_only=True)
class FileOperator:
    """An operator by its name in the schema; `options` has a table's name and its fields."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: tuple[str, dict[str, Any]] | None = None
    version: int = 1


@dataclass(frozen=True, kw_only=True)
class FileNetwork:
    """A file's one subgraph; `outside` puts constants after the flatbuffer, as quantisers do."""

    tensors: tuple[FileTensor, ...]
    operators: tuple[FileOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    outside: bool = False


def write_file(network: FileNetwork) -> bytes:
    """Return a network as the bytes of a TensorFlow Lite file."""
    model = schema.ModelT()
    model.version, model.description = 3, "one operator"
    graph = schema.SubGraphT()
    model.subgraphs, model.buffers, model.operatorCodes = [graph], [schema.BufferT()], []
    graph.tensors, graph.operators, graph.name = [], [], "main"
    graph.inputs, graph.outputs = (
        np.array(side, np.int32) for side in (network.inputs, network.outputs)
    )
    held = [_tensor(model, graph, tensor) for tensor in network.tensors]
    for operator in network.operators:
        _operator(model, graph, operator)
    if not network.outside:
        return _pack(model)
    return _with_data_outside(model, [(buffer, raw) for buffer, raw in held if raw])


def _pack(model: Any) -> bytes:
    """Return the bytes of a TensorFlow Lite file."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _with_data_outside(model: Any, buffers: list[tuple[Any, bytes]]) -> bytes:
    """Return a file whose constants follow the flatbuffer.

    It is packed twice, because the constants' offsets depend on the size of the flatbuffer.
    """
    for buffer, raw in buffers:
        # Any offset but 0 and 1, which mean inside.
        buffer.data, buffer.offset, buffer.size = None, 2, len(raw)
    end = len(_pack(model))
    for buffer, raw in buffers:
        buffer.offset = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = buffer.offset + len(raw)
    content = bytearray(_pack(model))
    for buffer, raw in buffers:
        content.extend(bytes(buffer.offset - len(content)))
        content.extend(raw)
    return bytes(content)


def _tensor(model: Any, graph: Any, source: FileTensor) -> tuple[Any, bytes]:
    """Add a tensor and its buffer to a subgraph; return the buffer and its contents."""
    tensor, buffer = schema.TensorT(), schema.BufferT()
    tensor.name, tensor.shape = source.name, np.array(source.shape, np.int32)
    tensor.type, tensor.isVariable = (
        getattr(schema.TensorType, source.dtype.upper()),
        source.variable,
    )
    tensor.buffer, tensor.hasRank = len(model.buffers), True
    if source.scales or source.zeros:
        table = schema.QuantizationParametersT()
        table.scale = np.array(source.scales, np.float32)
        table.zeroPoint = np.array(source.zeros, np.int64)
        table.quantizedDimension = source.axis
        tensor.quantization = table
    raw = b"" if source.data is None else _bytes(source)
    if raw:
        buffer.data = np.frombuffer(raw, np.uint8)
    model.buffers.append(buffer)
    graph.tensors.append(tensor)
    return buffer, raw


def _bytes(tensor: FileTensor) -> bytes:
    """Return the data of a constant as stored in a file; int4 as two numbers per byte."""
    assert tensor.data is not None
    if tensor.dtype != "int4":
        return np.ascontiguousarray(tensor.data).tobytes()
    nibbles = tensor.data.astype(np.uint8).reshape(-1) & 15
    pairs = np.pad(nibbles, (0, nibbles.size % 2)).reshape(-1, 2)
    return (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8).tobytes()


def _operator(model: Any, graph: Any, source: FileOperator) -> None:
    """Append an operator and its operator code to a TensorFlow Lite model."""
    code, operator = schema.OperatorCodeT(), schema.OperatorT()
    code.builtinCode = getattr(schema.BuiltinOperator, source.name)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), source.version
    operator.opcodeIndex = len(model.operatorCodes)
    operator.inputs, operator.outputs = (
        np.array(side, np.int32) for side in (source.inputs, source.outputs)
    )
    if source.options is not None:
        kind, fields = source.options
        table = getattr(schema, f"{kind}T")()
        for name, value in fields.items():
            if not hasattr(table, name):
                raise ValueError(f"{kind} must have the field {name}")
            setattr(table, name, np.array(value, np.int32) if isinstance(value, tuple) else value)
        operator.builtinOptions = table
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
    model.operatorCodes.append(code)
    graph.operators.append(operator)
