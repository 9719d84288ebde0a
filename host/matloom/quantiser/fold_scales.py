"""Folds factors and offsets by channel, such as those of normalisations, into layers."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from matloom.ir.attributes import (
    NO_PADDING,
    Activation,
    Arithmetic,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    TransposeConv,
)
from matloom.ir.graph import RESHAPES, Graph, Node, Op, Tensor
from matloom.ir.operators import OPERATORS
from matloom.ir.shapes import BIAS

_Numbers = npt.NDArray[np.float64]
#: Operators through which a factor of the first input can be moved to the result.
_LINEAR = RESHAPES | {Op.BATCH_MATMUL, Op.SLICE, Op.STRIDED_SLICE, Op.TRANSPOSE}
#: Attributes of layers whose outputs can be scaled.
_Attributes = Conv2D | FullyConnected | TransposeConv


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scale:
    """MUL, ADD or SUB of a tensor and constants: ``activation(source * factor + offset)``.

    `factor` and `offset` are by channel, (channels,), and one of them has no effect.
    """

    source: int
    factor: _Numbers
    offset: _Numbers
    activation: Activation


def fold_scales(graph: Graph) -> Graph:
    """Return a float network whose MUL, ADD and SUB of channel constants are folded into layers.

    They become part of the weights and bias of the layer before them, if nothing else reads its
    output. A factor that is equal for all elements is also moved across moves and products of
    computed tensors. Otherwise, they become part of the layers that read the result, if only layers
    read it. An offset in front of a layer that pads its input is kept.
    """
    at = 0
    while at < len(graph.nodes):
        changed = _fold_node(graph, graph.nodes[at])
        # An offset may have stood between a factor and the layers that read it.
        graph, at = (graph, at + 1) if changed is None else (changed, 0)
    return graph


def _fold_node(graph: Graph, node: Node) -> Graph | None:
    """Return the graph with a node folded into layers; None if it cannot be folded."""
    scale = _scale_of(graph, node)
    if scale is None:
        return None
    if scale.source in graph.producers:
        producer = graph.nodes[graph.producers[scale.source]]
        if _producer_may_scale(graph, producer, scale):
            made = _scale_outputs(_Layer.from_node(graph, producer), scale)
            attributes = producer.attributes
            assert isinstance(attributes, _Attributes)
            attributes = replace(attributes, activation=scale.activation)
            changed = replace(producer, outputs=node.outputs, attributes=attributes)
            return _with_layers(graph, node, [(producer, changed, made)])
    moved = _fold_across_moves(graph, node, scale)
    if moved is not None:
        return moved
    readers = [graph.nodes[at] for at in graph.consumers[node.output]]
    if node.output in graph.leaving or not readers or scale.activation is not Activation.NONE:
        return None
    if not all(_reader_may_scale(graph, each, node.output, scale) for each in readers):
        return None
    return _with_layers(
        graph,
        node,
        [
            (
                each,
                replace(each, inputs=(scale.source, *each.inputs[1:])),
                _scale_inputs(each, _Layer.from_node(graph, each), scale),
            )
            for each in readers
        ],
    )


def _fold_across_moves(graph: Graph, node: Node, scale: _Scale) -> Graph | None:
    """Return the graph with a scalar factor folded into a layer across moves and products.

    Queries of attention have such a factor: a MUL behind a layer, a RESHAPE and a TRANSPOSE. Return
    None if the factor cannot be folded.
    """
    uniform = not scale.offset.any() and np.ptp(scale.factor) == 0
    if not uniform or scale.activation is not Activation.NONE:
        return None
    last = number = scale.source
    while _has_one_reader(graph, number) and number in graph.producers:
        producer = graph.nodes[graph.producers[number]]
        if isinstance(producer.attributes, _Attributes) and number != last:
            whole = replace(scale, source=number)
            if not _producer_may_scale(graph, producer, whole):
                return None
            layer = _Layer.from_node(graph, producer)
            factor = np.full(layer.bias.shape, scale.factor[0])
            made = _scale_outputs(
                layer, replace(whole, factor=factor, offset=np.zeros_like(factor))
            )
            changed = _with_layers(graph, node, [(producer, producer, made)])
            nodes = [
                replace(each, outputs=node.outputs) if each.outputs == (last,) else each
                for each in changed.nodes
            ]
            return replace(changed, nodes=tuple(nodes))
        if producer.op not in _LINEAR:
            return None
        number = producer.inputs[0]
    return None


def _has_one_reader(graph: Graph, number: int) -> bool:
    """Return whether one node reads a tensor, and it is not an output."""
    return len(graph.consumers[number]) == 1 and number not in graph.leaving


def _scale_of(graph: Graph, node: Node) -> _Scale | None:
    """Return the scale that a node applies; None unless it uses constants by channel."""
    if node.op not in (Op.ADD, Op.MUL, Op.SUB):
        return None
    operands = [graph.tensors[number] for number in node.inputs]
    places = [at for at, tensor in enumerate(operands) if tensor.data is not None]
    if len(places) != 1 or (node.op is Op.SUB and places == [0]):
        return None
    (place,) = places
    constant, source = operands[place], operands[1 - place]
    shape = graph.tensors[node.output].shape
    if source.dtype != "float32" or source.shape != shape or not shape:
        return None
    channels = shape[-1]
    if constant.size > 1 and (constant.size, constant.shape[-1]) != (channels, channels):
        return None
    assert constant.data is not None
    numbers = np.broadcast_to(constant.data.reshape(-1).astype(np.float64), channels)
    ones, zeros = np.ones(channels), np.zeros(channels)
    return _Scale(
        source=node.inputs[1 - place],
        factor=numbers if node.op is Op.MUL else ones,
        offset={Op.ADD: numbers, Op.MUL: zeros, Op.SUB: -numbers}[node.op],
        activation=node.attributes_as(Arithmetic).activation,
    )


def _is_layer(graph: Graph, node: Node) -> bool:
    """Return whether a node is a layer of floats with constant weights."""
    if OPERATORS[node.op].weight_axis is None:
        return False
    tensors = [graph.tensors[number] for number in node.inputs]
    constant = all(tensor.data is not None for tensor in tensors[1:])
    return constant and all(tensor.dtype == "float32" for tensor in tensors)


def _producer_may_scale(graph: Graph, producer: Node, scale: _Scale) -> bool:
    """Return whether a scale can become part of `producer`, which computes its source."""
    attributes = producer.attributes
    if not _has_one_reader(graph, scale.source) or not isinstance(attributes, _Attributes):
        return False
    return attributes.activation is Activation.NONE and _is_layer(graph, producer)


def _reader_may_scale(graph: Graph, reader: Node, number: int, scale: _Scale) -> bool:
    """Return whether a scale can become part of an operator that reads its result, `number`."""
    if reader.inputs.count(number) != 1 or reader.inputs[0] != number:
        return False
    if not _is_layer(graph, reader):
        return False
    if reader.op is Op.FULLY_CONNECTED:
        return graph.tensors[reader.inputs[1]].shape[1] == len(scale.factor)
    if not scale.offset.any():
        return True
    attributes = reader.attributes
    return isinstance(attributes, Conv2D) and attributes.padding == NO_PADDING


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layer:
    """Weights and bias (channels,) of a layer; `axis` is that of the weights' output channels."""

    weights: _Numbers
    bias: _Numbers
    axis: int

    @classmethod
    def from_node(cls, graph: Graph, node: Node) -> "_Layer":
        """Return the weights and bias of a layer; the bias is zero if it has none."""
        axis = OPERATORS[node.op].weight_axis
        assert axis is not None
        weights, *rest = (_constant_data(graph.tensors[number]) for number in node.inputs[1:])
        bias = rest[0].reshape(-1) if rest else np.zeros(weights.shape[axis])
        return cls(weights=weights, bias=bias, axis=axis)


