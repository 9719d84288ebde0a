"""Limits the numbers that masks add to scores before SOFTMAX, such as -1e9 or -infinity."""

from dataclasses import replace
from functools import partial

import numpy as np

from matloom.ir.attributes import Activation, Arithmetic
from matloom.ir.graph import RESHAPES, Array, Graph, Node, Op

#: Operators through which a mask may pass.
_MOVES = (*RESHAPES, Op.TRANSPOSE)
#: Smallest number in a row of a mask, relative to the largest one. Scores differ by less than this,
#: and a sum whose scale covers it keeps enough bits of the scores.
_LEAST_ADDEND = np.float32(-1024)


def limit_masks(graph: Graph) -> Graph:
    """Return a float network with moderate numbers in the masks before SOFTMAX.

    SOFTMAX still gives zero for the elements that a mask excludes.
    """
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        number = _mask(graph, node)
        if number is not None:
            data = _limit(tensors[number].data)
            tensors[number] = replace(tensors[number], data=data)
    return replace(graph, tensors=tensors)


def _mask(graph: Graph, node: Node) -> int | None:
    """Return the number of the constant that an ADD before SOFTMAX adds; None for other nodes.

    The constant may be a table of which a GATHER chooses numbers for such additions alone.
    """
    if not _adds_to_scores(graph, node):
        return None
    masks = [each for each in map(partial(_constant, graph), node.inputs) if each is not None]
    if len(masks) != 1:
        return None
    (number,) = masks
    tensor, readers = graph.tensors[number], graph.consumers[number]
    if tensor.dtype != "float32" or len(readers) != 1:
        return None
    if number in node.inputs:
        return number if tensor.shape[-1:] == graph.tensors[node.output].shape[-1:] else None
    reader = graph.nodes[readers[0]]
    return number if reader.op is Op.GATHER and _only_masks(graph, reader) else None


def _adds_to_scores(graph: Graph, node: Node) -> bool:
    """Return whether a node is an ADD of which SOFTMAX alone reads the result."""
    if node.op is not Op.ADD or node.attributes_as(Arithmetic).activation is not Activation.NONE:
        return False
    readers = [graph.nodes[at].op for at in graph.consumers[node.output]]
    return readers == [Op.SOFTMAX] and node.output not in graph.leaving


def _constant(graph: Graph, number: int) -> int | None:
    """Return the constant that an operand is, or the table that it was chosen from and moved."""
    while graph.tensors[number].data is None:
        node = graph.nodes[graph.producers[number]] if number in graph.producers else None
        if node is None or node.op not in (Op.GATHER, *_MOVES):
            return None
        number = node.inputs[0]
    return number


def _only_masks(graph: Graph, node: Node) -> bool:
    """Return whether all readers of a GATHER of single numbers add them to scores."""
    if node.op is Op.GATHER and len(graph.tensors[node.inputs[0]].shape) != 1:
        return False
    if node.output in graph.leaving:
        return False
    return all(
        _only_masks(graph, reader) if reader.op in _MOVES else _adds_to_scores(graph, reader)
        for reader in (graph.nodes[at] for at in graph.consumers[node.output])
    )


def _limit(data: Array | None) -> Array:
    """Return a mask with numbers far below the largest of their row raised to the limit."""
    assert data is not None
    largest = data.max(axis=-1, keepdims=True)
    return np.asarray(np.maximum(data, largest + _LEAST_ADDEND), np.float32)
