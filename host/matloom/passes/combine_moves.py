"""Combines operators that only move elements, if together they select or reorder channels.

A chain of TRANSPOSE, RESHAPE and slices, as in a channel shuffle, moves single bytes, operator by
operator. If it only selects or reorders channels, it becomes a 1x1 convolution with weights 0 and
1, which `fold_selections` can merge with a neighbouring convolution. A range of neighbouring
channels becomes a SLICE; all channels in order become a RESHAPE, which costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from matloom.ir.attributes import Attributes, Conv2D, Slice
from matloom.ir.graph import RESHAPES, Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.shapes import IMAGE_RANK
from matloom.kernels.interpreter import run_node

#: Operators that only move elements of one tensor.
_MOVES = RESHAPES | {Op.SLICE, Op.SPLIT, Op.SPLIT_V, Op.STRIDED_SLICE, Op.TRANSPOSE, Op.UNPACK}

#: Maximum number of elements of a tensor whose moves are traced one by one.
_MOST_ELEMENTS = 2**22

#: Attributes of a convolution that selects channels: no padding, no activation.
UNCHANGED = Conv2D()


def combine_moves(graph: Graph) -> Graph:
    """Return the graph with chains of moves replaced by equivalent selections of channels."""
    chains = _chains(graph)
    tensors = dict(graph.tensors)
    nodes: list[Node] = []
    for node in graph.nodes:
        made = [_selection_node(graph, chains, number, tensors, node) for number in node.outputs]
        known = [each for each in made if each is not None]
        nodes += known if known and len(known) == len(made) else [node]
    if tuple(nodes) == graph.nodes:
        return graph
    return replace(graph, nodes=tuple(nodes), tensors=tensors)


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """Consecutive operators that only move elements, from the tensor `source` to another one.

    `places` has the shape of the result, and for each element its index among all elements of the
    source. `transposes` says whether the chain includes a TRANSPOSE.
    """

    source: int
    places: Array = field(repr=False)
    transposes: bool


def _chains(graph: Graph) -> Mapping[int, _Chain]:
    """Return the chain of moves that makes each tensor, by tensor number."""
    chains: dict[int, _Chain] = {}
    for node in graph.nodes:
        number = node.inputs[0] if node.inputs else None
        if node.op not in _MOVES or number is None:
            continue
        if graph.tensors[number].size > _MOST_ELEMENTS:
            continue
        before = chains.get(number) or _empty_chain(graph, number)
        transposes = before.transposes or node.op is Op.TRANSPOSE
        for output, places in run_node(graph, node, {number: before.places}).items():
            shaped = places.reshape(graph.tensors[output].shape)
            chains[output] = replace(before, places=shaped, transposes=transposes)
    return chains


def _empty_chain(graph: Graph, number: int) -> _Chain:
    """Return a chain without operators, whose source and result are tensor `number`."""
    tensor = graph.tensors[number]
    places = np.arange(tensor.size, dtype=np.int32).reshape(tensor.shape)
    return _Chain(source=number, places=places, transposes=False)


def _selection_node(
    graph: Graph,
    chains: Mapping[int, _Chain],
    number: int,
    tensors: dict[int, Tensor],
    node: Node,
) -> Node | None:
    """Return a node that makes a tensor by selecting channels; None if its moves should stay.

    Weights that the node reads are added to `tensors`.
    """
    chain = chains.get(number)
    if chain is None or not chain.transposes or not _is_used(graph, number):
        return None
    source, target = graph.tensors[chain.source], graph.tensors[number]
    if target.dtype != "int8" or source.quantisation != target.quantisation:
        return None
    channels = _selected_channels(source, target, chain.places)
    if channels is None or target.quantisation is None:
        return None
    made = replace(node, inputs=(chain.source,), outputs=(number,))
    if np.array_equal(channels, range(source.shape[-1])):
        return replace(made, op=Op.RESHAPE, attributes=Attributes())
    if np.array_equal(channels, channels[0] + np.arange(len(channels))):
        return replace(made, op=Op.SLICE, attributes=neighbouring_channels(source.shape, channels))
    weights = max(tensors) + 1
    tensors[weights] = selection_weights(source.shape[-1], channels, f"{target.name} channels")
    return replace(made, op=Op.CONV_2D, inputs=(chain.source, weights), attributes=UNCHANGED)


def _is_used(graph: Graph, number: int) -> bool:
    """Return whether a tensor leaves the graph, or an operator other than a move reads it."""
    readers = (graph.nodes[at] for at in graph.consumers[number])
    return number in graph.leaving or any(reader.op not in _MOVES for reader in readers)


def _selected_channels(source: Tensor, target: Tensor, places: Array) -> Array | None:
    """Return the source's channel for each target channel; `places` are indices in the source.

    Return None if the moves do anything else than select channels of an image.
    """
    if len(source.shape) != IMAGE_RANK or source.shape[:-1] != target.shape[:-1]:
        return None
    depth = source.shape[-1]
    channels = places.reshape(-1, target.shape[-1])[0]
    if channels.max() >= depth:
        return None
    positions = np.arange(source.size // depth, dtype=np.int32).reshape(*source.shape[:-1], 1)
    return channels if np.array_equal(places, positions * depth + channels) else None


def neighbouring_channels(shape: tuple[int, ...], channels: Array) -> Slice:
    """Return the slice of an image of this shape that takes neighbouring, ascending channels."""
    begin = (*(0 for _ in shape[1:]), int(channels[0]))
    return Slice(begin=begin, size=(*shape[:-1], len(channels)), step=(1,) * len(shape))


def selection_weights(depth: int, channels: Array, name: str) -> Tensor:
    """Return the weights of a convolution that copies some of `depth` channels, in their order."""
    data = np.zeros((len(channels), 1, 1, depth), np.int8)
    data[np.arange(len(channels)), 0, 0, channels] = 1
    one = Quantisation(scale=(1.0,), zero_point=(0,))
    return Tensor(name=name, shape=data.shape, dtype="int8", quantisation=one, data=data)
