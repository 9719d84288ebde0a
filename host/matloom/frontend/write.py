"""Graphs to TensorFlow Lite files, so that other runtimes can run what a test or a user made."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import tflite

from matloom.frontend.write_options import OPTIONS, operands_of, parameter_quantisation
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS

__all__ = ["write_tflite"]

IDENTIFIER = b"TFL3"
#: Runtimes read constants in place, with vector instructions.
ALIGNMENT = 16


def write_tflite(graph: Graph) -> bytes:
    """Return `graph` as a TensorFlow Lite file; `load_tflite` reads the same graph from it.

    Raises
    ------
    ValueError
        A padding is neither SAME nor VALID: the format knows no other.
    """
    builder = flatbuffers.Builder(1024)
    numbers = range(max(graph.tensors) + 1)
    filler = Tensor(name="", shape=(1,), dtype="int8")
    tensors = [graph.tensors.get(number, filler) for number in numbers]
    operands = [_operands(graph, node, tensors) for node in graph.nodes]
    for node in graph.nodes:
        weighted = OPERATORS[node.op].weight_axis is not None and len(node.inputs) == 3
        if weighted and graph.tensors[node.inputs[2]].dtype != "float32":
            tensors[node.inputs[2]] = _scaled_bias(graph, node)
    ops = sorted({node.op for node in graph.nodes})
    subgraph = _table(
        builder,
        "SubGraph",
        Tensors=_tables(builder, [_tensor(builder, at, t) for at, t in enumerate(tensors)]),
        Inputs=_integers(builder, graph.inputs),
        Outputs=_integers(builder, graph.outputs),
        Operators=_tables(
            builder,
            [
                _operator(builder, graph, node, ops, inputs)
                for node, inputs in zip(graph.nodes, operands, strict=True)
            ],
        ),
        Name=builder.CreateString(graph.name),
    )
    # The first buffer is empty by convention; the others belong to a tensor each.
    buffers = [_table(builder, "Buffer"), *(_buffer(builder, t.data) for t in tensors)]
    model = _table(
        builder,
        "Model",
        Version=3,
        OperatorCodes=_tables(builder, [_code(builder, op) for op in ops]),
        Subgraphs=_tables(builder, [subgraph]),
        Buffers=_tables(builder, buffers),
    )
    builder.Finish(model, IDENTIFIER)
    return bytes(builder.Output())


def _operands(graph: Graph, node: Node, tensors: list[Tensor]) -> list[int]:
    """Return the file's inputs of a node; parameters that are constant tensors join `tensors`."""
    inputs = []
    for operand in operands_of(graph, node):
        if isinstance(operand, int):
            inputs.append(operand)
            continue
        inputs.append(len(tensors))
        tensors.append(
            Tensor(
                name=f"parameter_{len(tensors)}",
                shape=operand.shape,
                dtype=operand.dtype.name,
                quantisation=parameter_quantisation(graph, node, operand),
                data=operand,
            )
        )
    return inputs


def _scaled_bias(graph: Graph, node: Node) -> Tensor:
    """Return a bias with its scales, which some runtimes check."""
    given, weights, bias = (graph.tensors[number] for number in node.inputs)
    assert weights.quantisation is not None
    scale = tuple(given.scale * scale for scale in weights.quantisation.scale)
    axis = None if weights.quantisation.axis is None else 0
    quantisation = Quantisation(scale=scale, zero_point=(0,) * len(scale), axis=axis)
    return replace(bias, quantisation=quantisation)


def _table(builder: Any, kind: str, **fields: int | float | bool) -> int:
    """Write a table of the schema; fields are numbers or offsets of what is written already."""
    getattr(tflite, f"{kind}Start")(builder)
    for name, value in fields.items():
        getattr(tflite, f"{kind}Add{name}")(builder, value)
    return int(getattr(tflite, f"{kind}End")(builder))


def _tables(builder: Any, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _integers(builder: Any, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(values, np.int32)))


def _buffer(builder: Any, data: Array | None) -> int:
    if data is None:
        return _table(builder, "Buffer")
    content = data.tobytes()
    builder.Prep(ALIGNMENT, len(content))
    return _table(builder, "Buffer", Data=builder.CreateByteVector(content))


def _tensor(builder: Any, number: int, tensor: Tensor) -> int:
    fields: dict[str, int | bool] = {
        "Name": builder.CreateString(tensor.name),
        "Shape": _integers(builder, tensor.shape),
        "Type": getattr(tflite.TensorType, tensor.dtype.upper()),
        "Buffer": number + 1,
    }
    if tensor.quantisation is not None:
        fields["Quantization"] = _quantisation(builder, tensor.quantisation)
    return _table(builder, "Tensor", **fields)


def _quantisation(builder: Any, quantisation: Quantisation) -> int:
    return _table(
        builder,
        "QuantizationParameters",
        Scale=builder.CreateNumpyVector(np.array(quantisation.scale, np.float32)),
        ZeroPoint=builder.CreateNumpyVector(np.array(quantisation.zero_point, np.int64)),
        QuantizedDimension=quantisation.axis or 0,
    )


def _code(builder: Any, op: Op) -> int:
    number = getattr(tflite.BuiltinOperator, op)
    return _table(
        builder,
        "OperatorCode",
        BuiltinCode=number,
        DeprecatedBuiltinCode=min(number, 127),
        Version=1,
    )


def _operator(builder: Any, graph: Graph, node: Node, ops: list[Op], inputs: list[int]) -> int:
    fields = {
        "OpcodeIndex": ops.index(node.op),
        "Inputs": _integers(builder, inputs),
        "Outputs": _integers(builder, node.outputs),
    }
    if node.op in OPTIONS:
        kind, describe = OPTIONS[node.op]
        shapes = [graph.tensors[number].shape for number in node.inputs]
        fields["BuiltinOptions"] = _table(builder, kind, **describe(node.attributes, shapes))
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, kind)
    return _table(builder, "Operator", **fields)
