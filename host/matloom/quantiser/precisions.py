"""Precision of each operator: types of data and bits of weights, from a table by layer."""

from collections.abc import Mapping

from matloom.errors import UserError, did_you_mean, unknown_name_error
from matloom.ir.graph import Graph, Node, Op, short_name
from matloom.ir.operators import OPERATORS

#: Type of data and bits of weights, by the name of a precision.
PRECISIONS = {"i8xi8": ("int8", 8), "i8xi4": ("int8", 4), "i16xi8": ("int16", 8)}
#: Precision of layers with weights of four bits.
NARROW_MODE = "i8xi4"
_FLOAT = "float32"
_ALL_OTHERS = "*"
#: Layers whose weights may have four bits; the engine has no such mode for other layers.
NARROW = (Op.CONV_2D, Op.FULLY_CONNECTED)


def layer_precisions(
    graph: Graph, precision: str | Mapping[str, str]
) -> tuple[dict[int, str], dict[int, int]]:
    """Return the type of each node's data, and the bits of each layer's weights, by node index.

    Parameters
    ----------
    precision:
        One of `PRECISIONS`, or a precision for each layer by name. ``*`` stands for all other
        layers, which are i8xi8 by default; ``float32`` leaves a layer unchanged.

    Raises
    ------
    UserError
        A precision or a layer is unknown.
    """
    table = {_ALL_OTHERS: precision} if isinstance(precision, str) else dict(precision)
    for mode in table.values():
        if mode not in (*PRECISIONS, _FLOAT):
            known = (*PRECISIONS, _FLOAT)
            raise unknown_name_error(
                UserError, "a precision", mode, known, hint="see `matloom quantise --help`"
            )
    others = table.pop(_ALL_OTHERS, "i8xi8")
    named = {_operator_index(graph, name): mode for name, mode in table.items()}
    kinds, bits = {}, {}
    for at, node in enumerate(graph.nodes):
        kind, width = PRECISIONS.get(named.get(at, others), (_FLOAT, 8))
        kinds[at] = kind
        if OPERATORS[node.op].weight_axis is not None:
            bits[at] = width if node.op in NARROW else 8
    return kinds, bits


def _operator_index(graph: Graph, name: str) -> int:
    """Return the index of the operator whose first output has this name; raise UserError if none.

    A name without its parts after ``;`` is accepted too.
    """
    names = [graph.tensors[node.outputs[0]].name for node in graph.nodes]
    for found in (names, [short_name(each) for each in names]):
        if name in found:
            return found.index(name)
    weighted = [
        short_name(each) for each, node in zip(names, graph.nodes, strict=True) if _is_layer(node)
    ]
    raise UserError(
        f"precision must name layers of {graph.name}, not {name!r}",
        hint=did_you_mean(name, weighted) or f"its layers are {', '.join(weighted)}",
    )


def _is_layer(node: Node) -> bool:
    """Return whether a node has weights."""
    return OPERATORS[node.op].weight_axis is not None
