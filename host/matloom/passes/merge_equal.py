"""Merges operators that compute equal results."""

from dataclasses import replace

from matloom.ir.graph import Graph, Node, Op, Tensor


def merge_equal(graph: Graph) -> Graph:
    """Return the graph without operators that repeat an earlier one on the same inputs."""
    known: dict[tuple[object, ...], Node] = {}
    same: dict[int, int] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if not same.keys().isdisjoint(node.inputs):
            node = replace(node, inputs=tuple(same.get(each, each) for each in node.inputs))
        key = (
            node.op,
            node.inputs,
            node.attributes,
            *map(_properties, _output_tensors(graph, node)),
        )
        before = known.setdefault(key, node)
        if before is node or node.op is Op.REFERENCE or not _can_be_replaced(graph, node):
            nodes.append(node)
        else:
            same |= dict(zip(node.outputs, before.outputs, strict=True))
    return replace(graph, nodes=tuple(nodes)) if same else graph


def _output_tensors(graph: Graph, node: Node) -> list[Tensor]:
    """Return the output tensors of an operator."""
    return [graph.tensors[number] for number in node.outputs]


def _properties(tensor: Tensor) -> tuple[object, ...]:
    """Return a tensor's shape, type, quantisation and format, to compare with another's."""
    return tensor.shape, tensor.dtype, tensor.quantisation, tensor.number_format


def _can_be_replaced(graph: Graph, node: Node) -> bool:
    """Return whether equal tensors may replace a node's results: none leaves the graph."""
    return set(graph.leaving).isdisjoint(node.outputs)