def _constant_data(tensor: Tensor) -> _Numbers:
    """Return a constant's data as float64."""
    assert tensor.data is not None
    return tensor.data.astype(np.float64)


def _scale_outputs(layer: _Layer, scale: _Scale) -> _Layer:
    """Return the layer with a scale applied to its results."""
    shape = [1] * layer.weights.ndim
    shape[layer.axis] = -1
    return replace(
        layer,
        weights=layer.weights * scale.factor.reshape(shape),
        bias=layer.bias * scale.factor + scale.offset,
    )


def _scale_inputs(node: Node, layer: _Layer, scale: _Scale) -> _Layer:
    """Return the layer that reads a scale's source and gives the results for the scaled input."""
    factor, offset = scale.factor, scale.offset
    if node.op is Op.DEPTHWISE_CONV_2D:
        multiplier = node.attributes_as(DepthwiseConv2D).depth_multiplier
        factor, offset = np.repeat(factor, multiplier), np.repeat(offset, multiplier)
    # Inputs are the last axis of weights, in depthwise layers too.
    added = layer.weights * offset
    others = tuple(axis for axis in range(added.ndim) if axis != layer.axis)
    return replace(layer, weights=layer.weights * factor, bias=layer.bias + added.sum(axis=others))


def _with_layers(graph: Graph, node: Node, changes: list[tuple[Node, Node, _Layer]]) -> Graph:
    """Return the graph without `node`, whose scales the layers in `changes` include now.

    Each change consists of a layer's node, the node that replaces it, and its weights and bias.
    """
    tensors, replaced = dict(graph.tensors), dict[int, Node]()
    for before, after, layer in changes:
        numbers = [max(tensors) + 1, max(tensors) + 2]
        weights, bias = (data.astype(np.float32) for data in (layer.weights, layer.bias))
        tensors[numbers[0]] = replace(tensors[before.inputs[1]], data=weights)
        name = f"{tensors[after.output].name}:bias"
        tensors[numbers[1]] = Tensor(name=name, shape=bias.shape, dtype="float32", data=bias)
        if len(before.inputs) > BIAS:
            given = tensors[before.inputs[BIAS]]
            tensors[numbers[1]] = replace(given, data=bias.reshape(given.shape))
        replaced[before.output] = replace(after, inputs=(after.inputs[0], *numbers))
    nodes = tuple(
        replaced.get(each.outputs[0], each) for each in graph.nodes if each.outputs != node.outputs
    )
    return replace(graph, tensors=tensors, nodes=nodes)
