"""Writes graphs as TensorFlow Lite files, so that other runtimes can run them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import tflite

from matloom.frontend.tflite.byte_tables import table_of, table_tensors
from matloom.frontend.tflite.write_options import OPTIONS, operands_of, parameter_quantisation
from matloom.ir.attributes import Function
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.scales import has_explicit_multipliers
from matloom.ir.shapes import BIAS

IDENTIFIER = b"TFL3"
#: Alignment of constants, which runtimes read in place with vector instructions.
ALIGNMENT = 16
#: Tensor numbers of inputs and outputs.
_Ends = tuple[Sequence[int], Sequence[int]]
#: Kind of an options table, such as "AddOptions", and its offset.
_Options = tuple[str, int]
#: The tensor of a variable's handle, which the graph does not have.
_HANDLE = Tensor(name="variable", shape=(), dtype="resource")


def write_tflite(graph: Graph) -> bytes:
    """Return a TensorFlow Lite file with `graph`; `frontend.load` reads an equivalent one.

    Raises
    ------
    ValueError
        The format cannot express a padding other than SAME or VALID, multipliers of an operator, an
        activation of TRANSPOSE_CONV, or a table that is not of int8.
    """
    file = _File()
    filler = Tensor(name="", shape=(1,), dtype="int8")
    tensors = [graph.tensors.get(number, filler) for number in range(max(graph.tensors) + 1)]
    for node in graph.nodes:
        if has_explicit_multipliers(node):
            raise ValueError(f"{node} must have the multipliers that follow from its scales")
        weighted = OPERATORS[node.op].weight_axis is not None and len(node.inputs) > BIAS
        if weighted and graph.tensors[node.inputs[BIAS]].dtype != "float32":
            tensors[node.inputs[BIAS]] = _scaled_bias(graph, node)
    operators = []
    for node in graph.nodes:
        table = table_of(graph, node)
        if table is not None:
            operators += _table_operators(file, node, table_tensors(graph, node, table), tensors)
        else:
            operators.append(
                _write_operator(file, graph, node, _write_operands(graph, node, tensors))
            )
    handles: dict[str, int] = {}
    for variable in graph.variables:
        handles[variable.name] = len(tensors)
        tensors.append(_HANDLE)
    if graph.variables:
        beginning = [_write_call_once(file), *_write_handles(file, handles)]
        beginning += [
            _write_read(file, handles[each.name], each.before) for each in graph.variables
        ]
        operators[:0] = beginning
        operators += [
            _write_assign(file, handles[each.name], each.after) for each in graph.variables
        ]
    subgraphs = [
        _write_subgraph(file, graph.name, tensors, (graph.inputs, graph.outputs), operators)
    ]
    if graph.variables:
        subgraphs.append(_write_initialisation(file, graph))
    return file.content(subgraphs)


def _write_subgraph(
    file: "_File", name: str, tensors: Sequence[Tensor], ends: _Ends, operators: list[int]
) -> int:
    """Write a subgraph; `operators` are the offsets of its operators. Return its offset."""
    return _write_table(
        file.builder,
        "SubGraph",
        Tensors=_write_tables(file.builder, [file.tensor(tensor) for tensor in tensors]),
        Inputs=_write_integers(file.builder, ends[0]),
        Outputs=_write_integers(file.builder, ends[1]),
        Operators=_write_tables(file.builder, operators),
        Name=file.builder.CreateString(name),
    )


def _write_initialisation(file: "_File", graph: Graph) -> int:
    """Write the subgraph that assigns initial values to variables; return its offset."""
    count = len(graph.variables)
    handles = {variable.name: at for at, variable in enumerate(graph.variables)}
    values = [replace(graph.tensors[each.before], data=each.initial) for each in graph.variables]
    operators = _write_handles(file, handles)
    operators += [_write_assign(file, at, count + at) for at in range(count)]
    tensors = [*[_HANDLE] * count, *values]
    return _write_subgraph(file, "initialisation", tensors, ((), ()), operators)


def _write_call_once(file: "_File") -> int:
    """Write the operator that runs the subgraph of initial values; return its offset."""
    options = _write_table(file.builder, "CallOnceOptions", InitSubgraphIndex=1)
    return file.operator("CALL_ONCE", (), (), ("CallOnceOptions", options))


def _write_handles(file: "_File", handles: Mapping[str, int]) -> list[int]:
    """Write an operator that makes each variable's handle (a tensor); return their offsets."""
    made = []
    for name, handle in handles.items():
        text = {key: file.builder.CreateString(key) for key in ("", name)}
        fields = {"Container": text[""], "SharedName": text[name]}
        options = _write_table(file.builder, "VarHandleOptions", **fields)
        made.append(file.operator("VAR_HANDLE", (), (handle,), ("VarHandleOptions", options)))
    return made


