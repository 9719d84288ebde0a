"""Drops operators and tensors that are not used."""

from dataclasses import replace

from matloom.ir.graph import Graph


def drop_unused(graph: Graph) -> Graph:
    """Return the graph without operators that no output or variable depends on."""
    wanted = set(graph.leaving)
    used_nodes = []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            used_nodes.append(node)
    if len(used_nodes) == len(graph.nodes):
        return graph
    return replace(graph, nodes=tuple(reversed(used_nodes)))


def drop_unused_tensors(graph: Graph) -> Graph:
    """Return the graph without tensors that no operator, input, output or variable refers to."""
    used = {*graph.inputs, *graph.leaving, *(variable.before for variable in graph.variables)}
    for node in graph.nodes:
        used.update((*node.inputs, *node.outputs))
    kept = {number: tensor for number, tensor in graph.tensors.items() if number in used}
    return replace(graph, tensors=kept)
