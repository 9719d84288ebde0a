"""Fuses a PAD into the convolution after it."""

from dataclasses import replace

from matloom.ir.attributes import Conv2D, Pad, Padding
from matloom.ir.graph import Graph, Node, Op
from matloom.ir.shapes import IMAGE_RANK

__all__ = ["fuse_padding"]


def fuse_padding(graph: Graph) -> Graph:
    """Return the graph with PAD and PADV2 as padding of the integer convolutions after them.

    A convolution pads with its input's zero point, so the PAD must use that value, and must not
    change the scale.
    """
    nodes = tuple(_fused(graph, node) for node in graph.nodes)
    return graph if nodes == graph.nodes else replace(graph, nodes=nodes)


def _fused(graph: Graph, node: Node) -> Node:
    source = graph.producers.get(node.inputs[0]) if node.inputs else None
    if node.op not in (Op.CONV_2D, Op.DEPTHWISE_CONV_2D) or source is None:
        return node
    padding = graph.nodes[source]
    if not _pads_like_a_convolution(graph, padding):
        return node
    edges, own = padding.attributes_as(Pad), node.attributes_as(Conv2D)
    wider = Padding(
        top=own.padding.top + edges.before[1],
        bottom=own.padding.bottom + edges.after[1],
        left=own.padding.left + edges.before[2],
        right=own.padding.right + edges.after[2],
    )
    return replace(
        node,
        inputs=(padding.inputs[0], *node.inputs[1:]),
        attributes=replace(own, padding=wider),
    )


def _pads_like_a_convolution(graph: Graph, node: Node) -> bool:
    if node.op not in (Op.PAD, Op.PADV2):
        return False
    edges = node.attributes_as(Pad)
    data, output = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    if output.dtype not in ("int8", "int16") or data.quantisation != output.quantisation:
        return False
    if len(edges.before) != IMAGE_RANK:
        return False
    if any(edges.before[axis] + edges.after[axis] for axis in (0, 3)):
        return False
    return edges.value is None or edges.value == output.zero_point
