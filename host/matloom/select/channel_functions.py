"""Finds operators that together apply a function of one byte, by channel, to a tensor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from matloom.ir.graph import Array, Graph, Node, Op
from matloom.kernels.kernels import kernel_of
from matloom.select.lookup import LOOKUPS

#: Operators that compute each element from the elements at the same place.
_ELEMENTWISE = frozenset(
    {Op.ADD, Op.SUB, Op.MUL, Op.MAXIMUM, Op.MINIMUM, Op.PRELU, Op.QUANTIZE, *LOOKUPS}
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelFunction:
    """Operators that compute a tensor from the bytes of one other tensor.

    Members
    -------
    nodes:
        The operators, in order; only the last one's result is needed elsewhere.
    source:
        Tensor number of the tensor that they read.
    table:
        The result for each channel and unsigned byte, uint8 (channels, 256).
    """

    nodes: tuple[Node, ...]
    source: int
    table: Array

    @property
    def differs(self) -> bool:
        """Whether channels have different functions of the byte."""
        return bool((self.table != self.table[0]).any())


def channel_function(
    graph: Graph, last: Node, producers: Mapping[int, Node], private: frozenset[int]
) -> ChannelFunction | None:
    """Return the longest chain of operators ending with `last` that is a function of one byte.

    Return None if there is none.

    Parameters
    ----------
    producers:
        The operators that may be part of it, by the tensor number of their result.
    private:
        Tensor numbers of the tensors that may be left out if nothing else reads them.
    """
    if not _is_elementwise(graph, last):
        return None
    nodes, found = [last], None
    while True:
        outer = _computed_sources(graph, nodes)
        if len(outer) == 1:
            found = tuple(reversed(nodes)), next(iter(outer))
        before = _next_operator(
            graph, nodes, {number: producers.get(number) for number in outer}, private
        )
        if before is None:
            break
        nodes.append(before)
    if found is None:
        return None
    return ChannelFunction(nodes=found[0], source=found[1], table=_channel_tables(graph, *found))


def table_blocks(table: Array, columns: int) -> Array:
    """Return tables of all channels (channels, 256), arranged by block and column of the array.

    The result has the axes (blocks of channels, columns, 256).

    If there are fewer channels than columns, the channels repeat.
    """
    channels = len(table)
    rows = np.tile(table, (columns // channels, 1)) if channels < columns else table
    return rows.reshape(-1, columns, 256)


def _is_elementwise(graph: Graph, node: Node) -> bool:
    """Return whether an operator makes each int8 element from the one at its place and constants.

    Each constant must be a single element, or one for each channel.
    """
    if node.op not in _ELEMENTWISE or len(node.outputs) != 1:
        return False
    output = graph.tensors[node.output]
    if output.dtype != "int8" or not output.shape:
        return False
    for number in node.inputs:
        tensor = graph.tensors[number]
        by_channel = tensor.size in (1, *tensor.shape[-1:])
        fits = tensor.shape == output.shape
        if tensor.data is not None:
            fits = by_channel and tensor.shape[-1:] in ((), (1,), output.shape[-1:])
        if tensor.dtype != "int8" or not fits:
            return False
    return True


def _computed_sources(graph: Graph, nodes: Sequence[Node]) -> set[int]:
    """Return the tensor numbers of the inputs of `nodes` that other operators compute."""
    made = {node.output for node in nodes}
    read = {number for node in nodes for number in node.inputs}
    return {number for number in read - made if graph.tensors[number].data is None}


def _next_operator(
    graph: Graph, nodes: Sequence[Node], outer: Mapping[int, Node | None], private: frozenset[int]
) -> Node | None:
    """Return the last operator before `nodes` that can join them; None if none can.

    Only `nodes` may read its result. `outer` maps each tensor that they read from outside to its
    producer; `private` are the tensors that may be left out.
    """
    inside = {id(node) for node in nodes}
    able = [
        producer
        for number, producer in outer.items()
        if producer is not None
        and number in private
        and all(id(graph.nodes[at]) in inside for at in graph.consumers[number])
        and _is_elementwise(graph, producer)
    ]
    return max(able, key=lambda node: node.index, default=None)


def _channel_tables(graph: Graph, nodes: Sequence[Node], source: int) -> Array:
    """Return the results of operators for all bytes of `source`, uint8 (channels, 256)."""
    channels = graph.tensors[source].shape[-1]
    every = np.arange(256, dtype=np.uint8).view(np.int8).reshape(-1, 1)
    known = {source: np.repeat(every, channels, axis=1)}
    for node in nodes:
        inputs = []
        for number in node.inputs:
            data = graph.tensors[number].data
            inputs.append(known[number] if data is None else data.reshape(1, -1))
        known[node.output] = np.asarray(kernel_of(node, inputs)(graph, node, inputs))
    results: Array = np.ascontiguousarray(known[nodes[-1].output].T).view(np.uint8)
    return results
