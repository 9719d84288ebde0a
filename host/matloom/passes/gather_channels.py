"""Changes joins so that channels are stored where layers read them, with fewer copies.

A unit of a ShuffleNet joins two feature maps by a CONCATENATION, shuffles their channels and splits
them. Layers read one half, and the other half is copied into the next join. Here each layer gets a
separate join: whole maps that no join contains yet, and copies of the channels that the layer needs
from older maps. A channel is thus copied once, for the layer that reads it. Convolutions make their
channels in an order in which channels that are read together are neighbours.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from matloom.ir.attributes import Attributes, Axis
from matloom.ir.graph import Array, Graph, Node, Op, Tensor
from matloom.ir.shapes import IMAGE_RANK
from matloom.passes.combine_moves import UNCHANGED, neighbouring_channels, selection_weights
from matloom.passes.drop_unused import drop_unused, drop_unused_tensors
from matloom.passes.fold_selections import MULTIPLIERS, change_constant
from matloom.passes.moved_channels import Origin, copied_bytes, moved_channels, used_channels


def gather_channels(graph: Graph) -> Graph:
    """Return the graph with a CONCATENATION for each layer, of the channels that it reads.

    The graph is returned unchanged if that would not copy fewer bytes.
    """
    moved = moved_channels(graph)
    used = {node.outputs[0]: used_channels(graph, node, moved) for node in graph.nodes}
    found = {output: channels for output, channels in used.items() if channels is not None}
    if not found:
        return graph
    gathered = _Gathering(graph, moved, found).result()
    return gathered if copied_bytes(gathered) < copied_bytes(graph) else graph


class _Gathering:
    """Builder of a graph in which each layer reads a join (CONCATENATION) of the channels it uses.

    Parameters
    ----------
    graph:
        The graph to change.
    moved:
        The origin of each channel of the tensors that joins and selections make.
    used:
        The channels that a layer uses of its input, by the layer's output.
    """

    def __init__(
        self, graph: Graph, moved: Mapping[int, list[Origin]], used: Mapping[int, Array]
    ) -> None:
        self._graph, self._moved, self._used = graph, moved, used
        self._nodes: list[Node] = []
        self._tensors = dict(graph.tensors)
        #: Tensor that now holds a channel, and the channel's index there, unless at its origin.
        self._new_places: dict[Origin, Origin] = {}
        readers = (node for node in graph.nodes if node.outputs[0] not in used)
        others = (node for node in readers if node.outputs[0] not in moved)
        self._whole = {number for node in others for number in node.inputs} | {*graph.leaving}
        #: Index of the first operator that reads a channel.
        self._first: dict[Origin, int] = {}
        for at, node in enumerate(graph.nodes):
            for origin in self._needed_origins(node):
                self._first.setdefault(origin, at)

    def result(self) -> Graph:
        """Return the graph in which layers read only the channels that they use."""
        for node in self._graph.nodes:
            if node.outputs[0] in self._used:
                self._add_layer(node)
            elif node.outputs[0] not in self._moved:
                self._nodes.append(node)
            elif node.output in self._whole:
                there = self._new_places.keys().isdisjoint(self._moved[node.output])
                (self._keep_move if there else self._add_whole)(node)
        graph = replace(self._graph, nodes=tuple(self._nodes), tensors=self._tensors)
        return drop_unused_tensors(drop_unused(graph))

    def _needed_origins(self, node: Node) -> list[Origin]:
        """Return the original tensor and index of each channel that an operator will read.

        A layer needs those that it uses; a move whose result is read as a whole needs all channels
        of the result; other operators need none.
        """
        if node.outputs[0] in self._used:
            origins = self._moved[node.inputs[0]]
            return [origins[channel] for channel in self._used[node.outputs[0]].tolist()]
        return self._moved.get(node.outputs[0], []) if node.outputs[0] in self._whole else []

    def _can_move(self, number: int) -> bool:
        """Return whether only joins and selections read a tensor, and it is in no new join yet."""
        graph = self._graph
        if (
            number not in graph.producers
            or number in graph.leaving
            or (number, 0) in self._new_places
        ):
            return False
        readers = (graph.nodes[at] for at in graph.consumers[number])
        return all(reader.outputs[0] in self._moved for reader in readers)

    def _add_layer(self, node: Node) -> None:
        """Add a layer, and a join of the channels that it uses unless one tensor has them all."""
        wanted, source = self._needed_origins(node), self._graph.tensors[node.inputs[0]]
        new = [number for number in dict.fromkeys(n for n, _ in wanted) if self._can_move(number)]
        parts = [self._in_read_order(number, rising=at > 0) for at, number in enumerate(new)]
        old = [origin for origin in wanted if origin[0] not in new]
        known = {self._location(origin)[0] for origin in old}
        if new or len(known) > 1:
            old.sort(key=self._location)
            parts += [self._copy_channels(node, group) for group in _group_by_origin(old)]
            join, places = self._add_join(node, parts, source)
        else:
            (join,) = known
            places = {origin: self._location(origin)[1] for origin in old}
        weights = self._graph.tensors[node.inputs[1]]
        assert weights.data is not None
        depth = self._tensors[join].shape[-1]
        wider = np.zeros((*weights.data.shape[:-1], depth), np.int8)
        wider[..., [places[origin] for origin in wanted]] = weights.data[
            ..., self._used[node.outputs[0]]
        ]
        number = self._add_tensor(change_constant(weights, lambda _: wider))
        self._nodes.append(replace(node, inputs=(join, number, *node.inputs[2:])))

    def _keep_move(self, node: Node) -> None:
        """Add a move unchanged, after the moves that make its inputs, unless it has been added."""
        if node in self._nodes:
            return
        join = node.op is Op.CONCATENATION
        place = 0
        for number in node.inputs if join else node.inputs[:1]:
            if number in self._moved:
                self._keep_move(self._graph.nodes[self._graph.producers[number]])
                place += len(self._moved[number])
                continue
            for origin in self._own_origins(number):
                self._new_places.setdefault(origin, (node.output, place) if join else origin)
                place += 1
        self._nodes.append(node)

    def _add_whole(self, node: Node) -> None:
        """Add a join (CONCATENATION) with all channels of a move's result, which is read whole."""
        sources = node.inputs if node.op is Op.CONCATENATION else node.outputs
        parts: list[_Part] = []
        for number in sources:
            origins = self._moved.get(number) or self._own_origins(number)
            there = number in self._whole or number not in self._moved
            if number != node.outputs[0] and there and (number, 0) not in self._new_places:
                parts.append((number, origins))
            else:
                parts += self._copy_in_order(node, origins)
        self._add_join(node, parts, self._graph.tensors[node.output], node.output)

    def _model_index(self, node: Node) -> int:
        """Return the model-file index for a node that is added for `node`, a move or a layer.

        For a layer, it is that of the move that makes its input.
        """
        producers = self._graph.producers
        return (
            self._graph.nodes[producers[node.inputs[0]]].index
            if node.outputs[0] in self._used
            else node.index
        )

    def _own_origins(self, number: int) -> list[Origin]:
        """Return a pair (tensor number, channel index) for each channel of a tensor."""
        return [(number, channel) for channel in range(self._graph.tensors[number].shape[-1])]

    def _location(self, origin: Origin) -> Origin:
        """Return the tensor that contains a channel, and the channel's index in it."""
        return self._new_places.get(origin, origin)

    def _in_read_order(self, number: int, *, rising: bool) -> "_Part":
        """Sort the channels of a tensor by their first reader; return the tensor and its channels.

        Channels that are read earlier come first if `rising`, otherwise last. The convolution that
        makes the tensor is changed. A tensor that no convolution with constant weights makes keeps
        its order.
        """
        origins, never = self._own_origins(number), len(self._graph.nodes)
        at = next(at for at, node in enumerate(self._nodes) if number in node.outputs)
        producer = self._nodes[at]
        constants = [self._tensors[each] for each in producer.inputs[1:]]
        if producer.op is not Op.CONV_2D or any(each.data is None for each in constants):
            return number, origins
        sign = 1 if rising else -1
        origins.sort(key=lambda origin: sign * self._first.get(origin, never))
        channels = np.array([channel for _, channel in origins])
        inputs = [producer.inputs[0]]
        for place, constant in enumerate(constants, start=1):
            take = partial(np.take, indices=channels, axis=int(place == MULTIPLIERS))
            inputs.append(self._add_tensor(change_constant(constant, take, channels)))
        self._nodes[at] = replace(producer, inputs=tuple(inputs))
        return number, origins

    def _copy_in_order(self, node: Node, origins: list[Origin]) -> "list[_Part]":
        """Add copies that give channels this order; return them as parts of a join."""
        groups = _group_by_origin(origins)
        pieces = [self._copy_channels(node, group) for group in groups]
        if [each for group in groups for each in group] == origins:
            return pieces
        tensor = self._graph.tensors[node.output]
        join, places = self._add_join(node, pieces, tensor)
        return [self._add_copy(node, join, [places[each] for each in origins], origins)]

    def _copy_channels(self, node: Node, origins: list[Origin]) -> "_Part":
        """Add a copy of channels with the same tensor of origin; return it as a part of a join."""
        homes = [self._location(origin) for origin in origins]
        return self._add_copy(node, homes[0][0], [place for _, place in homes], origins)

    def _add_copy(
        self, node: Node, source: int, channels: list[int], origins: list[Origin]
    ) -> "_Part":
        """Add a copy of some channels of tensor `source`; return it, with their origins."""
        tensor = self._tensors[source]
        name = f"{tensor.name} channels"
        output = self._add_tensor(
            replace(tensor, name=name, shape=(*tensor.shape[:-1], len(channels)))
        )
        node = Node(op=Op.SLICE, inputs=(source,), outputs=(output,), index=self._model_index(node))
        if channels == list(range(channels[0], channels[-1] + 1)):
            attributes: Attributes = neighbouring_channels(tensor.shape, np.array(channels))
        else:
            attributes = UNCHANGED
            weights = self._add_tensor(
                selection_weights(tensor.shape[-1], np.array(channels), name)
            )
            node = replace(node, op=Op.CONV_2D, inputs=(source, weights))
        self._nodes.append(replace(node, attributes=attributes))
        return output, origins

    def _add_join(
        self, node: Node, parts: "list[_Part]", tensor: Tensor, number: int | None = None
    ) -> tuple[int, dict[Origin, int]]:
        """Add a CONCATENATION of parts; return its tensor number, and each channel's index in it.

        Later layers read channels from this join if they belong to tensors that were in no join
        before. The join makes tensor `number`; if it is None, a new one like `tensor`.
        """
        origins = [origin for _, part in parts for origin in part]
        if number is None:
            shape = (*tensor.shape[:-1], len(origins))
            number = self._add_tensor(replace(tensor, shape=shape))
        places = {origin: place for place, origin in enumerate(origins)}
        for each, part in parts:
            if self._can_move(each):
                self._new_places |= {origin: (number, places[origin]) for origin in part}
        self._nodes.append(
            Node(
                op=Op.CONCATENATION,
                inputs=tuple(each for each, _ in parts),
                outputs=(number,),
                attributes=Axis(axis=IMAGE_RANK - 1),
                index=self._model_index(node),
            )
        )
        return number, places

    def _add_tensor(self, tensor: Tensor) -> int:
        """Add a tensor; return its number."""
        number = max(self._tensors) + 1
        self._tensors[number] = tensor
        return number


#: Number of a tensor, and the origin of each of its channels.
_Part = tuple[int, list[Origin]]


def _group_by_origin(origins: list[Origin]) -> list[list[Origin]]:
    """Return channels grouped by the tensor that they come from, in order of first appearance."""
    groups: dict[int, list[Origin]] = {}
    for origin in origins:
        groups.setdefault(origin[0], []).append(origin)
    return list(groups.values())
