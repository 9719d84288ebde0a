"""Limits what masks add to scores before SOFTMAX, such as -1e9 or negative infinity."""

from dataclasses import replace

import numpy as np

from matloom.ir.attributes import Activation, Arithmetic
from matloom.ir.graph import Array, Graph, Node, Op

#: What a mask adds at least, relative to the largest number that it adds in a row. Scores differ by
#: less, and a sum with a scale for it keeps enough bits of the scores.
_LEAST_ADDEND = np.float32(-1024)


def limit_masks(graph: Graph) -> Graph:
    """Return a float network whose masks have no numbers that need a scale of their own.

    SOFTMAX gives zero for what such a mask excludes, as before.
    """
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        number = _mask(graph, node)
        if number is not None:
            data = _limit(tensors[number].data)
            tensors[number] = replace(tensors[number], data=data)
    return replace(graph, tensors=tensors)


def _mask(graph: Graph, node: Node) -> int | None:
    """Return the constant that an ADD before SOFTMAX adds; None for other operators."""
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
    """Return a mask without numbers far below the largest of their row."""
    assert data is not None
    largest = data.max(axis=-1, keepdims=True)
    return np.asarray(np.maximum(data, largest + _LEAST_ADDEND), np.float32)
