"""Moves the heavier branch of an addition directly before it.

The addition's post-processing is then interleaved with the arithmetic of that branch, tile by tile.
"""

from dataclasses import replace

from matloom.ir.graph import Graph, Node, Op


def _estimated_work(graph: Graph, node: Node) -> int:
    """Return an estimate of the arithmetic: output elements times weights per element."""
    output = graph.tensors[node.outputs[0]]
    weights = graph.tensors[node.inputs[1]] if len(node.inputs) > 1 else None
    if weights is None or weights.data is None or not output.shape:
        return output.size
    return output.size * weights.size // output.shape[-1]


def _branch_start(nodes: list[Node], end: int) -> int:
    """Return the index of the first node of the branch that ends just before index `end`.

    A branch is one operator, with any PADs directly before it.
    """
    first = end - 1
    while first and nodes[first].op in (Op.PAD, Op.PADV2):
        if nodes[first].inputs[0] not in nodes[first - 1].outputs:
            break
        first -= 1
    return first


def order_branches(graph: Graph) -> Graph:
    """Return the graph in which the branch with more arithmetic comes last before an addition."""
    nodes = list(graph.nodes)
    for at in range(2, len(nodes)):
        addition, start = nodes[at], _branch_start(nodes, at)
        if addition.op is not Op.ADD or not start:
            continue
        begin = _branch_start(nodes, start)
        first, second = nodes[begin:start], nodes[start:at]
        made = {output for node in first for output in node.outputs}
        feeds = set(addition.inputs) == {*first[-1].outputs, *second[-1].outputs}
        apart = not made.intersection(each for node in second for each in node.inputs)
        if feeds and apart and _estimated_work(graph, first[0]) > _estimated_work(graph, second[0]):
            nodes[begin:at] = *second, *first
    return replace(graph, nodes=tuple(nodes))
