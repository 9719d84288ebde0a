"""Calls of C kernels for host steps, except those that run operators from a model file."""

import math
from collections.abc import Callable

import numpy as np

from matloom.ir.attributes import Axis, LstmCell, Reference
from matloom.ir.curves import curve_scale
from matloom.ir.graph import Graph, Node, Op, Tensor
from matloom.ir.scales import rescale_multiplier, softmax_scale
from matloom.select.lookup import table_of

_INTEGERS = ("int8", "uint8", "int16")


def kernel_call(graph: Graph, node: Node, places: list[str]) -> str | None:
    """Return the kernel call for a graph with a single node; None if there is no kernel in C.

    `places` are C expressions of the tensors, outputs first.
    """
    emit = _KERNELS.get(node.op)
    arguments = None if emit is None else emit(graph, node)
    if arguments is None:
        return None
    function, rest = arguments
    call = f"{function}({', '.join((*places, *rest))})"
    return f"if (!{call}) return false;" if node.op in _CHECKED else f"{call};"


def describe_operator(graph: Graph, node: Node) -> str:
    """Return a phrase with the operator's name, and the dtypes of first input and first output."""
    input_type = graph.tensors[node.inputs[0]].dtype if node.inputs else "nothing"
    return f"{_operator_name(node)} from {input_type} to {graph.tensors[node.outputs[0]].dtype}"


def _operator_name(node: Node) -> str:
    """Return the name of a node's operator; for a REFERENCE node, of all operators that it runs."""
    opaque = node.op is Op.REFERENCE
    return " and ".join(node.attributes_as(Reference).operators) if opaque else node.op


_Arguments = tuple[str, tuple[str, ...]]


def _c_dtype(tensor: Tensor) -> str:
    """Return the C constant for a tensor's dtype."""
    return f"MATLOOM_DTYPE_{tensor.dtype.upper()}"


def _c_integers(tensor: Tensor) -> str:
    """Return the C expression of a tensor's dtype and zero point."""
    return f"(struct matloom_integers){{{_c_dtype(tensor)}, {tensor.zero_point}}}"


def _has_one_scale(tensor: Tensor) -> bool:
    """Return whether a tensor is quantised with one scale for all of its elements."""
    return tensor.quantisation is not None and len(tensor.quantisation.scale) == 1


def _c_element_count(tensor: Tensor) -> str:
    """Return the number of a tensor's elements as a C constant."""
    return f"{math.prod(tensor.shape)}u"


def _c_scale(pair: tuple[int, int]) -> str:
    """Return the C expression of a multiplier and its shift."""
    return f"(struct matloom_scale){{{pair[0]}, {pair[1]}}}"


def _call_softmax(graph: Graph, node: Node) -> _Arguments | None:
    """Return the kernel call of a softmax; None unless it is of int8."""
    data = graph.tensors[node.inputs[0]]
    if data.dtype != "int8":
        return None
    columns = data.shape[-1]
    rows = math.prod(data.shape) // columns
    multiplier, shift = softmax_scale(graph, node)
    least = max(-math.floor(31 * 2**26 / 2**shift), -(2**31) + 1)
    return f"matloom_{node.op.lower()}_int8", (
        f"{rows}u",
        f"{columns}u",
        _c_scale((multiplier, shift)),
        str(least),
    )


def _call_copy(graph: Graph, node: Node) -> _Arguments | None:
    """Return the kernel call that copies an operator's input to its output."""
    return "matloom_copy", (f"{graph.tensors[node.inputs[0]].size_bytes}u",)


def _call_lookup(graph: Graph, node: Node) -> _Arguments | None:
    """Return a lookup in a table of the operator's results; None unless it maps bytes to bytes.

    The table is a C string, which compilers place in read-only memory.
    """
    data, result = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if not {data.dtype, result.dtype} <= {"int8", "uint8"}:
        return None
    table = "".join(f"\\{byte:03o}" for byte in table_of(graph, node).tolist())
    return "matloom_lookup", (f'(const uint8_t*)"{table}"', _c_element_count(data))


