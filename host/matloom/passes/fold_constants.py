"""Folds constants: computes operators whose inputs are all constant."""

from dataclasses import replace

from matloom.ir.graph import Graph, Op
from matloom.kernels.interpreter import run_node


def fold_constants(graph: Graph) -> Graph:
    """Return the graph with operators on constants replaced by their results."""
    tensors = dict(graph.tensors)
    remaining = []
    for node in graph.nodes:
        constant = all(tensors[number].data is not None for number in node.inputs)
        if not constant or node.op is Op.REFERENCE:
            remaining.append(node)
            continue
        for number, data in run_node(replace(graph, tensors=tensors), node, {}).items():
            tensors[number] = replace(tensors[number], data=data)
    if len(remaining) == len(graph.nodes):
        return graph
    return replace(graph, tensors=tensors, nodes=tuple(remaining))
