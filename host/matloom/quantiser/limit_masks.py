"""Limits the numbers that masks add to scores before SOFTMAX, such as -1e9 or -infinity."""

from collections.abc import Sequence
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
    added to the mask instead, two masks of the same scores become one, and biases are added before
    a mask.
    """
    graph = replace(graph, nodes=tuple(_without_factor(graph, node) for node in graph.nodes))
    graph = drop_unused(_MaskSums(graph).graph())
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
    """Return whether a node adds a tensor to scores before SOFTMAX, or only moves its elements."""
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
    """Return whether a constant far below 0 only scales tensors to masks, added to scores."""
    data, readers = graph.tensors[number].data, graph.consumers[number]
    if data is None or data.size != 1 or not readers or data.reshape(-1)[0] > _LARGEST_FACTOR:
        return False
    nodes = [graph.nodes[at] for at in readers]
    return all(
        node.op is Op.MUL and _is_plain(node) and _only_masks(graph, node.output) for node in nodes
    )


def _without_factor(graph: Graph, node: Node) -> Node:
    """Return an ADD of scores and a mask without a product that sets excluded scores to 0.

    The numbers of the mask are far below all scores, so excluded scores do not matter. Other nodes
    are returned unchanged.
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
    """Return whether factors are 0 where a mask has numbers far below 0, and 1 where it has 0.

    `factors` and `mask` are tensor numbers.
    """
    nodes = [
        graph.nodes[graph.producers[each]] for each in (factors, mask) if each in graph.producers
    ]
    if [node.op for node in nodes] == [Op.MINIMUM, Op.MINIMUM]:
        both = zip(nodes[0].inputs, nodes[1].inputs, strict=True)
        return all(_excludes(graph, *each) for each in both)
    routes = _constant_source(graph, factors), _constant_source(graph, mask)
    if routes[0] is None or routes[1] is None or routes[0][1] != routes[1][1]:
        return False
    kept, added = (graph.tensors[route[0]].data for route in routes if route)
    if kept is None or added is None or kept.shape != added.shape:
        return False
    is_kept = (kept == 1) & (added == 0)
    is_excluded = (kept == 0) & (added <= _LEAST_ADDEND)
    return bool((is_kept | is_excluded).all())


def _adds_to_scores(graph: Graph, node: Node) -> bool:
    """Return whether a node is a sum that affects nothing but scores before SOFTMAX."""
    return node.op is Op.ADD and _is_plain(node) and _only_masks(graph, node.output)


def _is_mask(graph: Graph, number: int) -> bool:
    """Return whether all numbers of a tensor are 0, or far below all scores."""
    node = graph.nodes[graph.producers[number]] if number in graph.producers else None
    if node is not None and node.op is Op.MINIMUM:
        return all(_is_mask(graph, each) for each in node.inputs)
    route = _constant_source(graph, number) if graph.tensors[number].dtype == "float32" else None
    data = None if route is None else graph.tensors[route[0]].data
    return data is not None and bool(((data == 0) | (data <= _LEAST_ADDEND)).all())


