"""Limits the numbers that masks add to scores before SOFTMAX, such as -1e9 or -infinity."""

from dataclasses import replace

import numpy as np

from matloom.ir.attributes import Activation, Arithmetic, Attributes
from matloom.ir.graph import RESHAPES, Graph, Node, Op, Tensor
from matloom.passes.drop_unused import drop_unused

#: Operators through which a mask may pass.
_MOVES = (*RESHAPES, Op.TRANSPOSE)
#: Operators that combine masks with each other, or with scores.
_COMBINATIONS = (Op.ADD, Op.MAXIMUM, Op.MINIMUM)
#: Smallest number of a mask, relative to the largest one. Scores differ by less than this, and a
#: sum whose scale covers it keeps enough bits of the scores.
_LEAST_ADDEND = np.float32(-1024)
#: Largest factor that makes a mask of an input of 0 and 1; BERT's is -10,000.
_LARGEST_FACTOR = np.float32(-1e4)
#: A constant, and the operators through which it passes: kinds, attributes, shapes, indices.
_Route = tuple[int, tuple[tuple[Op, Attributes, tuple[int, ...], tuple[int, ...]], ...]]


def limit_masks(graph: Graph) -> Graph:
    """Return a float network with moderate numbers in the masks before SOFTMAX.

    SOFTMAX still gives zero for the elements that a mask excludes. Scores that a mask replaces are
    added to the mask instead, and two masks of the same scores become one.
    """
    graph = replace(graph, nodes=tuple(_without_factor(graph, node) for node in graph.nodes))
    graph = drop_unused(_join_masks(graph))
    tensors = dict(graph.tensors)
    for number, tensor in graph.tensors.items():
        if tensor.data is None or tensor.dtype != "float32":
            continue
        if _is_factor(graph, number):
            tensors[number] = replace(tensor, data=np.full_like(tensor.data, _LEAST_ADDEND))
        elif tensor.data.size > 1 and _only_masks(graph, number):
            data = np.maximum(tensor.data, tensor.data.max() + _LEAST_ADDEND)
            tensors[number] = replace(tensor, data=np.asarray(data, np.float32))
    return replace(graph, tensors=tensors)


def _only_masks(graph: Graph, number: int) -> bool:
    """Return whether a tensor affects nothing but scores before SOFTMAX, as one of their terms."""
    readers = [graph.nodes[at] for at in graph.consumers[number]]
    if number in graph.leaving or not readers:
        return False
    return all(_is_term(graph, reader, number) for reader in readers)


def _is_term(graph: Graph, node: Node, number: int) -> bool:
    """Return whether a node adds tensor `number` to scores before SOFTMAX, or moves it there."""
    if node.op is Op.SOFTMAX:
        return True
    if node.op is Op.GATHER:
        passes = node.inputs[0] == number and len(graph.tensors[number].shape) == 1
    elif node.op in _COMBINATIONS:
        passes = node.op is not Op.ADD or _is_plain(node)
    else:
        passes = node.op in _MOVES
    return passes and _only_masks(graph, node.output)


def _is_plain(node: Node) -> bool:
    """Return whether an ADD or a MUL has no activation."""
    return node.attributes_as(Arithmetic).activation is Activation.NONE


def _is_factor(graph: Graph, number: int) -> bool:
    """Return whether a constant multiplies an input of 0 and 1, which is then added to scores."""
    data, readers = graph.tensors[number].data, graph.consumers[number]
    if data is None or data.size != 1 or not readers or data.reshape(-1)[0] > _LARGEST_FACTOR:
        return False
    nodes = [graph.nodes[at] for at in readers]
    return all(
        node.op is Op.MUL and _is_plain(node) and _only_masks(graph, node.output) for node in nodes
    )


def _without_factor(graph: Graph, node: Node) -> Node:
    """Return an ADD without the factors that set its other operand to 0 where a mask excludes it.

    The numbers of the mask are far below all scores, so the operand does not matter there. Other
    nodes remain.
    """
    if not _adds_to_scores(graph, node):
        return node
    for first, mask in (node.inputs, node.inputs[::-1]):
        product = graph.nodes[graph.producers[first]] if first in graph.producers else None
        if product is None or product.op is not Op.MUL or not _is_plain(product):
            continue
        for scores, factors in (product.inputs, product.inputs[::-1]):
            same_shape = graph.tensors[scores].shape == graph.tensors[first].shape
            if same_shape and _excludes(graph, factors, mask):
                return replace(node, inputs=(scores, mask))
    return node


def _excludes(graph: Graph, factors: int, mask: int) -> bool:
    """Return whether factors are 0 where a mask has numbers far below 0, and 1 where it has 0."""
    routes = _route(graph, factors), _route(graph, mask)
    if routes[0] is None or routes[1] is None or routes[0][1] != routes[1][1]:
        return False
    kept, added = (graph.tensors[route[0]].data for route in routes if route)
    if kept is None or added is None or kept.shape != added.shape:
        return False
    is_kept = (kept == 1) & (added == 0)
    is_excluded = (kept == 0) & (added <= _LEAST_ADDEND)
    return bool((is_kept | is_excluded).all())


def _join_masks(graph: Graph) -> Graph:
    """Return the graph with the smaller number of two masks that are added one after the other.

    The first sum would need a scale that covers its mask, and would lose bits of the scores.
    """
    tensors, nodes = dict(graph.tensors), list[Node]()
    masks = {number for number in tensors if _is_mask(graph, number)}
    sums: dict[int, tuple[int, int]] = {}
    for node in graph.nodes:
        made = node
        known = (
            [each for each in node.inputs if each in masks] if _adds_to_scores(graph, node) else []
        )
        if len(known) == 1:
            (mask,) = known
            (scores,) = set(node.inputs) - {mask}
            if scores in sums and len(graph.consumers[scores]) == 1:
                scores, other = sums[scores]
                joint = max(tensors) + 1
                shape = np.broadcast_shapes(tensors[mask].shape, tensors[other].shape)
                tensors[joint] = Tensor(name=f"{node} mask", shape=shape, dtype="float32")
                operands, outputs = (other, mask), (joint,)
                nodes.append(
                    replace(
                        node,
                        op=Op.MINIMUM,
                        inputs=operands,
                        outputs=outputs,
                        attributes=Attributes(),
                    )
                )
                masks.add(joint)
                made, mask = replace(node, inputs=(scores, joint)), joint
            if tensors[scores].shape == tensors[node.output].shape:
                sums[node.output] = scores, mask
        nodes.append(made)
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _adds_to_scores(graph: Graph, node: Node) -> bool:
    """Return whether a node is a sum that affects nothing but scores before SOFTMAX."""
    return node.op is Op.ADD and _is_plain(node) and _only_masks(graph, node.output)


def _is_mask(graph: Graph, number: int) -> bool:
    """Return whether all numbers of a tensor are 0, or far below all scores."""
    route = _route(graph, number) if graph.tensors[number].dtype == "float32" else None
    data = None if route is None else graph.tensors[route[0]].data
    return data is not None and bool(((data == 0) | (data <= _LEAST_ADDEND)).all())


def _route(graph: Graph, number: int) -> _Route | None:
    """Return the constant that a tensor is chosen from or moved; None if there is none."""
    steps = []
    while graph.tensors[number].data is None:
        node = graph.nodes[graph.producers[number]] if number in graph.producers else None
        if node is None or node.op not in (Op.GATHER, *_MOVES):
            return None
        steps.append((node.op, node.attributes, graph.tensors[number].shape, node.inputs[1:]))
        number = node.inputs[0]
    return number, tuple(steps)
