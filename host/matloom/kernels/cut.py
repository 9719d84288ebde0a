"""Model files as objects of an interpreter's schema, and files of some operators of another."""

import copy
import functools
import hashlib
import math
from typing import Any

import numpy as np

from matloom.ir.attributes import Reference
from matloom.kernels.interpreters import Cut

__all__ = ["cut_file", "packed", "plain_model"]

#: The largest arena that TensorFlow Lite Micro counts in.
_LARGEST_ARENA = 2**31 - 1


class _File:
    """A model file, equal to another of the same digest."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.digest = hashlib.sha256(content).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _File) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@functools.lru_cache(maxsize=2)
def _unpacked(package: str, file: _File) -> Any:
    """Return a file as objects of the interpreter's schema; buffers are views of its bytes."""
    schema = _schema(package)
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(file.content, 0))


def _schema(package: str) -> Any:
    """Return the schema that comes with an interpreter; raise ImportError where it is absent."""
    if package == "tflite-micro":
        from tflite_micro.python.tflite_micro import runtime

        return runtime.schema_fb
    from ai_edge_litert import schema_py_generated

    return schema_py_generated


def plain_model(content: bytes, package: str) -> Any:
    """Return a file as objects of an interpreter's schema, with nothing after the flatbuffer.

    Its lists, subgraphs and operators are a caller's own; tensors and buffers are shared.

    Raises
    ------
    ImportError
        The interpreter is not installed.
    ValueError
        What lies after the flatbuffer ends beyond the file.
    """
    schema = _schema(package)
    model = copy.copy(_unpacked(package, _File(content)))
    model.buffers = [_inside(schema, buffer, content) for buffer in model.buffers]
    model.subgraphs = [copy.copy(graph) for graph in model.subgraphs]
    for graph in model.subgraphs:
        graph.operators = [_with_options(item, content) for item in graph.operators or []]
    model.signatureDefs, model.metadata, model.metadataBuffer = None, None, None
    return model


def packed(model: Any) -> bytes:
    """Return the file of a model's objects."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def cut_file(content: bytes, attributes: Reference, package: str) -> Cut:
    """Return the file of a node's operators alone.

    Raises
    ------
    ImportError
        The interpreter is not installed.
    ValueError
        The file is damaged.
    """
    model = plain_model(content, package)
    subgraph = model.subgraphs[0]
    as_it_is = not attributes.positions and not _is_outside(_unpacked(package, _File(content)))
    if attributes.positions:
        subgraph.operators = [subgraph.operators[at] for at in attributes.positions]
        subgraph.inputs = np.array(attributes.inputs, np.int32)
        subgraph.outputs = np.array(attributes.outputs, np.int32)
        used = {0}
        for operator in subgraph.operators:
            used.update(subgraph.tensors[at].buffer for at in operator.inputs if at >= 0)
        empty = _schema(package).BufferT()
        model.buffers = [buffer if at in used else empty for at, buffer in enumerate(model.buffers)]
    return Cut(
        content=content if as_it_is else packed(model),
        arena=_arena(model),
        inputs=len(subgraph.inputs),
        outputs=len(subgraph.outputs),
    )


def _is_outside(model: Any) -> bool:
    """Return whether something of a file lies after the flatbuffer."""
    operators = [item for graph in model.subgraphs for item in graph.operators or []]
    return any(buffer.offset > 1 for buffer in model.buffers) or any(
        item.largeCustomOptionsOffset > 1 for item in operators
    )


def _part(content: bytes, offset: int, size: int) -> Any:
    """Return bytes that lie after the flatbuffer."""
    if offset + size > len(content):
        raise ValueError(
            f"data must be within the file's {len(content)} bytes, not at {offset} to "
            f"{offset + size}"
        )
    return np.frombuffer(content, np.uint8, size, offset)


def _inside(schema: Any, buffer: Any, content: bytes) -> Any:
    """Return a buffer with its bytes in the flatbuffer."""
    if buffer.offset <= 1 or buffer.data is not None:
        return buffer
    made = schema.BufferT()
    made.data = _part(content, buffer.offset, buffer.size)
    return made


def _with_options(operator: Any, content: bytes) -> Any:
    """Return an operator with its custom options in the flatbuffer."""
    offset = operator.largeCustomOptionsOffset
    if offset <= 1:
        return operator
    made = copy.copy(operator)
    made.customOptions = _part(content, offset, operator.largeCustomOptionsSize)
    made.largeCustomOptionsOffset = made.largeCustomOptionsSize = 0
    return made


def _arena(model: Any) -> int:
    """Return bytes that are enough for every tensor at once, twice, and for kernels' tables."""
    elements = sum(
        math.prod(int(length) for length in ([] if tensor.shape is None else tensor.shape))
        for subgraph in model.subgraphs
        for tensor in subgraph.tensors
        if model.buffers[tensor.buffer].data is None or len(model.buffers[tensor.buffer].data) == 0
    )
    tables = 1024 * sum(len(graph.tensors) for graph in model.subgraphs)
    return int(min(16 * elements + tables + 2**20, _LARGEST_ARENA))
