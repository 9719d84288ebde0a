"""Fuses a PAD into the convolution or the maximum pooling after it."""

from dataclasses import replace

import numpy as np

from matloom.ir.attributes import Conv2D, Pad, Padding, Pool2D
from matloom.ir.graph import Graph, Node, Op
from matloom.ir.shapes import IMAGE_RANK

_CONVOLUTIONS = (Op.CONV_2D, Op.DEPTHWISE_CONV_2D)


def fuse_padding(graph: Graph) -> Graph:
    """Return the graph with PAD and PADV2 merged into the padding of the integer layers after them.

    A convolution pads with its input's zero point, so the PAD must use that value, and must not
    change the scale. A maximum pooling ignores its padding, so the PAD must use the smallest value
    of its type, and each window must contain at least one element.
    """
    nodes = tuple(_fuse_padding(graph, node) for node in graph.nodes)
    return graph if nodes == graph.nodes else replace(graph, nodes=nodes)


def _fuse_padding(graph: Graph, node: Node) -> Node:
    """Return a layer with the PAD before it merged into its padding; unchanged if impossible."""
    source = graph.producers.get(node.inputs[0]) if node.inputs else None
    if node.op not in (*_CONVOLUTIONS, Op.MAX_POOL_2D) or source is None:
        return node
    padding = graph.nodes[source]
    if not _pads_rows_and_columns(graph, padding):
        return node
    edges, own = padding.attributes_as(Pad), node.attributes
    assert isinstance(own, Conv2D | Pool2D)
    wider = Padding(
        top=own.padding.top + edges.before[1],
        bottom=own.padding.bottom + edges.after[1],
        left=own.padding.left + edges.before[2],
        right=own.padding.right + edges.after[2],
    )
    output = graph.tensors[padding.output]
    neutral = output.zero_point
    if isinstance(own, Pool2D):
        neutral = int(np.iinfo(output.dtype).min)
        height, width = own.window
        if max(wider.top, wider.bottom) >= height or max(wider.left, wider.right) >= width:
            return node
    if neutral != (output.zero_point if edges.value is None else edges.value):
        return node
    inputs = (padding.inputs[0], *node.inputs[1:])
    return replace(node, inputs=inputs, attributes=replace(own, padding=wider))


def _pads_rows_and_columns(graph: Graph, node: Node) -> bool:
    """Return whether a PAD adds only rows and columns to an image, and keeps its quantisation."""
    if node.op not in (Op.PAD, Op.PADV2):
        return False
    edges = node.attributes_as(Pad)
    data, output = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    if output.dtype not in ("int8", "int16") or data.quantisation != output.quantisation:
        return False
    if len(edges.before) != IMAGE_RANK:
        return False
    return not any(edges.before[axis] + edges.after[axis] for axis in (0, 3))
