"""Cuts operators out of a TensorFlow Lite file, into a file that an interpreter runs."""

import copy
import functools
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from matloom.ir.attributes import Reference
from matloom.kernels.interpreters import Cut
from matloom.kernels.run_time_shapes import has_run_time_shape

#: The largest arena that TensorFlow Lite Micro can address.
_LARGEST_ARENA = 2**31 - 1
#: Version of the schema of all files.
_VERSION = 3


class _FileKey:
    """A model file as a key of caches: files with equal digests are equal."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.digest = hashlib.sha256(content).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FileKey) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@functools.lru_cache(maxsize=2)
def _unpack(package: str, file: _FileKey) -> Any:
    """Return a file as objects of the interpreter's schema.

    Data that follow the flatbuffer are moved into it. The result is cached, so callers must not
    change it.
    """
    schema, content = _schema(package), file.content
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    model.buffers = [_with_data_inside(schema, buffer, content) for buffer in model.buffers]
    for graph in model.subgraphs:
        graph.operators = [_with_options(item, content) for item in graph.operators or []]
    return model


def _schema(package: str) -> Any:
    """Return the schema that comes with an interpreter; raise ImportError if it is missing."""
    if package == "tflite-micro":
        from tflite_micro.python.tflite_micro import runtime

        return runtime.schema_fb
    from ai_edge_litert import schema_py_generated

    return schema_py_generated


def plain_model(content: bytes, package: str) -> Any:
    """Return a file as objects of an interpreter's schema, without signatures and metadata.

    Data after the flatbuffer is moved into it. The caller may assign to members of the model and of
    its subgraphs; other objects are shared with later calls and must be copied before a change.

    Raises
    ------
    ImportError
        The interpreter is not installed.
    ValueError
        A buffer after the flatbuffer ends beyond the file.
    """
    _schema(package)
    model = copy.copy(_unpack(package, _FileKey(content)))
    model.subgraphs = [copy.copy(graph) for graph in model.subgraphs]
    model.signatureDefs, model.metadata, model.metadataBuffer = None, None, None
    # Interpreters refuse other numbers, which do not change what a file means.
    model.version = _VERSION
    return model


def serialise(model: Any) -> bytes:
    """Return a model, given as objects of an interpreter's schema, as a TensorFlow Lite file."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def cut_file(content: bytes, attributes: Reference, package: str) -> Cut:
    """Return a file that contains only the operators of a REFERENCE node.

    The result is cached by the contents of the file.

    Raises
    ------
    ImportError
        The interpreter is not installed.
    ValueError
        The file is damaged.
    """
    _schema(package)
    return _cut_cached(_FileKey(content), attributes, package)


@functools.lru_cache(maxsize=64)
def _cut_cached(file: _FileKey, attributes: Reference, package: str) -> Cut:
    """Return the result of `cut_file`, cached; without positions, the file has all operators."""
    model = plain_model(file.content, package)
    subgraph = model.subgraphs[0]
    if attributes.positions:
        subgraph.operators = [subgraph.operators[at] for at in attributes.positions]
        subgraph.inputs = np.array(attributes.inputs, np.int32)
        subgraph.outputs = np.array(attributes.outputs, np.int32)
        keep_used_parts(model, subgraph)
        if package == "ai-edge-litert":
            for tensor in subgraph.tensors:
                tensor.quantization = _litert_quantisation(tensor.quantization)
    return Cut(
        content=serialise(model),
        arena=_arena_bytes(model),
        inputs=len(subgraph.inputs),
        outputs=len(subgraph.outputs),
        has_run_time_shapes=_has_run_time_shapes(_schema(package), model),
    )


def keep_used_parts(model: Any, subgraph: Any) -> None:
    """Reduce a model, in place, to one subgraph and the tensors and buffers that it uses.

    If one of its operators calls another subgraph, all other subgraphs are kept with all their
    tensors. Unused tensors are removed because interpreters spend time on each.
    """
    lists = [item.inputs for item in subgraph.operators]
    lists += [item.outputs for item in subgraph.operators]
    lists += [item.intermediates for item in subgraph.operators if item.intermediates is not None]
    lists += [subgraph.inputs, subgraph.outputs]
    used = sorted({int(number) for numbers in lists for number in numbers if number >= 0})
    places = {number: at for at, number in enumerate(used)}
    renumber = functools.partial(_renumber, {**places, -1: -1})
    called = model.subgraphs[1:] if any(map(_calls_subgraphs, subgraph.operators)) else []
    model.subgraphs = [subgraph, *called]
    buffers = [model.buffers[0]]
    for other in called:
        other.tensors = [_move_buffer(model, buffers, tensor) for tensor in other.tensors]
    tensors = [_move_buffer(model, buffers, subgraph.tensors[number]) for number in used]
    model.buffers, subgraph.tensors = buffers, tensors
    subgraph.operators = [copy.copy(item) for item in subgraph.operators]
    for item in subgraph.operators:
        item.inputs, item.outputs = renumber(item.inputs), renumber(item.outputs)
        item.intermediates = None if item.intermediates is None else renumber(item.intermediates)
    subgraph.inputs, subgraph.outputs = renumber(subgraph.inputs), renumber(subgraph.outputs)


