"""Drop operators whose results nobody uses."""

from dataclasses import replace

from matloom.ir.graph import Graph

__all__ = ["drop_unused"]


def drop_unused(graph: Graph) -> Graph:
    """Return the graph without operators on which no output depends, and no variable."""
    wanted = set(graph.leaving)
    kept = []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            kept.append(node)
    if len(kept) == len(graph.nodes):
        return graph
    return replace(graph, nodes=tuple(reversed(kept)))
