"""Control flow in TensorFlow Lite files: IF and WHILE, whose bodies are subgraphs."""

from collections.abc import Iterator, Sequence
from typing import Any

import tflite

from matloom.frontend.tflite.flatbuffer import enum_name, numbers, operator_number, records
from matloom.frontend.tflite.tensors import FileTensors
from matloom.kernels.run_time_shapes import has_run_time_shape

CONTROL = frozenset({"IF", "WHILE"})

#: Layers. A branch or body is only converted if it has one of these on integers; otherwise, an
#: interpreter runs it.
LAYERS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})

#: Operators that a branch or body must not have: those that may have side effects, and control
#: flow, whose own branches and bodies would have to be checked.
_EFFECTS = frozenset({"ASSIGN_VARIABLE", "CALL", "CALL_ONCE", "CUSTOM", "READ_VARIABLE"})
_EFFECTS |= {"VAR_HANDLE", *CONTROL}

#: Types that the condition of a loop may read. With other types, a loop may never end on unusual
#: inputs, such as those of checks.
_COUNTERS = ("bool", "int32", "int64")


def can_run_on_host(tensors: FileTensors, names: Sequence[str], operators: Sequence[Any]) -> bool:
    """Return whether IF and WHILE can run on the host between operators of the engine.

    All subgraphs but the first must have no state, no nested control flow, and no sizes that depend
    on values. The outputs of branches and bodies must have the declared types and shapes. The
    condition of a loop must read only integers.
    """
    if "CALL_ONCE" in names:
        return False
    count = tensors.model.SubgraphsLength()
    parts = [
        FileTensors(tensors.content, tensors.model, tensors.model.Subgraphs(at))
        for at in range(1, count)
    ]
    if not all(map(is_static, parts)):
        return False
    for name, operator in zip(names, operators, strict=True):
        if name in CONTROL:
            called = [at - 1 for at in called_subgraphs(name, operator)]
            if not all(0 <= at < len(parts) for at in called):
                return False
            called_parts = [
                tensors,
                *(parts[at] for at in (called if name == "IF" else called[1:])),
            ]
            outputs = [numbers(operator, "Outputs").tolist()]
            outputs += [numbers(part.subgraph, "Outputs").tolist() for part in called_parts[1:]]
            kinds = [
                _types_and_shapes(part, side)
                for part, side in zip(called_parts, outputs, strict=True)
            ]
            if any(kind != kinds[0] for kind in kinds):
                return False
            if name == "WHILE" and not _reads_only_integers(parts[called[0]]):
                return False
    return True


def is_layered_loop(tensors: FileTensors, name: str, operator: Any) -> bool:
    """Return whether an operator is a WHILE whose body has a layer on integers."""
    number = called_subgraphs(name, operator)[1] if name == "WHILE" else 0
    if not 0 < number < tensors.model.SubgraphsLength():
        return False
    body = FileTensors(tensors.content, tensors.model, tensors.model.Subgraphs(number))
    return any(
        layer in LAYERS and body.dtype(given) in ("int8", "int16")
        for layer, given in _operators(body)
    )


def called_subgraphs(name: str, operator: Any) -> tuple[int, int]:
    """Return the indices of the subgraphs of an IF (then, else) or a WHILE (condition, body).

    Both are -1 if the file does not state them.
    """
    options = tflite.IfOptions() if name == "IF" else tflite.WhileOptions()
    source = operator.BuiltinOptions()
    if source is None:
        return (-1, -1)
    options.Init(source.Bytes, source.Pos)
    if name == "IF":
        return options.ThenSubgraphIndex(), options.ElseSubgraphIndex()
    return options.CondSubgraphIndex(), options.BodySubgraphIndex()


def _types_and_shapes(part: FileTensors, tensors: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Return the type and the shape of each tensor; `tensors` are numbers, types `TensorType`."""
    tables = [part.subgraph.Tensors(number) for number in tensors]
    return [(table.Type(), numbers(table, "Shape").tolist()) for table in tables]


def _operators(part: FileTensors) -> Iterator[tuple[str, list[int]]]:
    """Yield the name and the input numbers of each operator of a subgraph."""
    for operator in records(part.subgraph, "Operators"):
        code = part.model.OperatorCodes(operator.OpcodeIndex())
        name = enum_name(tflite.BuiltinOperator, operator_number(code))
        yield name, numbers(operator, "Inputs").tolist()


def is_static(part: FileTensors) -> bool:
    """Return whether a subgraph has no state, no control flow, and only known sizes."""
    tables = list(records(part.subgraph, "Tensors"))
    if any(table.IsVariable() or -1 in numbers(table, "ShapeSignature") for table in tables):
        return False
    return not any(
        name in _EFFECTS
        or name.startswith("HASHTABLE")
        or has_run_time_shape(name, given, part.is_computed)
        for name, given in _operators(part)
    )


def _reads_only_integers(condition: FileTensors) -> bool:
    """Return whether all inputs of all operators of a condition are integers or booleans."""
    read = [number for _, inputs in _operators(condition) for number in inputs if number >= 0]
    return all(condition.dtype([number]) in _COUNTERS for number in read)
