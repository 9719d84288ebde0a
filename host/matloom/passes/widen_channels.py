"""Widens tensors by the channels that a PAD would add, where the engine computes them for free.

Networks such as BlazeFace add a tensor to one of more channels, through a PAD. The array makes
whole blocks of channels, so a layer of 24 channels makes 32 in the same time. The tensors around
such an ADD all get as many channels as the widest of them; the added channels are at the zero
point.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from matloom.arch.config import Config
from matloom.ir.attributes import DepthwiseConv2D, Pad
from matloom.ir.graph import Array, Graph, Node, Op, Quantisation, Tensor
from matloom.ir.shapes import IMAGE_RANK
from matloom.passes.drop_unused import drop_unused_tensors

#: Operators whose inputs and output have the same channels.
_CHANNEL_BY_CHANNEL = (Op.ADD, Op.DEPTHWISE_CONV_2D, Op.MAX_POOL_2D)
#: Operators that read all channels for each of their own.
_MIXES_CHANNELS = (Op.CONV_2D,)


def widen_channels(graph: Graph, config: Config) -> Graph:
    """Return the graph without PADs of channels that add no block of channels.

    A group of tensors is widened if only layers with constant weights, ADD and MAX_POOL_2D make and
    read them. Without `has_result_sums`, the graph is returned unchanged: POST takes several passes
    over each tensor that is added, and each would take longer.
    """
    pads = [node for node in graph.nodes if _widens(graph, node, config.columns)]
    if not pads or not config.has_result_sums:
        return graph
    group_of = _groups_of_equal_width(graph, pads)
    widths: dict[int, int] = defaultdict(int)
    for number, group in group_of.items():
        widths[group] = max(widths[group], _channel_count(graph, number))
    fixed = {group_of[number] for number in _fixed_maps(graph, group_of)}
    wide = {
        number: widths[group]
        for number, group in group_of.items()
        if group not in fixed and any(group_of[pad.output] == group for pad in pads)
    }
    return _Widening(graph, wide).result() if wide else graph


def _channel_count(graph: Graph, number: int) -> int:
    """Return the number of channels of a tensor."""
    return graph.tensors[number].shape[-1]


def pads_channels(graph: Graph, node: Node) -> bool:
    """Return whether an operator only adds channels of zero after those of an int8 image."""
    if node.op not in (Op.PAD, Op.PADV2):
        return False
    data, output = graph.tensors[node.inputs[0]], graph.tensors[node.output]
    edges = node.attributes_as(Pad)
    if output.dtype != "int8" or data.quantisation != output.quantisation:
        return False
    last = not any(edges.before) and not any(edges.after[:-1])
    return last and len(edges.after) == IMAGE_RANK and edges.value in (None, output.zero_point)


def _widens(graph: Graph, node: Node, columns: int) -> bool:
    """Return whether a PAD adds channels without adding a block of `columns` channels."""
    if not pads_channels(graph, node):
        return False
    blocks = {-(-_channel_count(graph, each) // columns) for each in (node.inputs[0], node.output)}
    return len(blocks) == 1


def _computed_tensors(graph: Graph, node: Node) -> list[int]:
    """Return the inputs of an operator that are not constant, and its output."""
    return [each for each in (*node.inputs, node.output) if graph.tensors[each].data is None]


def _groups_of_equal_width(graph: Graph, pads: Iterable[Node]) -> Mapping[int, int]:
    """Return a group for each tensor; all tensors of a group must have equally many channels.

    Tensors are in one group, named by one of its members, if an operator or one of `pads` needs
    them to be equally wide.
    """
    group_of = {number: number for number in graph.tensors}
    members = {number: [number] for number in graph.tensors}
    joined = [node for node in graph.nodes if node.op in _CHANNEL_BY_CHANNEL]
    for node in (*joined, *pads):
        first, *others = [group_of[number] for number in _computed_tensors(graph, node)]
        for other in set(others) - {first}:
            for number in members[other]:
                group_of[number] = first
            members[first] += members.pop(other)
    return group_of


def _fixed_maps(graph: Graph, group_of: Mapping[int, int]) -> set[int]:
    """Return the tensors whose number of channels must not change."""
    fixed = {*graph.entering, *graph.leaving}
    for node in graph.nodes:
        if node.op in _MIXES_CHANNELS and _has_plain_weights(graph, node):
            continue
        if node.op in _CHANNEL_BY_CHANNEL and _keeps_zeros(graph, node):
            continue
        if pads_channels(graph, node):
            continue
        fixed |= {*node.inputs, *node.outputs}
    return fixed & group_of.keys()


def _keeps_zeros(graph: Graph, node: Node) -> bool:
    """Return whether added channels of zeros in the inputs of an operator stay zeros."""
    if node.op is Op.DEPTHWISE_CONV_2D:
        single = node.attributes_as(DepthwiseConv2D).depth_multiplier == 1
        return single and _has_plain_weights(graph, node)
    images = [graph.tensors[number] for number in _computed_tensors(graph, node)]
    shapes = {tensor.shape for tensor in images} if node.op is Op.ADD else {images[-1].shape}
    every = len(images) == len(node.inputs) + 1
    return every and len(shapes) == 1 and all(tensor.dtype == "int8" for tensor in images)


def _has_plain_weights(graph: Graph, node: Node) -> bool:
    """Return whether a layer has int8 input, output and weights, and only constant parameters."""
    data, *constants = (graph.tensors[number] for number in node.inputs)
    output = graph.tensors[node.output]
    types = {data.dtype, output.dtype, constants[0].dtype}
    return types == {"int8"} and all(each.data is not None for each in constants)


class _Widening:
    """Builder of a graph in which the tensors in `wide` have the channel counts given there."""

    def __init__(self, graph: Graph, wide: Mapping[int, int]) -> None:
        self._graph, self._wide = graph, wide
        self._tensors, self._nodes = dict(graph.tensors), list[Node]()
        self._same: dict[int, int] = {}
        for number, channels in wide.items():
            tensor = graph.tensors[number]
            self._same[number] = self._add_tensor(
                replace(tensor, shape=(*tensor.shape[:-1], channels))
            )

    def _add_tensor(self, tensor: Tensor) -> int:
        """Add a tensor; return its number."""
        number = max(self._tensors) + 1
        self._tensors[number] = tensor
        return number

    def result(self) -> Graph:
        """Return the graph with the wider tensors."""
        for node in self._graph.nodes:
            if pads_channels(self._graph, node):
                self._append_pad(node)
            elif {*node.inputs, *node.outputs}.isdisjoint(self._wide):
                self._nodes.append(node)
            else:
                self._append(node)
        nodes = tuple(self._nodes)
        return drop_unused_tensors(replace(self._graph, tensors=self._tensors, nodes=nodes))

    def _append(self, node: Node) -> None:
        """Append an operator on wider tensors, with constants for their channels."""
        inputs = tuple(self._same.get(number, number) for number in node.inputs)
        outputs = tuple(self._same.get(number, number) for number in node.outputs)
        if node.op in (*_MIXES_CHANNELS, Op.DEPTHWISE_CONV_2D):
            changes: list[tuple[int, int]] = [(inputs[0], -1), (outputs[0], 0)]
            if node.op is Op.DEPTHWISE_CONV_2D:
                changes = [(outputs[0], -1)]
            inputs = (inputs[0], *self._add_constants(node, changes))
        self._nodes.append(replace(node, inputs=inputs, outputs=outputs))

    def _add_constants(self, node: Node, changes: list[tuple[int, int]]) -> list[int]:
        """Add a layer's constants for more input and output channels; return their numbers.

        `changes` has pairs of a map and the axis of the weights that has the map's channels.
        """
        weights, *others = node.inputs[1:]
        changed = weights
        for number, axis in changes:
            changed = self._extend_constant(changed, axis, self._tensors[number].shape[-1], np.pad)
        outputs = self._tensors[self._same.get(node.output, node.output)].shape[-1]
        # Biases are zero in new channels, multipliers and shifts those of the last one.
        rules: tuple[Callable[..., Array], ...] = (np.pad, partial(np.pad, mode="edge"))
        return [
            changed,
            *(
                self._extend_constant(number, -1, outputs, rule)
                for number, rule in zip(others, rules, strict=False)
            ),
        ]

    def _extend_constant(
        self, number: int, axis: int, length: int, pad: Callable[..., Array]
    ) -> int:
        """Add a constant that `pad` extends to a length along an axis; return its tensor number.

        Scales along the axis are extended, too. Return `number` if the constant is long enough.
        """
        tensor = self._tensors[number]
        assert tensor.data is not None
        axis %= tensor.data.ndim
        more = length - tensor.shape[axis]
        if not more:
            return number
        edges = [(0, more if at == axis else 0) for at in range(tensor.data.ndim)]
        data = pad(tensor.data, edges)
        scales = tensor.quantisation
        if scales is not None and scales.axis == axis and len(scales.scale) > 1:
            scales = _extend_scales(scales, more)
        return self._add_tensor(replace(tensor, data=data, shape=data.shape, quantisation=scales))

    def _append_pad(self, node: Node) -> None:
        """Append a PAD of the channels that its input still lacks; nothing if it lacks none."""
        source, output = (self._same.get(each, each) for each in (node.inputs[0], node.output))
        more = self._tensors[output].shape[-1] - self._tensors[source].shape[-1]
        if not more:
            self._same[node.output] = source
            return
        edges = node.attributes_as(Pad)
        attributes = replace(edges, after=(*edges.after[:-1], more))
        self._nodes.append(
            replace(
                node,
                inputs=(source, *node.inputs[1:]),
                outputs=(output,),
                attributes=attributes,
            )
        )


def _extend_scales(scales: Quantisation, more: int) -> Quantisation:
    """Return scales by channel, with the last scale repeated for `more` added channels."""
    pairs = (scales.scale, scales.zero_point)
    scale, zero_point = ((*each, *each[-1:] * more) for each in pairs)
    return replace(scales, scale=scale, zero_point=zero_point)
