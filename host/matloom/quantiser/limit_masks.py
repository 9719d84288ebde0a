"""Limits the numbers that masks add to scores before SOFTMAX, such as -1e9 or -infinity."""

from dataclasses import replace

import numpy as np

from matloom.ir.attributes import Activation, Arithmetic
from matloom.ir.graph import Array, Graph, Node, Op

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
    """Return the number of the constant that an ADD before SOFTMAX adds; None for other nodes."""
    if node.op is not Op.ADD or node.attributes_as(Arithmetic).activation is not Activation.NONE:
        return None
    readers = [graph.nodes[at].op for at in graph.consumers[node.output]]
    constants = [number for number in node.inputs if graph.tensors[number].data is not None]
    if readers != [Op.SOFTMAX] or node.output in graph.leaving or len(constants) != 1:
        return None
    (number,) = constants
    alone = len(graph.consumers[number]) == 1
    whole = graph.tensors[number].shape[-1:] == graph.tensors[node.output].shape[-1:]
    return number if alone and whole and graph.tensors[number].dtype == "float32" else None


def _limit(data: Array | None) -> Array:
    """Return a mask with numbers far below the largest of their row raised to the limit."""
    assert data is not None
    largest = data.max(axis=-1, keepdims=True)
    return np.asarray(np.maximum(data, largest + _LEAST_ADDEND), np.float32)