class _MaskSums:
    """Rewrites sums of scores and masks so that one mask is added last.

    The scale of a sum has to cover its mask, unless SOFTMAX reads it, and would lose bits of the
    scores; so would that of a constant of biases and a mask.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph, self._tensors = graph, dict(graph.tensors)
        self._nodes = list[Node]()
        #: Parts of constants, and the smaller numbers of several masks, by their terms.
        self._parts: dict[int, tuple[int, int]] = {}
        self._joint: dict[tuple[object, ...], int] = {}

    def graph(self) -> Graph:
        """Return the graph with its sums of scores and masks rewritten."""
        for node in self._graph.nodes:
            self._add(node)
        return replace(self._graph, tensors=self._tensors, nodes=tuple(self._nodes))

    def _add(self, node: Node) -> None:
        """Add a node; the last sum before SOFTMAX becomes a sum of scores and one mask."""
        readers = [self._graph.nodes[at] for at in self._graph.consumers[node.output]]
        terms = (
            [] if all(_adds_to_scores(self._graph, each) for each in readers) else self._terms(node)
        )
        parts = [part for each in terms for part in self._split_sum(each)]
        masks = [each for each in parts if self._is_mask(each)]
        if not masks or (len(masks) == 1 and masks[0] in node.inputs):
            self._nodes.append(node)
            return
        first, *others = sorted(
            (each for each in parts if each not in masks),
            key=lambda each: -self._tensors[each].size,
        )
        for other in others:
            first = self._add_before(node, Op.ADD, first, other)
        self._nodes.append(replace(node, inputs=(first, self._add_minimum(node, masks))))

    def _terms(self, node: Node) -> list[int]:
        """Return the tensors whose sum a node computes, if it adds to scores."""
        if not _adds_to_scores(self._graph, node):
            return []
        terms = list[int]()
        for number in node.inputs:
            at = self._graph.producers.get(number)
            inner = [] if at is None else self._terms(self._graph.nodes[at])
            terms += inner or [number]
        return terms

    def _split_sum(self, number: int) -> tuple[int, ...]:
        """Return the terms of tensor `number`: a constant of biases and a mask has two.

        A constant that is a sum of biases and a mask is divided into these two; any other tensor is
        returned alone.
        """
        data = self._tensors[number].data
        if data is None or _is_mask(self._graph, number) or not (data <= _LEAST_ADDEND).any():
            return (number,)
        if number not in self._parts:
            excluded = data <= _LEAST_ADDEND
            both = np.where(excluded, 0, data), np.where(excluded, _LEAST_ADDEND, 0)
            for each in both:
                added = replace(self._tensors[number], data=np.asarray(each, np.float32))
                self._tensors[max(self._tensors) + 1] = added
            last = max(self._tensors)
            self._parts[number] = last - 1, last
        return self._parts[number]

    def _is_mask(self, number: int) -> bool:
        """Return whether a tensor, of the graph or added since, masks by very negative numbers."""
        if number in self._graph.tensors:
            return _is_mask(self._graph, number)
        data = self._tensors[number].data
        return data is not None and bool((data <= _LEAST_ADDEND).any())

    def _add_minimum(self, node: Node, masks: Sequence[int]) -> int:
        """Return the number of a tensor with the element-wise minimum of some masks."""
        first, *others = masks
        for other in others:
            key = self._constant_key(first), self._constant_key(other)
            if key not in self._joint:
                self._joint[key] = self._add_before(node, Op.MINIMUM, first, other)
            first = self._joint[key]
        return first

    def _constant_key(self, number: int) -> object:
        """Return a key that is the same for equal constants."""
        data = self._tensors[number].data
        return number if data is None else (data.shape, data.tobytes())

    def _add_before(self, node: Node, op: Op, first: int, other: int) -> int:
        """Add an operator before a node; return the number of its output."""
        shape = np.broadcast_shapes(self._tensors[first].shape, self._tensors[other].shape)
        number = max(self._tensors) + 1
        name = f"{self._tensors[node.output].name} {op.lower()} {number}"
        self._tensors[number] = Tensor(name=name, shape=shape, dtype="float32")
        attributes = Arithmetic() if op is Op.ADD else Attributes()
        self._nodes.append(
            replace(node, op=op, inputs=(first, other), outputs=(number,), attributes=attributes)
        )
        return number


def _constant_source(graph: Graph, number: int) -> _Route | None:
    """Return the constant, and the GATHERs and moves that make a tensor from it; or None."""
    steps = []
    while graph.tensors[number].data is None:
        node = graph.nodes[graph.producers[number]] if number in graph.producers else None
        if node is None or node.op not in (Op.GATHER, *_MOVES):
            return None
        steps.append((node.op, node.attributes, graph.tensors[number].shape, node.inputs[1:]))
        number = node.inputs[0]
    return number, tuple(steps)
