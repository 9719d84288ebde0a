"""Replaces a GATHER with constant indices by slices, which the engine copies."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from matloom.ir.attributes import Attributes, Axis, Slice
from matloom.ir.graph import Graph, Node, Op, Tensor

#: Maximum number of slices of one GATHER: TensorFlow Lite Micro's CONCATENATION joins no more.
_MOST_SLICES = 10
#: Types of indices, which the host moves in one GATHER faster than in several slices.
_ON_HOST = frozenset({"bool", "int32", "int64"})


def slice_gathers(graph: Graph) -> Graph:
    """Return the graph with STRIDED_SLICE for each GATHER of evenly spaced constant indices.

    Indices of a few evenly spaced ranges become slices and a CONCATENATION of them.
    """
    tensors, nodes = dict(graph.tensors), list[Node]()
    for node in graph.nodes:
        nodes += _slice_nodes(graph, node, tensors) or [node]
    if tuple(nodes) == graph.nodes:
        return graph
    return replace(graph, nodes=tuple(nodes), tensors=tensors)


def _slice_nodes(graph: Graph, node: Node, tensors: dict[int, Tensor]) -> list[Node]:
    """Return the nodes that replace a GATHER, and add their tensors; none for other nodes."""
    if node.op is not Op.GATHER:
        return []
    data, indices = (graph.tensors[number] for number in node.inputs)
    if data.data is not None or indices.data is None:
        return []
    ranges = list(_ranges(indices.data.reshape(-1).tolist()))
    if len(ranges) > (1 if data.dtype in _ON_HOST else _MOST_SLICES):
        return []
    axis = node.attributes_as(Axis).axis
    output = tensors[node.output]
    parts = [_slice_attributes(data.shape, axis, each) for each in ranges]
    if len(parts) == 1 and not indices.shape:
        return [_slice_node(node, replace(parts[0], dropped=(axis,)), node.output)]
    joined = (*data.shape[:axis], indices.data.size, *data.shape[axis + 1 :])

    def new(shape: Sequence[int]) -> int:
        """Add a tensor of this shape with the output's other properties; return its number."""
        number = max(tensors) + 1
        tensors[number] = replace(output, shape=tuple(shape))
        return number

    whole = node.output if joined == output.shape else new(joined)
    if len(parts) == 1:
        nodes = [_slice_node(node, parts[0], whole)]
    else:
        nodes = [_slice_node(node, part, new(part.size)) for part in parts]
        numbers = tuple(each.output for each in nodes)
        attributes = Axis(axis=axis)
        nodes.append(
            replace(
                node, op=Op.CONCATENATION, inputs=numbers, outputs=(whole,), attributes=attributes
            )
        )
    if whole != node.output:
        nodes.append(replace(node, op=Op.RESHAPE, inputs=(whole,), attributes=Attributes()))
    return nodes


def _ranges(indices: Sequence[int]) -> Iterator[range]:
    """Yield ranges that together count through `indices` in order, each as long as possible."""
    first = 0
    while first < len(indices):
        step = indices[first + 1] - indices[first] if first + 1 < len(indices) else 1
        last = first
        while step and last + 1 < len(indices) and indices[last + 1] - indices[last] == step:
            last += 1
        step = step or 1
        yield range(indices[first], indices[last] + (step // abs(step)), step)
        first = last + 1


def _slice_attributes(shape: Sequence[int], axis: int, indices: range) -> Slice:
    """Return the attributes of a slice along an axis."""
    begin, size, step = [0] * len(shape), list(shape), [1] * len(shape)
    begin[axis], size[axis], step[axis] = indices.start, len(indices), indices.step
    return Slice(begin=tuple(begin), size=tuple(size), step=tuple(step))


def _slice_node(node: Node, attributes: Slice, output: int) -> Node:
    """Return the node that slices the input of a GATHER, to make a part of its result."""
    inputs, outputs = node.inputs[:1], (output,)
    return replace(node, op=Op.STRIDED_SLICE, inputs=inputs, outputs=outputs, attributes=attributes)