def _write_read(file: "_File", handle: int, number: int) -> int:
    """Write an operator that copies a variable to tensor `number`; return its offset."""
    options = _write_table(file.builder, "ReadVariableOptions")
    return file.operator("READ_VARIABLE", (handle,), (number,), ("ReadVariableOptions", options))


def _write_assign(file: "_File", handle: int, number: int) -> int:
    """Write an operator that copies tensor `number` to a variable; return its offset."""
    options = _write_table(file.builder, "AssignVariableOptions")
    ends = (handle, number), ()
    return file.operator("ASSIGN_VARIABLE", *ends, ("AssignVariableOptions", options))


class _File:
    """Parts of a file that all subgraphs share: builder, operator codes and buffers."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)
        self._codes: dict[str, int] = {}
        # The first buffer is empty by convention; each other buffer belongs to a tensor.
        self._buffers: list[Array | None] = [None]

    def tensor(self, tensor: Tensor) -> int:
        """Write a tensor with a buffer of its own; return its offset."""
        self._buffers.append(tensor.data)
        return _write_tensor(self.builder, len(self._buffers) - 1, tensor)

    def operator(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: _Options | None
    ) -> int:
        """Write an operator with the kind and offset of its options table; return its offset."""
        fields = {
            "OpcodeIndex": self._codes.setdefault(name, len(self._codes)),
            "Inputs": _write_integers(self.builder, inputs),
            "Outputs": _write_integers(self.builder, outputs),
        }
        if options is not None:
            fields["BuiltinOptions"] = options[1]
            fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, options[0])
        return _write_table(self.builder, "Operator", **fields)

    def content(self, subgraphs: list[int]) -> bytes:
        """Write all that is left, and return the content of the file."""
        buffers = [_write_buffer(self.builder, data) for data in self._buffers]
        model = _write_table(
            self.builder,
            "Model",
            Version=3,
            OperatorCodes=_write_tables(
                self.builder, [_write_code(self.builder, name) for name in self._codes]
            ),
            Subgraphs=_write_tables(self.builder, subgraphs),
            Buffers=_write_tables(self.builder, buffers),
        )
        self.builder.Finish(model, IDENTIFIER)
        return bytes(self.builder.Output())


def _write_operands(graph: Graph, node: Node, tensors: list[Tensor]) -> list[int]:
    """Return the numbers of a node's inputs in the file; add parameters to `tensors`."""
    inputs = []
    for operand in operands_of(graph, node):
        if isinstance(operand, int):
            inputs.append(operand)
            continue
        inputs.append(len(tensors))
        quantisation = parameter_quantisation(graph, node, operand)
        tensors.append(Tensor.constant(f"parameter_{len(tensors)}", operand, quantisation))
    return inputs


def _scaled_bias(graph: Graph, node: Node) -> Tensor:
    """Return the bias of a node with the scales of its products, which some runtimes check."""
    data, weights, bias = (graph.tensors[number] for number in node.inputs)
    assert weights.quantisation is not None
    scale = tuple(data.scale * scale for scale in weights.quantisation.scale)
    axis = None if weights.quantisation.axis is None else 0
    quantisation = Quantisation(scale=scale, zero_point=(0,) * len(scale), axis=axis)
    return replace(bias, quantisation=quantisation)


