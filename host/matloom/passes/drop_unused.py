"""Drops operators whose results are not used."""

from dataclasses import replace

from matloom.ir.graph import Graph

__all__ = ["drop_unused"]


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
