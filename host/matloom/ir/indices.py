"""Finds the tensors whose values are indices, and how many values each may have."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from matloom.ir.attributes import Axis
from matloom.ir.graph import Graph, Node, Op, Tensor

_Key = TypeVar("_Key", bound=Hashable)

#: Inputs and outputs of an operator, and the length of the axis that a GATHER selects from.
Step = tuple[Iterable[_Key], Iterable[_Key], int | None]


def selected_length(tensors: Mapping[int, Tensor], node: Node) -> int | None:
    """Return the length of the axis that a GATHER selects from; None for other operators."""
    if node.op is not Op.GATHER:
        return None
    return tensors[node.inputs[0]].shape[node.attributes_as(Axis).axis]


def index_lengths(steps: Iterable[Step[_Key]]) -> dict[_Key, int]:
    """Return the number of values that each index may have, by tensor: 0 to that number minus 1.

    An index remains one through operators that move it. `steps` are all operators in order.
    """
    lengths: dict[_Key, int] = {}

    def limit(key: _Key, length: int) -> None:
        lengths[key] = min(lengths.get(key, length), length)

    for inputs, outputs, length in reversed([*steps]):
        given = [*inputs]
        if length is not None:
            limit(given[1], length)
            continue
        for output in outputs:
            for key in given if output in lengths else ():
                limit(key, lengths[output])
    return lengths


def graph_indices(graph: Graph) -> dict[int, int]:
    """Return the lengths of `index_lengths` by tensor number."""
    return index_lengths(
        (node.inputs, node.outputs, selected_length(graph.tensors, node)) for node in graph.nodes
    )
