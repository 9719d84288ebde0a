"""Writes differences from a smaller tensor, such as a mean, as sums with its negative."""

from dataclasses import replace

import numpy as np

from matloom.ir.attributes import Arithmetic
from matloom.ir.graph import Graph, Node, Op, Tensor


def add_negatives(graph: Graph) -> Graph:
    """Return a float network that adds the negative where it subtracted a smaller, computed tensor.

    The engine broadcasts the smaller operand of an ADD in one pass, but a SUB takes three passes
    over the data. Normalisations subtract such a tensor, the mean.
    """
    tensors, nodes = dict(graph.tensors), list[Node]()
    for node in graph.nodes:
        if not _subtracts_smaller(graph, node):
            nodes.append(node)
            continue
        data, subtrahend = node.inputs
        given = graph.tensors[subtrahend]
        minus, negative = max(tensors) + 1, max(tensors) + 2
        number = np.array([-1], np.float32)
        tensors[minus] = Tensor(name=f"{given.name} sign", shape=(1,), dtype="float32", data=number)
        tensors[negative] = replace(given, name=f"{given.name} negative")
        nodes += [
            replace(
                node,
                op=Op.MUL,
                inputs=(subtrahend, minus),
                outputs=(negative,),
                attributes=Arithmetic(),
            ),
            replace(node, op=Op.ADD, inputs=(data, negative)),
        ]
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _subtracts_smaller(graph: Graph, node: Node) -> bool:
    """Return whether a SUB of floats subtracts a computed tensor that it broadcasts."""
    if node.op is not Op.SUB:
        return False
    data, subtrahend = (graph.tensors[number] for number in node.inputs)
    computed = data.data is None and subtrahend.data is None
    return computed and subtrahend.size < data.size and subtrahend.dtype == "float32"