def _calls_subgraphs(operator: Any) -> bool:
    """Return whether an operator (IF or WHILE) calls other subgraphs."""
    names = ("thenSubgraphIndex", "bodySubgraphIndex")
    return any(hasattr(operator.builtinOptions, name) for name in names)


def _move_buffer(model: Any, buffers: list[Any], tensor: Any) -> Any:
    """Append a tensor's buffer to `buffers`; return a copy of the tensor that refers to it."""
    copied = copy.copy(tensor)
    buffers.append(model.buffers[tensor.buffer])
    copied.buffer = len(buffers) - 1
    return copied


def _renumber(new_numbers: Mapping[int, int], numbers: Any) -> Any:
    """Return tensor numbers as an int32 array, replaced by their new numbers in `new_numbers`."""
    return np.array([new_numbers[int(number)] for number in numbers], np.int32)


def _trailing_bytes(content: bytes, offset: int, size: int) -> Any:
    """Return a range of bytes of a file; raise ValueError if it ends beyond the file."""
    if offset + size > len(content):
        raise ValueError(
            f"data must be within the file's {len(content)} bytes, not at {offset} to "
            f"{offset + size}"
        )
    return np.frombuffer(content, np.uint8, size, offset)


def _with_data_inside(schema: Any, buffer: Any, content: bytes) -> Any:
    """Return a buffer that holds its bytes itself; the file may have them after the flatbuffer."""
    if buffer.offset <= 1 or buffer.data is not None:
        return buffer
    inner = schema.BufferT()
    inner.data = _trailing_bytes(content, buffer.offset, buffer.size)
    return inner


def _with_options(operator: Any, content: bytes) -> Any:
    """Return an operator that holds its custom options itself; see `_with_data_inside`."""
    offset = operator.largeCustomOptionsOffset
    if offset <= 1:
        return operator
    copied = copy.copy(operator)
    copied.customOptions = _trailing_bytes(content, offset, operator.largeCustomOptionsSize)
    copied.largeCustomOptionsOffset = copied.largeCustomOptionsSize = 0
    return copied


def _litert_quantisation(quantisation: Any) -> Any:
    """Return a tensor's quantisation in the form that LiteRT requires.

    Each scale has a zero point, and a single scale has no axis. TensorFlow Lite Micro
    ignores the axis, and all zero points of weights except the first.
    """
    if quantisation is None or quantisation.scale is None or not len(quantisation.scale):
        return quantisation
    valid, scales = copy.copy(quantisation), len(quantisation.scale)
    zeros = [] if quantisation.zeroPoint is None else list(quantisation.zeroPoint)
    if len(zeros) != scales and len(zeros) <= 1:
        valid.zeroPoint = np.array((zeros or [0]) * scales, np.int64)
    if scales == 1:
        valid.quantizedDimension = 0
    return valid


def _has_run_time_shapes(schema: Any, model: Any) -> bool:
    """Return whether the output shapes of any operator are known only at run time."""
    names = {number: name for name, number in vars(schema.BuiltinOperator).items()}
    codes = (max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes)
    operators = [names.get(code, "") for code in codes]
    graph = model.subgraphs[0]
    computed = [_is_computed(model, tensor) for tensor in graph.tensors]
    return any(
        has_run_time_shape(
            operators[item.opcodeIndex], item.inputs, lambda at: at >= 0 and computed[at]
        )
        for item in graph.operators
    )


def _is_computed(model: Any, tensor: Any) -> bool:
    """Return whether a tensor has no data in the file."""
    data = model.buffers[tensor.buffer].data
    return data is None or len(data) == 0


def _arena_bytes(model: Any) -> int:
    """Return an estimate, in bytes, of the memory that an interpreter needs for tensors.

    It has room for all computed tensors twice, at eight bytes per element, and for kernels' tables.
    """
    elements = sum(
        math.prod(int(length) for length in ([] if tensor.shape is None else tensor.shape))
        for subgraph in model.subgraphs
        for tensor in subgraph.tensors
        if _is_computed(model, tensor)
    )
    tables = 1024 * sum(len(graph.tensors) for graph in model.subgraphs)
    return int(min(16 * elements + tables + 2**20, _LARGEST_ARENA))
