"""Combines chains of TRANSPOSE and RESHAPE into one TRANSPOSE.

Exporters write the windows of Swin transformers and the patches of MobileViT as several transposes.
Some of these move single bytes, although the chain as a whole moves long runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from matloom.ir.attributes import Attributes, Transpose
from matloom.ir.graph import RESHAPES, Graph, Node, Op, Tensor
from matloom.ir.shapes import MATRIX_RANK
from matloom.ir.swaps import Order, fastest_swaps, merge_neighbours


def combine_transposes(graph: Graph) -> Graph:
    """Return the graph with one TRANSPOSE for each chain of several, if that takes less time."""
    tensors, changed, dropped = dict(graph.tensors), dict[int, list[Node]](), set[int]()
    for place in reversed(range(len(graph.nodes))):
        chain = [] if place in dropped else _chain_ending_at(graph, place)
        if not any(node.op is Op.TRANSPOSE for node in chain):
            continue
        nodes = _replacement_nodes(graph, tensors, chain) if _is_faster(graph, chain) else None
        if nodes is not None:
            changed[place] = nodes
            dropped |= {graph.producers[node.output] for node in chain}
    if not changed:
        return graph
    left = [
        each
        for place, node in enumerate(graph.nodes)
        for each in changed.get(place, [] if place in dropped else [node])
    ]
    return replace(graph, nodes=tuple(left), tensors=tensors)


def _chain_ending_at(graph: Graph, place: int) -> list[Node]:
    """Return the chain of TRANSPOSEs and RESHAPEs that ends with the node at index `place`.

    Only the next node reads the result of each. The list is empty if the node is neither.
    """
    chain = list[Node]()
    while True:
        node = graph.nodes[place]
        if node.op is not Op.TRANSPOSE and node.op not in RESHAPES:
            return chain
        source, made = (graph.tensors[number] for number in (node.inputs[0], node.output))
        if (source.dtype, source.quantisation) != (made.dtype, made.quantisation):
            return chain
        if chain and (len(graph.consumers[node.output]) > 1 or node.output in graph.leaving):
            return chain
        chain.insert(0, node)
        if node.inputs[0] not in graph.producers:
            return chain
        place = graph.producers[node.inputs[0]]


def _is_faster(graph: Graph, chain: Sequence[Node]) -> bool:
    """Return whether one TRANSPOSE takes less time than a chain of several."""
    moves = [node for node in chain if node.op is Op.TRANSPOSE]
    whole = _estimated_cycles(graph, chain[0], _permutation(graph, chain))
    each = sum(_estimated_cycles(graph, node, _permutation(graph, [node])) for node in moves)
    return len(moves) > 1 and whole < each


def _estimated_cycles(
    graph: Graph, node: Node, permutation: tuple[Order, tuple[int, ...]] | None
) -> float:
    """Return the estimated cycles that a permutation of a node's input takes.

    Infinite if `permutation` is None, or has too many axes for an estimate.
    """
    element_bytes = graph.tensors[node.inputs[0]].element_bytes
    swaps = None if permutation is None else fastest_swaps(*permutation, element_bytes)
    return math.inf if swaps is None else sum(swap.cycles(element_bytes) for swap in swaps)


def _permutation(graph: Graph, chain: Sequence[Node]) -> tuple[Order, tuple[int, ...]] | None:
    """Return the permutation that a chain applies: the order and the lengths of its source's axes.

    Axes of the source are divided and joined so that there are as few as possible. Return None if a
    RESHAPE cuts an axis into parts of unequal lengths.
    """
    groups = _result_axes(graph, chain)
    if groups is None:
        return None
    axes = [axis for group in groups for axis in group]
    ordered = sorted(axes)
    order = [ordered.index(axis) for axis in axes]
    return merge_neighbours(order, [axis.size for axis in ordered])


def _result_axes(graph: Graph, chain: Sequence[Node]) -> "list[list[_Axis]] | None":
    """Return, for each axis of a chain's result, the axes of the source that form it.

    Return None if a RESHAPE cuts an axis into parts of unequal lengths.
    """
    shape = graph.tensors[chain[0].inputs[0]].shape
    axes = [_Axis((at,), size) for at, size in enumerate(shape) if size > 1]
    groups: list[list[_Axis]] | None = []
    for node in chain:
        groups = _group_axes(axes, graph.tensors[node.inputs[0]].shape)
        if groups is None:
            return None
        if node.op is Op.TRANSPOSE:
            groups = [groups[at] for at in node.attributes_as(Transpose).permutation]
        else:
            axes = [axis for group in groups for axis in group]
            groups = _group_axes(axes, graph.tensors[node.output].shape)
            if groups is None:
                return None
        axes = [axis for group in groups for axis in group]
    return groups


@dataclass(frozen=True, order=True)
class _Axis:
    """An axis of a source, or part of one; axes sort as they lie in the source.

    `place` is the index of the source's axis, followed by 0 for the outer or 1 for the inner part
    for each time that the axis was divided.
    """

    place: tuple[int, ...]
    size: int


def _group_axes(axes: Sequence[_Axis], shape: Sequence[int]) -> list[list[_Axis]] | None:
    """Divide and group axes to match a shape; return the axes that form each axis of the shape.

    Return None if an axis would have to be cut into parts of unequal lengths.
    """
    rest, groups = [*reversed(axes)], list[list[_Axis]]()
    for size in shape:
        groups.append([])
        while size > 1:
            axis = rest.pop()
            if axis.size > size and axis.size % size == 0:
                rest.append(_Axis((*axis.place, 1), axis.size // size))
                axis = _Axis((*axis.place, 0), size)
            if size % axis.size:
                return None
            size //= axis.size
            groups[-1].append(axis)
    return groups


def _replacement_nodes(
    graph: Graph, tensors: dict[int, Tensor], chain: Sequence[Node]
) -> list[Node] | None:
    """Return the operators that replace a chain; None if a single TRANSPOSE cannot.

    RESHAPEs may surround the TRANSPOSE. The tensors between the operators are added to `tensors`,
    or change their shape there.
    """
    first, last = chain[0], chain[-1]
    *_others, transpose = (node for node in chain if node.op is Op.TRANSPOSE)
    found = (
        _permutation(graph, chain) if last is not transpose else _unmerged_permutation(graph, chain)
    )
    if found is None:
        return None
    order, lengths = found
    reshape = replace(last, op=Op.RESHAPE, inputs=first.inputs[:1], attributes=Attributes())
    if len(order) < MATRIX_RANK:
        return [reshape]
    made, given = tensors[transpose.output], max(tensors) + 1
    tensors[given] = replace(made, name=f"{made.name}, axes", shape=lengths)
    tensors[transpose.output] = replace(made, shape=tuple(lengths[axis] for axis in order))
    attributes = Transpose(permutation=order)
    nodes = [
        replace(reshape, index=first.index, outputs=(given,)),
        replace(transpose, inputs=(given,), attributes=attributes),
    ]
    return nodes if transpose is last else [*nodes, replace(reshape, inputs=(transpose.output,))]


def _unmerged_permutation(
    graph: Graph, chain: Sequence[Node]
) -> tuple[Order, tuple[int, ...]] | None:
    """Return the permutation that a chain applies, with one axis for each axis of its result.

    Return None if an axis of the result is formed by axes that are not neighbours in the source.
    """
    groups = _result_axes(graph, chain)
    if groups is None:
        return None
    ordered = sorted(axis for group in groups for axis in group)
    for group in groups:
        places = [ordered.index(axis) for axis in group]
        if places and places != list(range(places[0], places[-1] + 1)):
            return None
    # Axes of length one come first.
    by_place = sorted(range(len(groups)), key=lambda at: groups[at][:1])
    shape = graph.tensors[chain[-1].output].shape
    return tuple(map(by_place.index, range(len(groups)))), tuple(shape[at] for at in by_place)
