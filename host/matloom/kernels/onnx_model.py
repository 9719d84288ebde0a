"""Numbers the values of ONNX models, and cuts operators out of a model into another."""

import functools
import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from matloom.ir.attributes import Reference
from matloom.kernels.interpreters import Cut

#: Maximum bytes that `memory_of` counts for values that are not constants.
_MOST_CLAIMED = 64 << 20


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
def _parse(file: _FileKey) -> Any:
    """Return the ONNX model in a file's content, cached."""
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(file.content)
    return model


def parse(content: bytes) -> Any:
    """Return the ModelProto of a file's bytes, which callers must not change.

    Raises
    ------
    ImportError
        The package onnx is not installed.
    google.protobuf.message.DecodeError
        The bytes are not a valid ModelProto.
    """
    return _parse(_FileKey(content))


def value_numbers(graph: Any) -> dict[str, int]:
    """Return the numbers of a GraphProto's values by name.

    Values are numbered from 0 in the order of the file: inputs first, then constants, then results
    of operators. Models with the same inputs, constants and operators have the same numbers.
    """
    names = [value.name for value in graph.input]
    names += [constant.name for constant in graph.initializer]
    names += [constant.values.name for constant in graph.sparse_initializer]
    names += [name for node in graph.node for name in node.output if name]
    return {name: at for at, name in enumerate(dict.fromkeys(names))}


def values_read(node: Any) -> list[str]:
    """Return the names of all values that a NodeProto reads, itself or in branches and bodies."""
    names = [name for name in node.input if name]
    for graph in subgraphs(node):
        made = {value.name for value in graph.input}
        made.update(constant.name for constant in graph.initializer)
        for inner in graph.node:
            names += [name for name in values_read(inner) if name not in made]
            made.update(inner.output)
        names += [value.name for value in graph.output if value.name not in made]
    return list(dict.fromkeys(names))


def subgraphs(node: Any) -> Iterator[Any]:
    """Yield the branches and bodies of a NodeProto."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def cut_model(content: bytes, attributes: Reference) -> Cut:
    """Return a model that contains only the operators of a REFERENCE node.

    Raises
    ------
    ImportError
        The package onnx is not installed.
    """
    model = parse(content)
    if not attributes.positions:
        given = len({value.name for value in model.graph.input} - _constants(model.graph))
        arena, made = memory_of(model.graph), len(model.graph.output)
        return Cut(content=content, arena=arena, inputs=given, outputs=made)
    import onnx

    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    graph = cut.graph
    names = list(value_numbers(model.graph))
    nodes = [model.graph.node[at] for at in attributes.positions]
    used = {name for node in nodes for name in values_read(node)}
    known = {value.name: value for value in (*model.graph.input, *model.graph.value_info)}
    known.update({value.name: value for value in model.graph.output})
    all_names = {*used, *(name for node in nodes for name in node.output)}
    described = [known[name] for name in all_names if name in known]
    for field in ("node", "input", "output", "value_info", "initializer", "sparse_initializer"):
        graph.ClearField(field)
    graph.node.extend(nodes)
    graph.input.extend(known[names[number]] for number in attributes.inputs)
    graph.output.extend(known[names[number]] for number in attributes.outputs)
    kept = [each for each in model.graph.initializer if each.name in used]
    graph.initializer.extend(kept)
    graph.sparse_initializer.extend(
        each for each in model.graph.sparse_initializer if each.values.name in used
    )
    return Cut(
        content=cut.SerializeToString(deterministic=True),
        arena=_estimate_memory(nodes, described),
        inputs=len(attributes.inputs),
        outputs=len(attributes.outputs),
    )


def memory_of(graph: Any) -> int:
    """Return an estimate of the bytes that a graph's values take at the same time.

    Results of ConstantOfShape are counted in full. Of all other values, only the two largest are
    counted, up to `_MOST_CLAIMED` together, because a damaged file may claim any size.
    """
    return _estimate_memory(graph.node, [*graph.input, *graph.value_info, *graph.output])


def _estimate_memory(nodes: Sequence[Any], values: Sequence[Any]) -> int:
    """Return an estimate of the bytes that values take at the same time (`memory_of`)."""
    sizes = {value.name: _value_bytes(value) for value in values}
    filled = {name for node in nodes if node.op_type == "ConstantOfShape" for name in node.output}
    constants = sum(size for name, size in sizes.items() if name in filled)
    others = sorted(size for name, size in sizes.items() if name not in filled)
    return constants + min(sum(others[-2:]), _MOST_CLAIMED)


def _value_bytes(value: Any) -> int:
    """Return the size in bytes of a value, eight for each element; 0 if its shape is unknown.

    A scalar counts as 0 bytes, too.
    """
    shape = value.type.tensor_type.shape.dim
    sizes = [dim.dim_value for dim in shape]
    return 8 * math.prod(sizes) if shape and min(sizes) > 0 else 0


def _constants(graph: Any) -> set[str]:
    """Return the names of an ONNX graph's constants."""
    constants: Sequence[str] = [each.name for each in graph.initializer]
    return {*constants, *(each.values.name for each in graph.sparse_initializer)}
