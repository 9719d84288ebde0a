"""Moves the heavier branch of an addition directly before it.

The addition's post-processing is then interleaved with the arithmetic of that branch, tile by tile.
"""

from dataclasses import replace

from matloom.ir.graph import Graph, Node, Op


def _work(graph: Graph, node: Node) -> int:
    """Return an estimate of the arithmetic: output elements times weights per element."""
    output = graph.tensors[node.outputs[0]]
    weights = graph.tensors[node.inputs[1]] if len(node.inputs) > 1 else None
    if weights is None or weights.data is None or not output.shape:
        return output.size
    return output.size * weights.size // output.shape[-1]


def order_branches(graph: Graph) -> Graph:
    """Return the graph with the two operators before each addition ordered by work."""
    nodes = list(graph.nodes)
    for at in range(2, len(nodes)):
        first, second, addition = nodes[at - 2 : at + 1]
        feeds = set(addition.inputs) == {*first.outputs, *second.outputs}
        apart = not set(first.outputs) & set(second.inputs)
        if addition.op is not Op.ADD or not feeds or not apart:
            continue
        if _work(graph, first) > _work(graph, second):
            nodes[at - 2 : at] = second, first
    return replace(graph, nodes=tuple(nodes))