def _write_table(builder: Any, kind: str, **fields: int | float | bool) -> int:
    """Write a table, whose fields are numbers or offsets of earlier objects; return its offset."""
    getattr(tflite, f"{kind}Start")(builder)
    for name, value in fields.items():
        getattr(tflite, f"{kind}Add{name}")(builder, value)
    return int(getattr(tflite, f"{kind}End")(builder))


def _write_tables(builder: Any, offsets: list[int]) -> int:
    """Write a vector of tables that have been written; return its offset."""
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _write_integers(builder: Any, values: Sequence[int]) -> int:
    """Write a vector of int32; return its offset."""
    return int(builder.CreateNumpyVector(np.array(values, np.int32)))


def _write_buffer(builder: Any, data: Array | None) -> int:
    """Write a buffer, empty for None; return its offset."""
    if data is None:
        return _write_table(builder, "Buffer")
    content = data.tobytes()
    builder.Prep(ALIGNMENT, len(content))
    return _write_table(builder, "Buffer", Data=builder.CreateByteVector(content))


def _write_tensor(builder: Any, buffer: int, tensor: Tensor) -> int:
    """Write a tensor whose data is in the buffer with an index; return its offset."""
    fields: dict[str, int | bool] = {
        "Name": builder.CreateString(tensor.name),
        "Shape": _write_integers(builder, tensor.shape),
        "Type": getattr(tflite.TensorType, tensor.dtype.upper()),
        "Buffer": buffer,
    }
    if tensor.quantisation is not None:
        fields["Quantization"] = _write_quantisation(builder, tensor.quantisation)
    return _write_table(builder, "Tensor", **fields)


def _write_quantisation(builder: Any, quantisation: Quantisation) -> int:
    """Write scales, zero points and their axis; return the table's offset."""
    return _write_table(
        builder,
        "QuantizationParameters",
        Scale=builder.CreateNumpyVector(np.array(quantisation.scale, np.float32)),
        ZeroPoint=builder.CreateNumpyVector(np.array(quantisation.zero_point, np.int64)),
        QuantizedDimension=quantisation.axis or 0,
    )


def _write_code(builder: Any, name: str) -> int:
    """Write the operator code of a builtin operator, such as CONV_2D; return its offset."""
    number = getattr(tflite.BuiltinOperator, name)
    return _write_table(
        builder,
        "OperatorCode",
        BuiltinCode=number,
        DeprecatedBuiltinCode=min(number, 127),
        Version=1,
    )


def _table_operators(
    file: _File, node: Node, added: Sequence[Tensor], tensors: list[Tensor]
) -> list[int]:
    """Write the operators of a table lookup; return their offsets. Appends `added` to `tensors`."""
    byte, offset, index, table = range(len(tensors), len(tensors) + len(added))
    tensors += added
    types = {"InDataType": tflite.TensorType.INT8, "OutDataType": tflite.TensorType.INT32}
    return [
        file.operator(name, inputs, (output,), (kind, _write_table(file.builder, kind, **fields)))
        for name, inputs, output, kind, fields in (
            ("CAST", node.inputs, byte, "CastOptions", types),
            ("ADD", (byte, offset), index, "AddOptions", {}),
            ("GATHER", (table, index), node.output, "GatherOptions", {}),
        )
    ]


def _write_operator(file: _File, graph: Graph, node: Node, inputs: list[int]) -> int:
    """Write a node with its options; return its offset."""
    options = None
    if node.op in OPTIONS:
        kind, describe = OPTIONS[node.op]
        shapes = [graph.tensors[number].shape for number in node.inputs]
        options = kind, _write_table(file.builder, kind, **describe(node.attributes, shapes))
    name = str(node.op)
    if node.op is Op.FUNCTION:
        name, *form = node.attributes_as(Function).function.split("_")
        if name == "GELU":
            kind = "GeluOptions"
            options = kind, _write_table(file.builder, kind, Approximate=bool(form))
    return file.operator(name, inputs, node.outputs, options)
