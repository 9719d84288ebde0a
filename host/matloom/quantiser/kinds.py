"""Type of each operator's data in the quantised network: int8, int16 or float32."""

from collections.abc import Mapping

from matloom.ir.graph import Graph, Node, Op
from matloom.ir.operators import OPERATORS

#: Type of a bias, by the type of the data.
BIAS_TYPES = {"int8": "int32", "int16": "int64"}

#: Types to try if the requested one is not supported.
_INSTEAD = {"int16": ("int16", "int8"), "int8": ("int8",), "float32": ()}


def choose_kinds(graph: Graph, requested: Mapping[int, str]) -> dict[int, str]:
    """Return the type of each node's data, by the node's index in the graph.

    Parameters
    ----------
    requested:
        Requested type of each node. An operator that has no kernel for int16 gets int8, and one
        that has none for int8 stays float32.
    """
    return {at: _kind_of(graph, node, requested[at]) for at, node in enumerate(graph.nodes)}


def _kind_of(graph: Graph, node: Node, requested: str) -> str:
    """Return the type that a node computes in: the requested one, or the next that it supports."""
    if node.op is Op.REFERENCE:
        return "float32"
    for kind in _INSTEAD[requested]:
        if _types_with_kind(graph, node, kind) in OPERATORS[node.op].types:
            return kind
    return "float32"


def _types_with_kind(graph: Graph, node: Node, kind: str) -> str:
    """Return the signature of a node's types in `OPERATORS`, with integers `kind` for float32.

    The text is empty for a layer with computed weights.
    """
    inputs = [_with_data_type(graph.tensors[number].dtype, kind) for number in node.inputs]
    outputs = [_with_data_type(graph.tensors[number].dtype, kind) for number in node.outputs]
    rules = OPERATORS[node.op]
    if rules.weight_axis is not None:
        if graph.tensors[node.inputs[1]].data is None:
            return ""
        weights = ["int8", BIAS_TYPES[kind]]
        inputs = [inputs[0], *weights[: len(inputs) - 1]]
    if rules.variadic:
        inputs, outputs = list(dict.fromkeys(inputs)), list(dict.fromkeys(outputs))
    return f"{' '.join(inputs)} -> {' '.join(outputs)}"


def _with_data_type(dtype: str, kind: str) -> str:
    """Return the type a tensor gets: float32 becomes `kind`, other types stay."""
    return kind if dtype == "float32" else dtype