def _call_function(graph: Graph, node: Node) -> _Arguments | None:
    """Return the kernel call of LOGISTIC or TANH: interpolation for int16, a table for bytes."""
    data = graph.tensors[node.inputs[0]]
    if data.dtype != "int16":
        return _call_lookup(graph, node)
    multiplier, right = curve_scale(graph, node)
    tangent = "true" if node.op is Op.TANH else "false"
    return "matloom_curve", (_c_element_count(data), tangent, str(multiplier), str(right))


def _call_quantize(graph: Graph, node: Node) -> _Arguments | None:
    """Return the kernel call of a QUANTIZE, from real numbers or integers; None for other types."""
    data, result = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if result.dtype not in _INTEGERS or not _has_one_scale(result):
        return None
    if data.dtype == "float32":
        return "matloom_quantize", (
            _c_dtype(result),
            _c_element_count(data),
            f"(float){result.scale.hex()}",
            str(result.zero_point),
        )
    if data.dtype not in _INTEGERS or not _has_one_scale(data):
        return None
    return "matloom_requantize", (
        _c_integers(result),
        _c_integers(data),
        _c_element_count(data),
        _c_scale(rescale_multiplier(data, result)),
    )


def _call_dequantize(graph: Graph, node: Node) -> _Arguments | None:
    """Return the kernel call of a DEQUANTIZE; None unless from integers with one scale."""
    data = graph.tensors[node.inputs[0]]
    if data.dtype not in _INTEGERS or not _has_one_scale(data):
        return None
    scale = data.scale.hex()
    return "matloom_dequantize", (
        _c_dtype(data),
        _c_element_count(data),
        scale,
        str(data.zero_point),
    )


def _call_pick(graph: Graph, node: Node) -> _Arguments | None:
    """Return the kernel call of an ARG_MAX or ARG_MIN."""
    data, axis = graph.tensors[node.inputs[0]], node.attributes_as(Axis).axis
    largest = "true" if node.op is Op.ARG_MAX else "false"
    outer, inner = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
    return "matloom_pick", (
        _c_dtype(data),
        largest,
        f"{outer}u",
        f"{data.shape[axis]}u",
        f"{inner}u",
    )


def _call_gather(graph: Graph, node: Node) -> _Arguments | None:
    """Return the kernel call of a GATHER."""
    data, indices = (graph.tensors[number] for number in node.inputs)
    axis = node.attributes_as(Axis).axis
    before, after = data.shape[:axis], data.shape[axis + 1 :]
    bytes_each = math.prod(after) * np.dtype(data.dtype).itemsize
    members = (
        f"{math.prod(before)}u, {data.shape[axis]}u, {_c_element_count(indices)}, {bytes_each}u"
    )
    return "matloom_gather", (_c_dtype(indices), f"(struct matloom_slices){{{members}}}")


def _call_lstm_cell(graph: Graph, node: Node) -> _Arguments | None:
    """Return the kernel call of one time step of an LSTM's cell."""
    attributes = node.attributes_as(LstmCell)
    sums, state = (graph.tensors[node.inputs[at]].shape for at in (0, 2))
    batch, cells = state
    between = [sums[2] * sums[3], sums[3]]
    step, row = between if attributes.axis == 1 else between[::-1]
    zero = graph.tensors[node.outputs[0]].zero_point
    members = f"{batch}u, {cells}u, {attributes.time * step}u, {row}u, {zero}"
    return "matloom_lstm_cell", (f"(struct matloom_lstm){{{members}}}",)


#: Operators whose kernel returns whether it succeeded.
_CHECKED = frozenset({Op.GATHER})

_KERNELS: dict[Op, Callable[[Graph, Node], _Arguments | None]] = {
    **dict.fromkeys((Op.LOG_SOFTMAX, Op.SOFTMAX), _call_softmax),
    Op.RESHAPE: _call_copy,
    Op.SQUEEZE: _call_copy,
    Op.EXPAND_DIMS: _call_copy,
    Op.QUANTIZE: _call_quantize,
    Op.DEQUANTIZE: _call_dequantize,
    Op.ARG_MAX: _call_pick,
    Op.ARG_MIN: _call_pick,
    Op.GATHER: _call_gather,
    Op.LSTM_CELL: _call_lstm_cell,
    **dict.fromkeys((Op.HARD_SWISH, Op.LEAKY_RELU, Op.LOOKUP), _call_lookup),
    **dict.fromkeys((Op.LOGISTIC, Op.TANH), _call_function),
}
