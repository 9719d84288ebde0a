"""The arithmetic and the bytes of an operator, wherever it runs."""

import math

from matloom.ir.graph import Graph, Node, Op
from matloom.ir.operators import OPERATORS

__all__ = ["macs", "tensor_bytes"]


def macs(graph: Graph, node: Node) -> int:
    """Return the multiply-accumulates of a layer with weights; of another operator 0."""
    if OPERATORS[node.op].weight_axis is None:
        return 0
    given, weights = (graph.tensors[number].shape for number in node.inputs[:2])
    output = graph.tensors[node.output].shape
    if node.op is Op.TRANSPOSE_CONV:
        return math.prod(given) * math.prod(weights[:3])
    if node.op is Op.DEPTHWISE_CONV_2D:
        return math.prod(output) * math.prod(weights[1:3])
    return math.prod(output) * math.prod(weights[1:])


def tensor_bytes(graph: Graph, node: Node) -> int:
    """Return the bytes of all tensors that an operator reads and writes, constants included."""
    numbers = {*node.inputs, *node.outputs}
    return sum(graph.tensors[number].size_bytes for number in numbers)
