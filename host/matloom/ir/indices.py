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
    """Return how many values each tensor of indices may have: those below the length of an axis.

    If an operator's output has indices, so have its inputs. `steps` are all operators in execution
    order; `_Key` is what identifies a tensor.
    """
    lengths: dict[_Key, int] = {}

    def limit(key: _Key, length: int) -> None:
        """Lower a tensor's length to `length`; record it if it had none."""
        lengths[key] = min(lengths.get(key, length), length)

    for inputs, outputs, length in reversed([*steps]):
        keys = [*inputs]
        if length is not None:
            limit(keys[1], length)
            continue
        for output in outputs:
            for key in keys if output in lengths else ():
                limit(key, lengths[output])
    return lengths


def graph_index_lengths(graph: Graph) -> dict[int, int]:
    """Return, by tensor number, how many values each tensor of indices may have.

    That is the length of the axis from which a GATHER selects with these indices.
    """
    return index_lengths(
        (node.inputs, node.outputs, selected_length(graph.tensors, node)) for node in graph.nodes
    )
