"""Drops operators that leave every byte unchanged, even if its scale changes."""

from dataclasses import replace

import numpy as np

from matloom.ir.attributes import Attributes
from matloom.ir.graph import Graph, Node, Op
from matloom.kernels.kernels import kernel_of

#: Operators on one computed tensor, element by element, if their other inputs are constant.
_BYTEWISE = frozenset(
    {Op.ADD, Op.LOOKUP, Op.MAXIMUM, Op.MINIMUM, Op.MUL, Op.QUANTIZE, Op.RELU, Op.RELU6, Op.SUB}
)


def drop_identities(graph: Graph) -> Graph:
    """Return the graph with a RESHAPE, which costs nothing, for each operator that keeps all bytes.

    Quantised networks have such operators: a division by 255 that only changes the scale, a RELU of
    values that are never negative. They are found by trying all 256 bytes, for each channel.
    """
    nodes = tuple(_as_reshape(graph, node) for node in graph.nodes)
    return graph if nodes == graph.nodes else replace(graph, nodes=nodes)


def _as_reshape(graph: Graph, node: Node) -> Node:
    """Return a RESHAPE instead of an operator that keeps all bytes; else the operator itself."""
    if node.op not in _BYTEWISE:
        return node
    computed = [number for number in node.inputs if graph.tensors[number].data is None]
    if len(computed) != 1:
        return node
    data, output = graph.tensors[computed[0]], graph.tensors[node.output]
    if {data.dtype, output.dtype} != {"int8"} or data.shape != output.shape:
        return node
    if not _keeps_bytes(graph, node, computed[0]):
        return node
    return replace(node, op=Op.RESHAPE, inputs=(computed[0],), attributes=Attributes())


def _keeps_bytes(graph: Graph, node: Node, computed: int) -> bool:
    """Return whether an operator maps every byte to itself.

    False if a constant has neither one element nor one per channel.
    """
    every = np.arange(-128, 128, dtype=np.int8)
    depth = graph.tensors[node.output].shape[-1:]
    arrays = []
    for number in node.inputs:
        constant = graph.tensors[number].data
        if number == computed:
            arrays.append(every.reshape(-1, 1))
            continue
        assert constant is not None
        if constant.size != 1 and not (constant.size,) == constant.shape[-1:] == depth:
            return False
        arrays.append(constant.reshape(1, -1))
    result = kernel_of(node, arrays)(graph, node, arrays)
    assert isinstance(result, np.ndarray)
    return bool(np.all(result == every.reshape(-1, 1)))
